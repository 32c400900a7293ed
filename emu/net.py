"""The only module that talks to Mininet: it builds what the fabric says, no more.

Mininet's own way is some commands per interface, each through a shell: half a minute for
`fat-tree:k=8`.  Here Mininet makes the hosts, and links and ports are made by a few batches; then Mininet
is told about them, so its prompt and its `net` object work as ever.
"""

import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node

from emu import shaping
from emu.fabric import Fabric, interface
from emu.plan import Transport
from emu.switch.node import GradwireSwitch

HOST_SYSCTLS = {
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_congestion_control": "reno",  # of all but the agents, whose sockets choose their own
    "net/ipv6/conf/all/disable_ipv6": "1",
}
_COMMAND_S = 60


class NetworkFailed(OSError):
    """A command that builds the network was refused; the text is its first line of complaint."""


class _MadeLink(Link):
    """A Mininet link whose interfaces exist already."""

    def makeIntfPair(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: see `_make_links`."""


class _MadeIntf(Intf):
    """One of those: set up in a batch, so Mininet has nothing to configure and nothing to ask."""

    def config(self, **params: Any) -> dict[str, Any]:
        del params
        return {}


def prepare_namespace() -> None:
    """Loopback up, no IPv6 chatter, a private bpffs: for the namespaces that the run has for itself."""
    _run(["ip", "link", "set", "lo", "up"])
    _write_sysctls({"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"})
    _run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"])


@contextmanager
def emulated(
    fabric: Fabric, transport: Transport, flows_at: Counter[str], checksum_offload: bool = True
) -> Iterator[Mininet]:
    """A Mininet with all links shaped and up, and no forwarding yet; gone again, whatever happens inside.

    `flows_at` counts the flows that can meet at each interface (for `queue=auto`).
    `checksum_offload=False` is for switches that are handed packets in user space.
    """
    Mininet.inited = True  # its init would raise limits of the whole machine
    net = Mininet(controller=None, build=False)
    try:
        hosts = {host: net.addHost(host, ip=None) for host in fabric.hosts}
        switches = {
            switch: net.addSwitch(switch, GradwireSwitch, dpid=f"{fabric.dpid(switch):016x}")
            for switch in fabric.switches
        }
        with _links(fabric, transport, {name: host.pid for name, host in hosts.items()}):
            _tell_mininet(net, fabric, hosts | switches)
            _shape(fabric, transport, flows_at, checksum_offload)
            _configure_hosts(fabric, transport, flows_at, hosts, checksum_offload)
            net.built = True
            yield net
            net.links.clear()  # else Mininet would delete them one by one
    finally:
        net.stop()


@contextmanager
def _links(fabric: Fabric, transport: Transport, pid_of: dict[str, int]) -> Iterator[None]:
    _batch(["ip", "-batch", "-"], shaping.links_batch(fabric.links, transport))
    try:
        _batch(["ip", "-batch", "-"], shaping.move_batch(fabric, pid_of))
        yield
    finally:
        _run(["ip", "link", "delete", "group", str(shaping.LINK_GROUP)])


def _tell_mininet(net: Mininet, fabric: Fabric, nodes: dict[str, Node]) -> None:
    for link in fabric.links:
        a, b = interface(link.a, link.a_port), interface(link.b, link.b_port)
        net.addLink(
            nodes[link.a],
            nodes[link.b],
            link.a_port,
            link.b_port,
            cls=_MadeLink,
            intfName1=a,
            intfName2=b,
            intf=Intf,
        )
    for host in fabric.hosts:
        made = nodes[host].intf()
        made.ip, made.prefixLen, made.mac = fabric.ip(host), 16, fabric.mac(host)


def _shape(fabric: Fabric, transport: Transport, flows_at: Counter[str], checksum_offload: bool) -> None:
    """The switches' ports."""
    ends = [(end, rate) for end, rate in fabric.rates.items() if end.node not in fabric.hosts]
    lines: list[str] = []
    for end, rate_bps in ends:
        name = interface(end.node, end.port)
        lines += shaping.port_batch(name, rate_bps, shaping.queue_nbytes(fabric, transport, flows_at[name]))
    _batch(["tc", "-batch", "-"], lines)
    if not checksum_offload:
        for end, _ in ends:
            _offloads_off(interface(end.node, end.port))


def _offloads_off(name: str, prefix: Iterable[str] = ()) -> None:
    _run([*prefix, "ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off"])


def _configure_hosts(
    fabric: Fabric,
    transport: Transport,
    flows_at: Counter[str],
    hosts: dict[str, Node],
    checksum_offload: bool,
) -> None:
    """All hosts at once: one shell each, inside its namespace."""
    settings = "".join(f"echo {value} > /proc/sys/{key}\n" for key, value in HOST_SYSCTLS.items())
    running = []
    for host, node in hosts.items():
        name = interface(host, 0)
        ((_, rate_bps),) = [(end, rate) for end, rate in fabric.rates.items() if end.node == host]
        queue = shaping.queue_nbytes(fabric, transport, flows_at[name])
        ip_lines = "\n".join(shaping.host_batch(fabric, host))
        tc_lines = "\n".join(shaping.port_batch(name, rate_bps, queue))
        script = (
            f"set -e\n{settings}ip -batch - <<'EOF'\n{ip_lines}\nEOF\ntc -batch - <<'EOF'\n{tc_lines}\nEOF\n"
        )
        if not checksum_offload:
            script += f"ethtool -K {name} tx off tso off gso off gro off\n"
        command = [*enter(node.pid), "sh", "-s"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stdin
        process.stdin.write(script)
        process.stdin.close()
        running.append((host, process))
    for host, process in running:
        assert process.stderr
        complaint = process.stderr.read()
        if process.wait(_COMMAND_S):
            raise NetworkFailed(
                f"host {host}: {complaint.strip().splitlines()[0] if complaint else 'set-up failed'}"
            )


def enter(pid: int) -> list[str]:
    """The command that runs another one in the network namespace of process `pid`."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def _write_sysctls(values: dict[str, str]) -> None:
    for key, value in values.items():
        path = Path("/proc/sys") / key
        if path.exists():
            path.write_text(value)


def _batch(command: list[str], lines: Iterable[str]) -> None:
    _run(command, "\n".join(lines) + "\n")


def _run(command: list[str], stdin: str = "") -> None:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=_COMMAND_S, check=False
    )
    if done.returncode:
        complaint = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NetworkFailed(f"{' '.join(command[:3])}: {complaint[0]}")

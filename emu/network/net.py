"""Builds the network that a fabric describes, in Mininet's terms; no other module builds networks.

Mininet's own way is some commands per interface, each through a shell: half a minute for
`fat-tree:k=8`.  Here hosts, links and ports are made by a few batches; then Mininet gets to know them, so
its prompt and its `net` object work as ever.
"""

import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from mininet.net import Mininet

from gradwire.emu.kernel import offload, rtnetlink
from gradwire.emu.kernel.isolate import PRIVATE
from gradwire.emu.kernel.namespaces import HostFailed, hosts_started, inside
from gradwire.emu.network import htb, shaping, underlay
from gradwire.emu.network.cables import await_carriers
from gradwire.emu.network.netem import need_netem
from gradwire.emu.network.nodes import MadeHost, MadeIntf, MadeLink, MadeSwitch
from gradwire.planning.fabrics.fabric import (
    AGGREGATOR_IP,
    AGGREGATOR_MAC,
    HOST_PORT,
    Egress,
    Fabric,
    Link,
    interface,
)
from gradwire.planning.machines.part import Part
from gradwire.planning.plan import Flow
from gradwire.planning.transport import (
    Transport,
    initial_window_packets,
    segment_nbytes,
    small_queue_nbytes,
)

HOST_SYSCTLS = {
    "net/ipv4/tcp_pacing_ss_ratio": "1000",  # per cent of what its window allows: nothing is paced
    "net/ipv4/tcp_pacing_ca_ratio": "1000",
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_congestion_control": "reno",  # on loopback; to other hosts by their routes
    "net/ipv6/conf/all/disable_ipv6": "1",
}
_LEAST_BUFFER_NBYTES = 4096  # of a socket when memory is short, as Linux has it
_LOOPBACK = 1  # its index in every network namespace
_PREFIX_LENGTH = 16
_COMMAND_S = 60

ShapeOf = Callable[[Egress], shaping.PortShape]


class NetworkFailed(OSError):
    """A command that builds the network was refused; the text is its first line of complaint."""


def host_sysctls(transport: Transport, mtu_nbytes: int) -> dict[str, str]:
    """Set in every host: TCP has there by itself the buffers that a replay's agents ask for, so that a job
    that is trained live has the same windows.  Linux doubles what is asked for (socket(7)).  How much of a
    connection waits in queues does not depend on what it was able to send so far, as the pace by which
    Linux reckons that is always beyond `small_queue_nbytes`.
    """
    limit_nbytes = small_queue_nbytes(segment_nbytes(transport.gso_max_nbytes, mtu_nbytes))
    rmem, wmem = 2 * transport.rcvbuf_nbytes, 2 * transport.sndbuf_nbytes
    return HOST_SYSCTLS | {
        "net/ipv4/tcp_rmem": f"{_LEAST_BUFFER_NBYTES} {rmem} {rmem}",
        "net/ipv4/tcp_wmem": f"{_LEAST_BUFFER_NBYTES} {wmem} {wmem}",
        "net/ipv4/tcp_limit_output_bytes": str(int(limit_nbytes)),
    }


def host_route(
    fabric: Fabric, transport: Transport, *, checksum_offload: bool = True, loses: bool = False
) -> dict[str, Any]:
    """TCP's settings in every host's route to the others, named as in `ip route`; why: docs/design.md,
    section 6.

    Linux's own where cables lose packets by plan, as TCP has to adapt then, and without `checksum_offload`:
    switches get packets in user space, and to acknowledge each of these would cost more.  `initcwnd` is in
    packets, None for Linux's own ten.
    """
    is_set = checksum_offload and not loses
    return {
        "congestion": transport.congestion_control,
        "quickack": is_set,
        "initcwnd": initial_window_packets(fabric, transport) if is_set else None,
    }


def prepare_namespace(part: Part | None = None) -> None:
    """Loopback up, no IPv6 chatter, a private bpffs and PRIVATE: for namespaces that the run has for itself.

    Outside, PRIVATE is an empty folder.  Loopback has the address at which the controller of a `part` hears
    the switches of other machines, if the controller is here.
    """
    _run(["ip", "link", "set", "lo", "up"])
    if part and part.runs_controller:
        _run(["ip", "address", "add", f"{part.controller_ip}/32", "dev", "lo"])
    _write_sysctls({"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"})
    _run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"])
    PRIVATE.mkdir(exist_ok=True)
    _run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", str(PRIVATE)])


@contextmanager
def emulated(
    fabric: Fabric,
    transport: Transport,
    flows: Iterable[Flow] | None,
    checksum_offload: bool = True,
    windows_at: Counter[str] | None = None,
    part: Part | None = None,
    *,
    loses: bool = False,
) -> Iterator[Mininet]:
    """A Mininet with all links shaped and up, and no forwarding yet; gone again, whatever happens inside.

    For `queue=auto`: `flows` are those that can meet, None where any host may send to any; `windows_at` the
    bytes that can wait at each interface of what switches add up.
    `checksum_offload=False` is for switches that are handed packets in user space, `loses` for
    cables that lose packets by plan: see `host_route`.
    Of a fabric on several machines only this `part` is made, with the tunnels to the others.  Raise OSError.
    """
    need_netem(fabric)
    windows_at = windows_at or Counter()
    flows_at = Counter(interface(end.node, end.port) for flow in flows or () for end in flow.path)

    def shape_of(end: Egress) -> shaping.PortShape:
        name = interface(end.node, end.port)
        n_flows = shaping.most_flows(fabric, end) if flows is None else flows_at[name]
        return shaping.port_shape(fabric, transport, end, n_flows, windows_at[name])

    with ExitStack() as stack:
        try:
            pid_of = stack.enter_context(hosts_started(part.hosts(fabric) if part else fabric.hosts))
        except HostFailed as error:
            raise NetworkFailed(str(error)) from error
        stack.enter_context(_links(fabric, transport, pid_of, part))
        ends = shaping.switch_ends(fabric, part)
        _shape(ends, shape_of, checksum_offload)
        _configure_hosts(fabric, transport, shape_of, pid_of, checksum_offload, windows_at, loses)
        tunnels = {tunnel.interface for tunnel in part.tunnels} if part else set()  # they have no carrier
        names = {interface(*end) for end in ends}
        await_carriers([socket.if_nametoindex(name) for name in names - tunnels])
        net = _as_mininet(fabric, pid_of, part)
        try:
            yield net
        finally:
            net.links.clear()  # else Mininet would delete them one by one
            net.stop()


@contextmanager
def _links(
    fabric: Fabric, transport: Transport, pid_of: Mapping[str, int], part: Part | None
) -> Iterator[None]:
    if part:
        underlay.make_tunnels(part, fabric, transport)
    try:
        if part:
            _batch(["ip", "-batch", "-"], _control_batch(part))
        _batch(["ip", "-batch", "-"], shaping.links_batch(fabric, transport, pid_of, part))
        yield
    finally:
        _run(["ip", "link", "delete", "group", str(shaping.LINK_GROUP)])


def _control_batch(part: Part) -> Iterator[str]:
    for control in part.controls:
        name = control.tunnel.interface
        yield f"address add {control.near_ip} peer {control.far_ip} dev {name}"
        yield f"link set dev {name} up"


def _as_mininet(fabric: Fabric, pid_of: Mapping[str, int], part: Part | None) -> Mininet:
    """Mininet's own view of what has been made."""
    Mininet.inited = True  # its init would raise limits of the whole machine
    net = Mininet(controller=None, build=False)
    for host, pid in pid_of.items():
        net.addHost(host, MadeHost, ip=None, pid=pid)
    for switch in part.switches(fabric) if part else fabric.switches:
        net.addSwitch(switch, MadeSwitch, dpid=f"{fabric.dpid(switch):016x}")
    connect_nodes(net, fabric, [link for link in fabric.links if link.a in net and link.b in net])
    net.built = True
    return net


def connect_nodes(
    net: Mininet, fabric: Fabric, links: Iterable[Link], kind: Callable[[str], type[MadeIntf]] | None = None
) -> None:
    """Let Mininet know these cables of the fabric, and the addresses of their hosts; `kind` is that of a
    node's interfaces, if they are not all alike.
    """
    for link in links:
        made = net.addLink(
            net[link.a],
            net[link.b],
            link.a_port,
            link.b_port,
            cls=MadeLink,
            intfName1=interface(link.a, link.a_port),
            intfName2=interface(link.b, link.b_port),
            addr1=None,
            addr2=None,
            intf=MadeIntf,
            cls1=kind(link.a) if kind else None,
            cls2=kind(link.b) if kind else None,
        )
        for port in (made.intf1, made.intf2):
            host = port.node.name
            if host in fabric.host_set:
                port.ip, port.prefixLen, port.mac = fabric.ip(host), _PREFIX_LENGTH, fabric.mac(host)


def _shape(ends: Collection[Egress], shape_of: ShapeOf, checksum_offload: bool) -> None:
    """The switches' ports."""
    lines: list[str] = []
    for end in ends:
        lines += shaping.port_batch(interface(end.node, end.port), shape_of(end))
    _batch(["tc", "-batch", "-"], lines)
    if not checksum_offload:
        for end in ends:
            _offloads_off(interface(end.node, end.port))


def _offloads_off(name: str) -> None:
    _run(["ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off"])


def _configure_hosts(
    fabric: Fabric,
    transport: Transport,
    shape_of: ShapeOf,
    pid_of: Mapping[str, int],
    checksum_offload: bool,
    sums_at: Collection[str],
    loses: bool,
) -> None:
    """Every host's own settings, from inside its namespace and without a process.

    At the interfaces of `sums_at` the kernel cuts UDP's super-packets before they leave: a switch that adds
    up would find one header for all of them.
    """
    sysctls = host_sysctls(transport, fabric.mtu_nbytes)
    tcp = host_route(fabric, transport, checksum_offload=checksum_offload, loses=loses)
    neighbours_at: dict[int, dict[str, rtnetlink.Request]] = {}  # by interface, whose index most share
    for host, pid in pid_of.items():
        name = interface(host, HOST_PORT)
        with inside(pid):
            _write_sysctls(sysctls)
            ifindex = socket.if_nametoindex(name)
            if ifindex not in neighbours_at:
                neighbours_at[ifindex] = _neighbours(fabric, ifindex)
            route = rtnetlink.tcp_route(
                ifindex,
                fabric.ip(host),
                _PREFIX_LENGTH,
                tcp["congestion"],
                tcp["initcwnd"],
                acknowledges_at_once=tcp["quickack"],
            )
            rtnetlink.carry_out(_addresses(fabric, host, ifindex, route, neighbours_at[ifindex]))
            rtnetlink.carry_out(htb.requests(ifindex, shape_of(Egress(host, HOST_PORT))))
            if name in sums_at:
                offload.switch_off(name, offload.UDP_SEGMENTATION)
            if not checksum_offload:
                _offloads_off(name)


def _addresses(
    fabric: Fabric,
    host: str,
    ifindex: int,
    route: rtnetlink.Request,
    neighbours: Mapping[str, rtnetlink.Request],
) -> Iterator[rtnetlink.Request]:
    """A host's address, how it sends, and everybody else in its neighbour table (no ARP)."""
    yield rtnetlink.link_up(_LOOPBACK)
    yield rtnetlink.link_up(ifindex)
    yield rtnetlink.address(ifindex, fabric.ip(host), _PREFIX_LENGTH)
    yield route
    yield from (neighbour for other, neighbour in neighbours.items() if other != host)


def _neighbours(fabric: Fabric, ifindex: int) -> dict[str, rtnetlink.Request]:
    """All hosts, and who adds up, as neighbours at an interface."""
    addresses = {host: (fabric.ip(host), fabric.mac(host)) for host in fabric.hosts}
    addresses[AGGREGATOR_IP] = AGGREGATOR_IP, AGGREGATOR_MAC
    return {who: rtnetlink.neighbour(ifindex, *address) for who, address in addresses.items()}


def _write_sysctls(values: dict[str, str]) -> None:
    for key, value in values.items():
        with suppress(FileNotFoundError), open(f"/proc/sys/{key}", "wb", buffering=0) as file:
            file.write(value.encode())


def _batch(command: list[str], lines: Iterable[str]) -> None:
    _run(command, "\n".join(lines) + "\n")


def _run(command: list[str], stdin: str = "") -> None:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=_COMMAND_S, check=False
    )
    if done.returncode:
        complaint = done.stderr or f"exit code {done.returncode}"
        raise NetworkFailed(f"{' '.join(command[:3])}: {_first_line(complaint)}")


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "failed and printed no error")

"""A small fabric of veth pairs for tests, made with ip and tc alone; used `inside` namespaces.

Hosts are network namespaces named like the host; they know each other's MAC addresses, as gradwire's
switch has no ARP.  Every switch port has HTB at its root, whose counters the switch reports.
"""

import json
import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwire.emu.interpreter import python
from gradwire.emu.network.cables import await_carriers
from gradwire.emu.project import SWITCH_OBJECT
from gradwire.emu.switch.running import ports_file
from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from tests.real.timely import PATIENCE_S

OPENFLOW_PORT = 6653


@dataclass(frozen=True)
class Child:
    """A process that talks in lines."""

    process: "subprocess.Popen[str]"
    log: Path

    def await_line(self, word: str) -> None:
        stdout = self.process.stdout
        assert stdout
        readable, _, _ = select.select([stdout], [], [], PATIENCE_S)
        line = stdout.readline().strip() if readable else "nothing"
        assert line == word, f"wanted {word!r}, got {line!r}; {self.log.read_text()}"

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Wait for it to end; its exit code and what it wrote to stderr."""
        return self.process.wait(PATIENCE_S), self.log.read_text()


@contextmanager
def running(command: list[str], log: Path) -> Iterator[Child]:
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, bufsize=1
        ) as process,
    ):
        try:
            yield Child(process, log)
        finally:
            process.kill()


def run(*command: str, stdin: str = "") -> str:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def on(host: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", host, *command]


def cable_up(fabric: Fabric) -> None:
    """Make hosts, cables and addresses."""
    for host in fabric.hosts:
        run("ip", "netns", "add", host)
    links = []
    for end, peer in fabric.peers.items():
        name, far = interface(end.node, end.port), interface(peer.node, peer.port)
        if (end.node, end.port) < (peer.node, peer.port):
            links.append(f"link add {name} type veth peer name {far}")
    links += [f"link set {interface(host, 0)} netns {host}" for host in fabric.hosts]
    ports = [interface(switch, port) for switch in fabric.switches for port in fabric.ports[switch]]
    links += [f"link set {name} up" for name in ports]
    run("ip", "-batch", "-", stdin="\n".join(links) + "\n")
    shapes = []
    for switch in fabric.switches:
        for port in fabric.ports[switch]:
            rate = fabric.rates[Egress(switch, port)]
            name = interface(switch, port)
            shapes.append(f"qdisc add dev {name} root handle 1: htb default 1")
            shapes.append(f"class add dev {name} parent 1: classid 1:1 htb rate {rate}bit burst 15k")
    run("tc", "-batch", "-", stdin="\n".join(shapes) + "\n")
    for host in fabric.hosts:
        name = interface(host, 0)
        lines = [f"link set {name} address {fabric.mac(host)}", f"addr add {fabric.ip(host)}/16 dev {name}"]
        lines += [f"link set {name} up", "link set lo up"]
        lines += [
            f"neigh add {fabric.ip(peer)} lladdr {fabric.mac(peer)} dev {name}"
            for peer in fabric.hosts
            if peer != host
        ]
        run(*on(host, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"))
        run(*on(host, "ip", "-batch", "-"), stdin="\n".join(lines) + "\n")
    await_carriers([socket.if_nametoindex(name) for name in ports])


def agent_command(folder: Path, *options: str) -> list[str]:
    command = python("gradwire.emu.switch.agent", str(folder / "ports.json"), "--object", str(SWITCH_OBJECT))
    return [*command, "--controller", f"127.0.0.1:{OPENFLOW_PORT}", *options]


def agent_started(fabric: Fabric, folder: Path, *options: str) -> AbstractContextManager[Child]:
    (folder / "ports.json").write_text(json.dumps(ports_file(fabric)))
    return running(agent_command(folder, *options), folder / "agent.log")


@contextmanager
def programmed(fabric: Fabric, folder: Path, *what: str) -> Iterator[Child]:
    """The fabric cabled, with our switches and a controller of `what`, which is yielded."""
    cable_up(fabric)
    command = python("gradwire.controller", *what, "--port", str(OPENFLOW_PORT))
    with (
        running(command, folder / "controller.log") as controller,
        agent_started(fabric, folder) as agent,
    ):
        agent.await_line("attached")
        agent.await_line("connected")
        controller.await_line("ready")
        yield controller


def statistics(controller: Child, path: Path) -> dict[str, list[dict[str, Any]]]:
    controller.tell(f"stats {path}")
    controller.await_line("stats")
    value: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
    return value

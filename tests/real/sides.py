"""One switch on cables of its own, ours or Open vSwitch, and a controller's end of its connection.

Both have the ports of `made_rules.PORTS`; the far ends of their cables are `ours1` and `peer1` for
port 1.  Used `inside`.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from os_ken.ofproto import ofproto_v1_3 as ofp

from gradwire.emu.network.cables import await_carriers
from gradwire.emu.switch.ovs import running_ovs
from gradwire.planning.fabrics.fabric import Fabric, Link, interface
from tests.made_rules import PORTS, encoded
from tests.real import lab
from tests.real.ends import MARKER_RULES, Ends
from tests.real.speaker import Speaker
from tests.real.timely import PATIENCE_S

PEER_OPENFLOW_PORT = lab.OPENFLOW_PORT + 1
MARKER_XID = 90
RATE_BPS = 10_000_000_000


@dataclass
class Side:
    """A running switch; `settle` brings its counters up to date."""

    name: str
    speaker: Speaker
    ends: Ends
    pid: int
    settle: Callable[[], None]

    def markers(self, is_on: bool) -> None:
        """Add the rules that the markers of `Ends.received` need, or delete them."""
        for rule in MARKER_RULES:
            change = rule if is_on else replace(rule, command=ofp.OFPFC_DELETE_STRICT, instruction=None)
            self.speaker.send(encoded(change, MARKER_XID))
        assert self.speaker.barrier() == [], f"{self.name} refuses the rules of the markers"


@contextmanager
def our_switch(folder: Path, *options: str) -> Iterator[Side]:
    """Our agent with one switch, dpid 1; `options` are the agent's."""
    cable_up("ours")
    with (
        closing(Speaker(lab.OPENFLOW_PORT)) as speaker,
        lab.agent_started(star("ours"), folder, *options) as agent,
    ):
        agent.await_line("attached")
        speaker.accept()
        agent.await_line("connected")
        yield Side("ours", speaker, Ends("ours"), agent.process.pid, lambda: None)


@contextmanager
def open_vswitch(folder: Path) -> Iterator[Side]:
    """Open vSwitch with one bridge, dpid 1.  It counts late unless asked to count at once."""
    cable_up("peer")
    with (
        closing(Speaker(PEER_OPENFLOW_PORT)) as speaker,
        running_ovs(star("peer"), folder / "ovs", PEER_OPENFLOW_PORT) as running,
    ):
        speaker.accept()
        order = _Appctl(folder / "ovs" / "ovs-vswitchd.ctl")
        pid = running.pids["ovs-vswitchd"]
        yield Side("peer", speaker, Ends("peer"), pid, lambda: order("revalidator/purge"))


class _Appctl:
    """Orders to ovs-vswitchd, as ovs-appctl gives them, without a process each."""

    def __init__(self, path: Path) -> None:
        self._link = socket.socket(socket.AF_UNIX)
        self._link.settimeout(PATIENCE_S)
        self._link.connect(str(path))

    def __call__(self, method: str, *words: str) -> None:
        self._link.sendall(json.dumps({"id": 0, "method": method, "params": words}).encode())
        octets = b""
        while True:
            more = self._link.recv(1 << 16)
            assert more, "ovs-vswitchd has gone"
            octets += more
            try:
                answer = json.loads(octets)
            except ValueError:
                continue
            assert answer["error"] is None, answer
            return


def star(switch: str) -> Fabric:
    """The one switch with a cable at each of its ports."""
    ends = tuple(f"end{port}" for port in PORTS)
    links = tuple(Link(end, 0, switch, port, RATE_BPS) for end, port in zip(ends, PORTS, strict=True))
    return Fabric("made", "made", {}, ends, (switch,), links)


def cable_up(switch: str) -> None:
    """Make its cables.  This process stays on one processor: one backlog queue keeps packets in order."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines, shapes = [], []
    for port in PORTS:
        near, far = interface(switch, port), f"{switch}{port}"
        lines += [f"link add {near} type veth peer name {far}"]
        lines += [f"link set {name} up arp off" for name in (near, far)]
        shapes += [f"qdisc add dev {near} root handle 1: htb default 1"]
        shapes += [f"class add dev {near} parent 1: classid 1:1 htb rate {RATE_BPS}bit burst 1m"]
    lab.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")
    await_carriers([socket.if_nametoindex(interface(switch, port)) for port in PORTS])
    if switch == "ours":
        lab.run("tc", "-batch", "-", stdin="\n".join(shapes) + "\n")

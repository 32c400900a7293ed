"""Switches of ours in memory, as `KnownSwitch` and `Steering` of the controller see them: without sockets.

Who uses them lets the library make `controller.readback.FlowStats`.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any

from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from gradwire.controller.readback import group_keys, installed
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.switch import KnownSwitch
from gradwire.emu.kernel.queues import Transmitted
from gradwire.emu.switch.plane.counters import InterfaceState
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.emu.switch.server.session import Session
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.table import FlowTable
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.openflow.rules import Rule
from tests.openflow_talk import HELLO, FakeInstruments, read


class Cabled(FakeInstruments):
    """All ports are up but those in `down`; since time 0 every rule has carried `rate_bps`, and the ports in
    `sent_bps` that."""

    rate_bps = 0

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.sent_bps: dict[str, int] = {}

    def link(self, interface: str) -> InterfaceState:
        return InterfaceState(bytes(6), is_up=interface not in self.down, is_enabled=True)

    def transmitted(self, interface: str) -> Transmitted:
        return Transmitted(1, self.sent_bps.get(interface, 0) * self.now // (8 * 10**9), 0)

    def flow_counts(self, flow: int) -> tuple[int, int]:
        return 1, self.rate_bps * self.now // (8 * 10**9)


class Machine:
    """What a switch is without its connection: its table outlives that."""

    def __init__(self, name: str, dpid: int, ports: Iterable[int]) -> None:
        self.name = name
        self.instruments = Cabled()
        self.table = FlowTable(Numbers(10_000), Numbers(1000))
        self._ports = SwitchPorts(name, dpid, tuple(SwitchPort(n, interface(name, n), 10**8) for n in ports))

    def session(self) -> Session:
        session = Session(self._ports, self.table, self.instruments)
        assert not list(session.receive(HELLO))
        return session

    @property
    def rules(self) -> list[Rule]:
        """What it has, as it tells a controller that asks."""
        line = Line(self)
        line.send_msg(parser.OFPGroupDescStatsRequest(line))
        line.send_msg(parser.OFPFlowStatsRequest(line))
        groups, *flows = (message.body for message in line.answers())
        return list(installed((flow for part in flows for flow in part), group_keys(groups)))


class Line(ProtocolDesc):  # type: ignore[misc]
    """What of os-ken's datapath is used: messages wait until `deliver`, `sent` are their types so far."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(version=ofp.OFP_VERSION)
        self.sent: list[int] = []
        self._session = machine.session()
        self._waiting = b""
        self._xids = count(1)

    def set_xid(self, message: Any) -> int:
        xid = next(self._xids)
        message.set_xid(xid)
        return xid

    def send_msg(self, message: Any) -> None:
        if message.xid is None:
            self.set_xid(message)
        message.serialize()
        self.send(bytes(message.buf))

    def send(self, octets: bytes) -> None:
        at = 0
        while at < len(octets):
            self.sent.append(octets[at + 1])
            at += int.from_bytes(octets[at + 2 : at + 4], "big")
        self._waiting += octets

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def answers(self) -> list[Any]:
        """What the switch says to all that waits."""
        octets, self._waiting = self._waiting, b""
        return [read(reply) for reply in self._session.receive(octets) if isinstance(reply, bytes)]

    def deliver(self, switch: KnownSwitch) -> None:
        """Until neither side has anything to say."""
        while self._waiting:
            self.deliver_once(switch)

    def deliver_once(self, switch: KnownSwitch) -> None:
        """What waits now, and the answers to it."""
        for message in self.answers():
            if isinstance(message, parser.OFPBarrierReply):
                switch.reach_barrier()
            else:
                assert not isinstance(message, parser.OFPErrorMsg)
                switch.answer(message)


def machines(fabric: Fabric) -> dict[str, Machine]:
    return {name: Machine(name, fabric.dpid(name), fabric.ports[name]) for name in fabric.switches}


def never(text: str) -> None:
    raise AssertionError(text)

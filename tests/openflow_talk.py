"""A switch session and its controller in memory: requests by Scapy, replies as os-ken reads them."""

import struct
from collections.abc import Iterable
from typing import Any

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto.ofproto_protocol import ProtocolDesc
from scapy.config import conf
from scapy.contrib import openflow3 as of3

from gradwire.emu.kernel.queues import Transmitted
from gradwire.emu.switch.plane.counters import InterfaceState, Received
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.emu.switch.server.session import Session
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.planeoperations import Operation
from gradwire.emu.switch.table.table import FlowTable
from gradwire.planning.openflow import pool as pools
from gradwire.planning.openflow.entries import Event

SWITCH = SwitchPorts(
    "leaf0", 0x1122334455667788, tuple(SwitchPort(n, f"leaf0-eth{n}", 100_000_000) for n in (1, 2, 3))
)
HELLO = bytes(of3.OFPTHello())
conf.contribs["OPENFLOW"]["prereq_autocomplete"] = False  # it adds fields once and forgets them once
IPV4 = of3.OFBEthType(eth_type=0x0800)
TCP = of3.OFBIPProto(ip_proto=6)


class FakeInstruments:
    """Counters that name what was asked: flow 7 has 7 packets of 100 bytes, port 2 has 2 of 1000, pool 3
    counts 300, 301, 302 ...
    """

    now = 5_000_000_000

    def flow_counts(self, flow: int) -> tuple[int, int]:
        return flow, 100 * flow

    def received(self, interface: str) -> Received:
        n = int(interface[-1])
        return Received(n, 1000 * n, missed_packets=1, dropped_packets=1, lost_packet_ins=5 * n)

    def transmitted(self, interface: str) -> Transmitted | None:
        return None if interface.endswith("3") else Transmitted(11, 12, 13)

    def link(self, interface: str) -> InterfaceState:
        mac = bytes([2, 0, 0, 0, 0, int(interface[-1])])
        return InterfaceState(mac, is_up=not interface.endswith("3"), is_enabled=not interface.endswith("3"))

    def group_counts(self, counter: int, n_buckets: int) -> list[tuple[int, int]]:
        return [(n, 100 * n) for n in range(1 + n_buckets)]

    def pool_counts(self, pool: int) -> dict[pools.Event, int]:
        return {event: 100 * pool + n for n, event in enumerate(pools.EVENTS)}

    def now_ns(self) -> int:
        return self.now


class Talk:
    """One session, greeted unless told otherwise."""

    def __init__(self, is_greeted: bool = True, n_flows: int = 100, n_groups: int = 10) -> None:
        self.instruments = FakeInstruments()
        self.table = FlowTable(Numbers(n_flows), Numbers(n_groups))
        self.session = Session(SWITCH, self.table, self.instruments)
        self.operations: list[Operation | Event] = []
        if is_greeted:
            assert self.say(HELLO) == []

    def say(self, *requests: Any) -> list[Any]:
        """Send Scapy packets or bytes; return the replies as os-ken's messages."""
        return [read(reply) for reply in self.replies(b"".join(map(bytes, requests)))]

    def replies(self, octets: bytes) -> list[bytes]:
        replies = []
        for result in self.session.receive(octets):
            if isinstance(result, bytes):
                replies.append(result)
            else:
                self.operations.append(result)
        return replies

    def error(self, request: Any) -> tuple[int, int]:
        """(type, code) of the only reply, which is an error about this very request."""
        octets = bytes(request)
        (reply,) = self.replies(octets)
        version, kind, length, xid = struct.unpack_from("!BBHI", reply)
        assert (version, kind, length) == (4, ofp.OFPT_ERROR, len(reply))
        assert xid == struct.unpack_from("!BBHI", octets)[3]
        assert reply[12:] == octets[:64]  # OpenFlow 1.3.5, A.4.4: at least 64 bytes of the request
        return struct.unpack_from("!HH", reply, 8)


def read(reply: bytes) -> Any:
    version, kind, length, xid = struct.unpack_from("!BBHI", reply)
    assert version == ofp.OFP_VERSION
    assert length == len(reply)
    datapath = ProtocolDesc(version=ofp.OFP_VERSION)
    return ofproto_parser.msg(datapath, version, kind, length, xid, reply)


def flow_mod(
    fields: Iterable[Any] = (),
    actions: Iterable[Any] | None = None,
    cmd: str | int = "OFPFC_ADD",
    **other: Any,
) -> Any:
    instructions = [] if actions is None else [of3.OFPITApplyActions(actions=list(actions))]
    return of3.OFPTFlowMod(
        cmd=cmd, match=of3.OFPMatch(oxm_fields=list(fields)), instructions=instructions, **other
    )


def group_mod(
    number: int,
    ports: Iterable[int],
    cmd: str = "OFPGC_ADD",
    kind: str | int = "OFPGT_SELECT",
    weights: Iterable[int] | None = None,
    watched: Iterable[int] | None = None,
) -> Any:
    """A bucket for each port; `watched` are their watch_ports."""
    ports = list(ports)
    is_select = kind == "OFPGT_SELECT"
    buckets = [
        of3.OFPBucket(
            weight=weight, watch_port=watch, watch_group=0xFFFFFFFF, actions=[of3.OFPATOutput(port=port)]
        )
        for port, weight, watch in zip(
            ports,
            weights or [int(is_select)] * len(ports),
            watched or [0xFFFFFFFF] * len(ports),
            strict=True,
        )
    ]
    return of3.OFPTGroupMod(cmd=cmd, group_type=kind, group_id=number, buckets=buckets)


def dst(address: str) -> list[Any]:
    return [IPV4, of3.OFBIPv4Dst(ipv4_dst=address)]


def to_port(port: int) -> Any:
    return of3.OFPATOutput(port=port)

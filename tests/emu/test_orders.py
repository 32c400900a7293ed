"""PACKET_OUT, PORT_MOD and TABLE_MOD as os-ken writes them, against what OpenFlow 1.3.5 says of them."""

from collections.abc import Callable
from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from gradwire.emu.switch.plane.counters import InterfaceState
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.planeoperations import EnablePort, SendPacket
from gradwire.emu.switch.table.table import FlowTable
from gradwire.emu.switch.wire import changes as orders
from gradwire.emu.switch.wire.openflow13 import ProtocolError
from gradwire.planning.openflow.entries import (
    NO_COOKIE,
    GroupBucket,
    GroupKind,
    Output,
    PacketIn,
    SwitchGroup,
    ToGroup,
    Why,
)
from tests.made_rules import DATAPATH, serialized
from tests.openflow_talk import SWITCH, FakeInstruments

PORTS = {port.port: port for port in SWITCH.ports}
MACS = {number: f"02:00:00:00:00:0{number}" for number in PORTS}  # those of FakeInstruments
FRAME = bytes(range(60))
TO_GROUP = parser.OFPActionGroup(5)
DOWN = ofp.OFPPC_PORT_DOWN


def to(port: int) -> Any:
    return parser.OFPActionOutput(port)


def table() -> FlowTable:
    """One with group 5."""
    made = FlowTable(Numbers(10), Numbers(10))
    list(made.set_group(5, SwitchGroup(GroupKind.INDIRECT, (GroupBucket((Output(1),)),)), 0))
    return made


def body(message: Any) -> bytes:
    return serialized(message, 1)[ofp.OFP_HEADER_SIZE :]


def packet_out(*actions: Any, in_port: int = ofp.OFPP_CONTROLLER, frame: bytes = FRAME) -> bytes:
    return body(parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, in_port, list(actions), frame))


def port_mod(port: int, mac: str, config: int = DOWN, mask: int = DOWN, advertise: int = 0) -> bytes:
    return body(parser.OFPPortMod(DATAPATH, port, mac, config, mask, advertise))


def refusal(function: Callable[..., Any], *arguments: Any) -> tuple[int, int]:
    with pytest.raises(ProtocolError) as caught:
        function(*arguments)
    return caught.value.kind, caught.value.code


@pytest.mark.parametrize("port", [1, 3, ofp.OFPP_IN_PORT, ofp.OFPP_TABLE, ofp.OFPP_FLOOD, ofp.OFPP_ALL])
def test_a_packet_goes_out_as_each_action_says_in_order(port: int) -> None:
    sent = list(orders.send_packet(table(), PORTS, packet_out(to(port), TO_GROUP, in_port=2)))
    assert sent == [SendPacket(2, Output(port, ofp.OFPCML_MAX), FRAME), SendPacket(2, ToGroup(5), FRAME)]


def test_a_packet_without_an_action_is_dropped() -> None:
    assert list(orders.send_packet(table(), PORTS, packet_out())) == []


def test_a_packet_for_a_controller_comes_as_a_packet_in_of_no_flow() -> None:
    """7.4.1: the cookie is -1 where no flow entry sent the packet."""
    (packet_in,) = orders.send_packet(table(), PORTS, packet_out(to(ofp.OFPP_CONTROLLER)))
    assert packet_in == PacketIn(ofp.OFPP_CONTROLLER, Why.ACTION, NO_COOKIE, 60, FRAME)
    assert NO_COOKIE == 0xFFFFFFFFFFFFFFFF


@pytest.mark.parametrize(
    ("octets", "kind", "code"),
    [
        (packet_out(to(9)), ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT),
        (packet_out(to(ofp.OFPP_NORMAL)), ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT),
        (packet_out(to(ofp.OFPP_LOCAL)), ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT),
        (packet_out(parser.OFPActionGroup(6)), ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_GROUP),
        (packet_out(to(1), in_port=9), ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT),
        (packet_out(to(1), in_port=ofp.OFPP_FLOOD), ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT),
        (packet_out(to(1), to(9)), ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT),
    ],
    ids=["port 9", "NORMAL", "LOCAL", "group 6", "from port 9", "from FLOOD", "port 9 after a good one"],
)
def test_a_packet_to_or_from_nowhere_is_refused_and_none_of_it_sent(
    octets: bytes, kind: int, code: int
) -> None:
    sent = orders.send_packet(table(), PORTS, octets)
    with pytest.raises(ProtocolError) as caught:
        next(sent)
    assert (caught.value.kind, caught.value.code) == (kind, code)


@pytest.mark.parametrize(
    ("config", "mask", "is_enabled"),
    [(DOWN, DOWN, False), (0, DOWN, True), (DOWN, 0, True), (0, 0, True)],
    ids=["down", "up", "down, but not in the mask", "nothing"],
)
def test_a_port_is_taken_up_or_down_if_the_mask_says_so(config: int, mask: int, is_enabled: bool) -> None:
    """7.3.4.3: only the bits of the mask count.  Port 1 is up."""
    order = orders.change_port(PORTS, FakeInstruments(), port_mod(1, MACS[1], config, mask))
    assert order == EnablePort(1, is_enabled)


def test_a_port_that_is_down_stays_so_if_nothing_is_asked_for() -> None:
    assert orders.change_port(PORTS, FakeInstruments(), port_mod(3, MACS[3], 0, 0)) == EnablePort(3, False)
    assert FakeInstruments().link("leaf0-eth3") == InterfaceState(bytes.fromhex("020000000003"), False, False)


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (port_mod(9, MACS[1]), ofp.OFPPMFC_BAD_PORT),
        (port_mod(ofp.OFPP_ANY, MACS[1]), ofp.OFPPMFC_BAD_PORT),
        (port_mod(1, MACS[2]), ofp.OFPPMFC_BAD_HW_ADDR),
        (port_mod(1, MACS[1], 0, ofp.OFPPC_NO_FWD), ofp.OFPPMFC_BAD_CONFIG),
        (port_mod(1, MACS[1], DOWN, DOWN | ofp.OFPPC_NO_PACKET_IN), ofp.OFPPMFC_BAD_CONFIG),
        (port_mod(1, MACS[1], advertise=ofp.OFPPF_10GB_FD), ofp.OFPPMFC_BAD_ADVERTISE),
    ],
    ids=["port 9", "every port", "another's address", "no forwarding", "down and no packet-in", "a speed"],
)
def test_what_a_port_cannot_do_is_refused(octets: bytes, code: int) -> None:
    found = refusal(orders.change_port, PORTS, FakeInstruments(), octets)
    assert found == (ofp.OFPET_PORT_MOD_FAILED, code)


@pytest.mark.parametrize("number", [0, ofp.OFPTT_ALL])
def test_a_table_mod_that_changes_nothing_is_taken(number: int) -> None:
    orders.check_table_mod(body(parser.OFPTableMod(DATAPATH, number, 0)))


def test_other_tables_and_other_settings_are_refused() -> None:
    failed = ofp.OFPET_TABLE_MOD_FAILED
    other, setting = parser.OFPTableMod(DATAPATH, 1, 0), parser.OFPTableMod(DATAPATH, 0, 3)
    assert refusal(orders.check_table_mod, body(other)) == (failed, ofp.OFPTMFC_BAD_TABLE)
    assert refusal(orders.check_table_mod, body(setting)) == (failed, ofp.OFPTMFC_BAD_CONFIG)


@pytest.mark.parametrize("change", [-1, 1])
def test_an_order_of_another_length_is_refused(change: int) -> None:
    table_mod, of_port = body(parser.OFPTableMod(DATAPATH, 0, 0)), port_mod(1, MACS[1])
    cut = [(octets + b"\0")[: len(octets) + change] for octets in (table_mod, of_port)]
    bad = ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_LEN
    assert refusal(orders.check_table_mod, cut[0]) == bad
    assert refusal(orders.change_port, PORTS, FakeInstruments(), cut[1]) == bad

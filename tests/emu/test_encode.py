"""What the switch says unasked, as os-ken's parsers and Scapy read it."""

import struct

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from scapy.contrib import openflow3 as of3

from gradwire.emu.switch.plane.counters import InterfaceState
from gradwire.emu.switch.wire import encode
from gradwire.planning.openflow.entries import Actions, Entry, Gone, PacketIn, Why
from gradwire.planning.openflow.match import Match
from tests.openflow_talk import read

FRAME = bytes(range(100))
MOST_NBYTES = 0xFFFF  # a message's length has 16 bits


def test_a_packet_comes_whole_with_its_port_its_cookie_and_its_reason() -> None:
    octets = encode.packet_in(PacketIn(3, Why.ACTION, 0x1122334455667788, len(FRAME), FRAME))
    message = read(octets)
    assert (message.buffer_id, message.total_len, message.reason) == (ofp.OFP_NO_BUFFER, 100, ofp.OFPR_ACTION)
    assert (message.table_id, message.cookie, message.match["in_port"]) == (0, 0x1122334455667788, 3)
    assert message.data == FRAME
    assert of3.OFPTPacketIn(octets).data.original == FRAME


@pytest.mark.parametrize(("nbytes", "kept_nbytes"), [(65472, 65472), (65493, 65493), (65494, 65493)])
def test_a_frame_is_cut_only_where_no_message_could_hold_it(nbytes: int, kept_nbytes: int) -> None:
    """8 bytes of header, 16 of fixed fields, 16 of the match with in_port, 2 of padding: 65,493 are left."""
    octets = encode.packet_in(PacketIn(1, Why.NO_MATCH, 0, nbytes, bytes(nbytes)))
    message = read(octets)
    assert len(octets) <= MOST_NBYTES
    assert (message.total_len, len(message.data)) == (nbytes, kept_nbytes)


def test_a_length_that_the_field_does_not_hold_is_told_as_the_most() -> None:
    assert read(encode.packet_in(PacketIn(1, Why.NO_MATCH, 0, 65549, bytes(65472)))).total_len == 65535


def test_a_flow_that_ended_is_told_with_what_it_was_and_what_it_counted() -> None:
    match = Match(eth_type=0x800, ipv4_dst=0x0A000001)
    entry = Entry(match, 77, Actions(), 0xC0FFEE, 1, 5, 1_000_000_000, idle_s=3, hard_s=9)
    octets = encode.flow_removed(entry, Gone.IDLE, 11, 1200, now_ns=4_250_000_000)
    message = read(octets)
    assert (message.cookie, message.priority, message.reason, message.table_id) == (0xC0FFEE, 77, 0, 0)
    assert (message.duration_sec, message.duration_nsec) == (3, 250_000_000)
    assert (message.idle_timeout, message.hard_timeout) == (3, 9)
    assert (message.packet_count, message.byte_count) == (11, 1200)
    assert dict(message.match.items()) == {"eth_type": 0x800, "ipv4_dst": "10.0.0.1"}


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (Gone.IDLE, ofp.OFPRR_IDLE_TIMEOUT),
        (Gone.HARD, ofp.OFPRR_HARD_TIMEOUT),
        (Gone.DELETED, ofp.OFPRR_DELETE),
        (Gone.GROUP_DELETED, ofp.OFPRR_GROUP_DELETE),
    ],
)
def test_the_reasons_are_openflows(gone: Gone, reason: int) -> None:
    entry = Entry(Match(), 0, Actions(), 0, 0, 0, 0)
    assert read(encode.flow_removed(entry, gone, 0, 0, 0)).reason == reason


@pytest.mark.parametrize(
    ("link", "config", "state"),
    [
        (InterfaceState(b"\2" * 6, is_up=True, is_enabled=True), 0, ofp.OFPPS_LIVE),
        (InterfaceState(b"\2" * 6, is_up=False, is_enabled=True), 0, ofp.OFPPS_LINK_DOWN),
        (InterfaceState(b"\2" * 6, is_up=False, is_enabled=False), ofp.OFPPC_PORT_DOWN, ofp.OFPPS_LINK_DOWN),
    ],
    ids=["up", "its cable is down", "taken down"],
)
def test_a_port_that_changed_is_told_as_it_is_now(link: InterfaceState, config: int, state: int) -> None:
    message = read(encode.port_status(encode.port(4, link, "s1-eth4", 10**9)))
    port = message.desc
    assert (message.reason, port.port_no, port.hw_addr) == (ofp.OFPPR_MODIFY, 4, "02:02:02:02:02:02")
    assert (port.name, port.config, port.state) == (b"s1-eth4", config, state)


@pytest.mark.parametrize(("generation", "expected"), [(None, 2**64 - 1), (0, 0), (7, 7)])
def test_a_role_is_told_with_its_generation(generation: int | None, expected: int) -> None:
    """6.3.5: a switch that knows no generation says -1, as Open vSwitch does."""
    octets = encode.role(9, ofp.OFPCR_ROLE_MASTER, generation)
    message = read(octets)
    assert (message.xid, message.role, message.generation_id) == (9, ofp.OFPCR_ROLE_MASTER, expected)
    assert struct.unpack_from("!B", octets, 1) == (ofp.OFPT_ROLE_REPLY,)

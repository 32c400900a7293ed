"""Records of the data plane's ring, laid out as layout.h says, against frames that Scapy made."""

import struct

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from gradwire.emu.switch.plane.packets import packet_in
from gradwire.planning.openflow.entries import PacketIn, Why

HEAD = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b")
REST = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / b"content"


def record(frame: bytes, tci: int = 0, tpid: int = 0, nbytes: int | None = None, spare: int = 0) -> bytes:
    """struct packet_in: the machine's order, but the VLAN protocol in the network's; `spare` is left over."""
    whole = len(frame) if nbytes is None else nbytes
    head = struct.pack("=IIQIIH", 5, 3, 0xC0FFEE, whole, len(frame), tci)
    return head + tpid.to_bytes(2, "big") + struct.pack("=I", 1) + frame + b"\xee" * spare


def test_a_record_is_the_packet_and_its_switch() -> None:
    frame = bytes(HEAD / REST)
    expected = PacketIn(3, Why.ACTION, 0xC0FFEE, len(frame), frame)
    assert packet_in(record(frame, spare=99)) == (5, expected)


@pytest.mark.parametrize("tpid", [0x8100, 0x88A8])
@pytest.mark.parametrize("vlan", [0, 5, 4095])
def test_the_tag_beside_the_frame_goes_back_where_it_was(tpid: int, vlan: int) -> None:
    tagged = HEAD.copy()
    tagged.type = tpid
    whole = bytes(tagged / Dot1Q(vlan=vlan, prio=3, type=0x0800) / REST)
    _, packet = packet_in(record(bytes(HEAD / REST), tci=3 << 13 | vlan, tpid=tpid))
    assert packet.frame == whole
    assert packet.nbytes == len(whole)


def test_a_checksum_that_was_left_to_a_card_is_computed() -> None:
    frame = bytes(HEAD / REST)
    pseudo = sum(struct.unpack("!4H", frame[26:34])) + 17 + len(frame) - 34
    left = frame[:40] + pseudo.to_bytes(2, "big") + frame[42:]
    assert packet_in(record(left))[1].frame == frame


def test_of_a_frame_that_was_cut_the_whole_length_is_told() -> None:
    _, packet = packet_in(record(bytes(HEAD / REST), nbytes=65549))
    assert packet.nbytes == 65549

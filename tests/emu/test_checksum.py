"""Checksums completed as a network card does it, against Scapy's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.utils import checksum as complement

from gradwire.emu.switch.plane.packets import completed

ports, payloads = st.integers(0, 0xFFFF), st.binary(max_size=40)
addresses = st.integers(0, 2**32 - 1)


def packet(address: int, is_ipv6: bool, tags: int, header: Any, payload: bytes) -> bytes:
    """As Scapy sends it, with all checksums."""
    network = IPv6(src=f"fd00::{address & 0xFFFF:x}", dst="fd00::1") if is_ipv6 else IP(src=_dotted(address))
    frame = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b")
    for _ in range(tags):
        frame = frame / Dot1Q(vlan=5)
    return bytes(frame / network / header / payload)


def _dotted(address: int) -> str:
    return ".".join(map(str, address.to_bytes(4, "big")))


def left_to_the_card(frame: bytes) -> bytes:
    """The same with the sum of the pseudo header for a checksum, as Linux sends it to a veth."""
    parsed = Ether(frame)
    layer = parsed[TCP] if TCP in parsed else parsed[UDP]
    network = parsed[IPv6] if IPv6 in parsed else parsed[IP]
    proto, nbytes = (6 if TCP in parsed else 17), len(bytes(layer))
    pseudo = bytes(network)[8:40] if IPv6 in parsed else bytes(network)[12:20]
    sum_ = ~complement(pseudo + proto.to_bytes(4, "big") + nbytes.to_bytes(4, "big")) & 0xFFFF
    at = len(frame) - nbytes + (16 if TCP in parsed else 6)
    return frame[:at] + sum_.to_bytes(2, "big") + frame[at + 2 :]


@given(addresses, st.booleans(), st.integers(0, 2), st.sampled_from([TCP, UDP]), ports, payloads)
def test_the_sum_of_a_pseudo_header_becomes_the_checksum(
    address: int, is_ipv6: bool, tags: int, header: Any, port: int, payload: bytes
) -> None:
    whole = packet(address, is_ipv6, tags, header(sport=port, dport=7), payload)
    assert completed(left_to_the_card(whole)) == whole
    assert completed(whole) == whole


def test_a_datagram_whose_checksum_comes_out_as_0_says_so_by_all_ones() -> None:
    """RFC 768: 0 says that there is no checksum."""
    before = packet(0x0A000001, False, 0, UDP(sport=1, dport=2), bytes(2))
    whole = packet(0x0A000001, False, 0, UDP(sport=1, dport=2), before[40:42])
    assert whole[40:42] == b"\xff\xff"
    assert completed(left_to_the_card(whole)) == whole


def test_a_fragment_stays_as_it_is() -> None:
    """Its checksum is over what other fragments carry as well."""
    left = left_to_the_card(packet(0x0A000001, False, 0, UDP(sport=1, dport=2), bytes(24)))
    for fragment in (b"\x20\0", b"\0\x05"):  # more to come; a later one
        frame = left[:20] + fragment + left[22:]
        assert completed(frame) == frame


@pytest.mark.parametrize("padding", [1, 6])
def test_the_padding_of_a_short_frame_is_no_part_of_the_sum(padding: int) -> None:
    whole = packet(0x0A000001, False, 0, UDP(sport=1, dport=2), b"x")
    assert completed(left_to_the_card(whole) + b"\xff" * padding) == whole + b"\xff" * padding


def test_a_datagram_without_a_checksum_and_what_is_no_ip_stay_as_they_are() -> None:
    for frame in (
        packet(1, False, 0, UDP(sport=1, dport=2, chksum=0), b"abc"),
        bytes(Ether() / ARP()),
        bytes(Ether() / IP(frag=5, proto=17) / bytes(40)),
        bytes(Ether() / IP(proto=1) / bytes(40)),
    ):
        assert completed(frame) == frame


@given(st.binary(max_size=80), st.sampled_from([b"\x08\x00", b"\x86\xdd", b"\x81\x00", b""]))
def test_no_bytes_at_all_make_it_fail(octets: bytes, eth_type: bytes) -> None:
    frame = octets[:12] + eth_type + octets[12:]
    assert len(completed(frame)) == len(frame)

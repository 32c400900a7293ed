"""Link layers, VLAN tags, IPv4 and IPv6 headers: Scapy writes them, tshark says what they are."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.dot11 import RadioTap
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, CookedLinux, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import Packets
from tests import made_pcapng as ng
from tests.made_captures import Record, pcap
from tests.tshark import ours, tshark_says

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")

SEGMENT = TCP(sport=4000, dport=5000, seq=7, ack=9, flags="PA", window=77) / Raw(b"payload")
SYN = TCP(sport=4000, dport=5000, flags="S", options=[("MSS", 1460), ("NOP", None), ("WScale", 9)])
DATAGRAM = UDP(sport=53, dport=40_000) / Raw(b"answer")
V4, V6 = IP(src="10.0.0.1", dst="10.0.0.2", id=77), IPv6(src="fd00::1", dst="fd00::2:3")
NETWORKS = [
    V4 / SEGMENT,
    V4 / SYN,
    V4 / DATAGRAM,
    V4 / ICMP(),
    V4 / ICMP(type=3, code=1) / IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=1, dport=2),
    IP(src="10.0.0.1", dst="10.0.0.2", options=b"\x94\x04\0\0") / SEGMENT,
    IP(src="10.0.0.1", dst="10.0.0.2", frag=3, proto=6) / Raw(b"x" * 60),
    V6 / SEGMENT,
    V6 / SYN,
    V6 / DATAGRAM,
    V6 / IPv6ExtHdrHopByHop() / SEGMENT,
    V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrRouting(addresses=["fd00::9"]) / SEGMENT,
    V6 / IPv6ExtHdrFragment(offset=0, m=1, id=5) / DATAGRAM,
    V6 / IPv6ExtHdrFragment(offset=100, m=0, id=5, nh=6) / Raw(b"x" * 60),
    V6 / AH(icv=b"x" * 12) / SEGMENT,
]


def captured(tmp_path: Path, frames: list[bytes], link_type: int, snaplen: int = 65535) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(
        pcap([Record(i, frame) for i, frame in enumerate(frames)], link_type=link_type, snaplen=snaplen)
    )
    return path


def ether_type(network: Packet) -> int:
    return 0x0800 if isinstance(network, IP) else 0x86DD


def on(link_type: int, network: Packet) -> bytes:
    """The packet on a link: Scapy's own layers where it has them."""
    kind = ether_type(network)
    ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    family = 2 if kind == 0x0800 else 30
    links = {
        1: lambda: bytes(ethernet / network),
        113: lambda: bytes(CookedLinux(proto=kind) / network),
        276: lambda: (
            kind.to_bytes(2, "big") + bytes([0, 0, 0, 0, 0, 2, 0, 1, 0, 6]) + bytes(8) + bytes(network)
        ),
        0: lambda: family.to_bytes(4, "little") + bytes(network),
        108: lambda: family.to_bytes(4, "big") + bytes(network),
        101: lambda: bytes(network),
    }
    return links[link_type]()


@needs_tshark
@pytest.mark.parametrize("snaplen", [65535, 48])
def test_every_packet_on_every_link_is_what_tshark_says(tmp_path: Path, snaplen: int) -> None:
    links = [1, 113, 276, 0, 108, 101]
    blocks = [ng.section(), *(ng.interface(link_type=link, snaplen=snaplen) for link in links)]
    for number, link in enumerate(links):
        frames = [on(link, network) for network in NETWORKS]
        blocks += [ng.packet(1, f[:snaplen], number=number, wire_nbytes=len(f)) for f in frames]
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"".join(blocks))
    packets = read_capture(path)
    assert len(packets) == len(links) * len(NETWORKS)
    assert ours(packets) == tshark_says(path)


@needs_tshark
def test_tags_of_any_kind_are_stepped_over(tmp_path: Path) -> None:
    tagged = [
        Ether() / Dot1Q(vlan=3) / V6 / SEGMENT,
        Ether() / Dot1AD(vlan=3) / Dot1Q(vlan=4) / V4 / SEGMENT,
        Ether() / Dot1Q(vlan=3) / Dot1Q(vlan=4) / V4 / DATAGRAM,
        Ether() / Dot1Q(vlan=3) / ARP(),
    ]
    path = captured(tmp_path, [bytes(frame) for frame in tagged], 1)
    packets = read_capture(path)
    assert ours(packets) == tshark_says(path)
    assert packets.protocol.tolist() == [6, 6, 17, 0]
    assert packets.network_offset.tolist() == [18, 22, 22, 0]


def test_a_family_that_is_no_ip_is_no_packet_of_ours(tmp_path: Path) -> None:
    frame = (7).to_bytes(4, "little") + bytes(V4 / SEGMENT)
    assert read_capture(captured(tmp_path, [frame], 0)).protocol.tolist() == [0]


def test_other_link_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="link type 127"):
        read_capture(captured(tmp_path, [bytes(RadioTap())], 127))


@pytest.mark.parametrize("snaplen", range(80))
def test_headers_that_were_cut_off_are_counted_and_nothing_is_made_up(tmp_path: Path, snaplen: int) -> None:
    """A TCP header of 20 bytes is whole from 54 bytes on with IPv4, from 74 with IPv6."""
    frames = [on(1, V4 / SEGMENT), on(1, V6 / SEGMENT), on(1, V4 / ICMP() / Raw(b"x" * 60))]
    packets = read_capture(captured(tmp_path, frames, 1, snaplen))
    whole = [snaplen >= 54, snaplen >= 74]
    assert (packets.protocol == 6).tolist() == [*whole, False]
    assert packets.n_cut == whole.count(False) + (snaplen < 34)
    assert packets.visible_nbytes[0] == min(max(0, snaplen - 54), 7)


def test_big_tcp_has_the_length_of_the_wire(tmp_path: Path) -> None:
    """Linux' super-segments above 64 KiB: IPv6's payload length is 0."""
    frame = bytearray(on(1, V6 / SEGMENT))
    frame[18:20] = b"\0\0"
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Record(0, bytes(frame), 74 + 200_000)]))
    packets = read_capture(path)
    assert packets.payload_nbytes.tolist() == [200_000]
    assert packets.visible_nbytes.tolist() == [7]


def test_ipv4_and_ipv6_addresses_with_the_same_bits_are_two(tmp_path: Path) -> None:
    networks = [
        IP(src="0.0.0.1", dst="10.0.0.2") / DATAGRAM,
        IPv6(src="::1", dst="::a00:2") / DATAGRAM,
        IPv6(src="::ffff:10.0.0.2", dst="::1") / DATAGRAM,
    ]
    packets = read_capture(captured(tmp_path, [on(1, network) for network in networks], 1))
    assert packets.addresses == ("0.0.0.1", "10.0.0.2", "::1", "::a00:2", "::ffff:a00:2")
    assert pairs(packets) == [(0, 1), (2, 3), (4, 2)]


def pairs(packets: Packets) -> list[tuple[int, int]]:
    return list(zip(packets.src.tolist(), packets.dst.tolist(), strict=True))


def test_a_chain_of_extension_headers_ends(tmp_path: Path) -> None:
    """A chain of 60 would be followed by TCP; sixteen are looked at."""
    chain = bytes([60, 0, 1, 4, 0, 0, 0, 0]) * 60
    frame = on(1, IPv6(src="::1", dst="::2", nh=60) / Raw(chain + bytes(SEGMENT)))
    assert read_capture(captured(tmp_path, [frame], 1)).protocol.tolist() == [0]


def test_a_udp_length_shorter_than_its_packet_counts(tmp_path: Path) -> None:
    frame = on(1, V4 / UDP(sport=1, dport=2, len=8 + 3) / Raw(b"abcPADDING"))
    packets = read_capture(captured(tmp_path, [frame], 1))
    assert packets.payload_nbytes.tolist() == [3]
    assert np.array_equal(packets.visible_nbytes, packets.payload_nbytes)

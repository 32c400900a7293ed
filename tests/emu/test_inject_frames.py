"""Rewritten packets are legal packets: checked by Scapy, against the frames as they were captured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP, in4_chksum, in4_pseudoheader
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import RawPcapReader

from gradwire.emu.inject.frames import VNET_NBYTES, Frames, spans
from gradwire.emu.inject.options import InjectOptions
from gradwire.emu.inject.preparation import Prepared, prepare
from gradwire.planning.fabrics.spec import parse_fabric
from tests.made_captures import Record, ethernet, ipv4, pcap, tcp, udp

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
A, B = ("10.77.0.1", 4000), ("10.77.0.2", 5000)


def prepared(
    folder: Path,
    records: Sequence[Record],
    exact_mtu: bool = False,
    snaplen: int = 262_144,
    spec: str = "star:hosts=2",
) -> Prepared:
    path = folder / "made.pcap"
    path.write_bytes(pcap(records, snaplen=snaplen))
    fabric = parse_fabric(spec)
    return prepare([path], fabric, InjectOptions(exact_mtu=exact_mtu), {}, {})


def frame(frames: Frames, number: int) -> bytes:
    """As the cable would carry it."""
    at = int(frames.head_at[number])
    head = frames.heads[at + VNET_NBYTES : at + int(frames.head_nbytes[number])].tobytes()
    return head + bytes(int(frames.zeros_nbytes[number]))


def vnet(frames: Frames, number: int) -> tuple[int, ...]:
    """flags, gso_type, hdr_len, gso_size, csum_start, csum_offset."""
    at = int(frames.head_at[number])
    octets = frames.heads[at : at + VNET_NBYTES].tobytes()
    return (octets[0], octets[1], *np.frombuffer(octets, np.uint16, offset=2).tolist())


def recomputed(octets: bytes) -> Packet:
    """The same packet, with the lengths and checksums that Scapy gives it."""
    packet = Ether(octets)
    transport = packet[TCP] if TCP in packet else packet[UDP]
    del packet[IP].chksum, packet[IP].len, transport.chksum
    return Ether(bytes(packet))


def captured(path: Path) -> list[tuple[bytes, Any]]:
    with RawPcapReader(str(path)) as packets:
        return list(packets)


def test_every_packet_of_a_real_capture_has_right_checksums_and_is_otherwise_as_captured() -> None:
    folder = SAMPLES / "ddp_gloo_8"
    found = prepare(sorted(folder.glob("h*.pcap")), None, InjectOptions(), {}, {})
    originals = [captured(folder / f"h{number}.pcap") for number in range(8)]
    rows = range(0, len(found.pieces), 160)
    for number in rows:
        octets = frame(found.frames, number)
        assert recomputed(octets) == Ether(octets)
        file, row = int(found.pieces.file[number]), int(found.pieces.row[number])
        original, about = originals[file][row]
        now, then = Ether(octets), Ether(original)
        assert len(octets) == about.wirelen
        assert now.src == found.fabric.mac(found.host_of[then[IP].src])
        assert now.dst == found.fabric.mac(found.host_of[then[IP].dst])
        assert now[IP].src == found.fabric.ip(found.host_of[then[IP].src])
        assert (now[IP].id, now[IP].ttl, now[IP].tos) == (then[IP].id, then[IP].ttl, then[IP].tos)
        transport = TCP if TCP in then else UDP
        for name in {"sport", "dport", "seq", "ack", "flags", "window", "options"} & set(
            then[transport].fields
        ):
            assert getattr(now[transport], name) == getattr(then[transport], name)


@pytest.mark.parametrize("nbytes", [0, 1, 7, 62, 1460])
def test_what_the_snaplen_cut_off_is_zeros_and_the_checksum_is_of_all_of_it(
    nbytes: int, tmp_path: Path
) -> None:
    payload = bytes(range(1, 201)) * 8
    records = [Record(1, tcp(A, B, 7, payload[:nbytes])), Record(2, udp(B, A, payload[:nbytes]))]
    found = prepared(tmp_path, records, snaplen=74)
    for number, header in ((0, 54), (1, 42)):
        octets = frame(found.frames, number)
        shown = max(0, min(nbytes, 74 - header))
        assert octets[header:] == payload[:shown] + bytes(nbytes - shown)
        assert recomputed(octets) == Ether(octets)


def test_a_large_segment_goes_out_whole_for_the_kernel_to_cut(tmp_path: Path) -> None:
    found = prepared(tmp_path, [Record(1, tcp(A, B, 7, bytes(60_000)))])
    (octets,) = [frame(found.frames, number) for number in range(len(found.pieces))]
    assert len(octets) == 54 + 60_000
    needs_csum, gso_tcpv4 = 1, 1
    assert vnet(found.frames, 0) == (needs_csum, gso_tcpv4, 54, 1460, 34, 16)
    packet = Ether(octets)
    pseudo = in4_pseudoheader(6, packet[IP], 60_020)
    words = sum(int.from_bytes(pseudo[at : at + 2]) for at in range(0, 12, 2))
    assert packet[TCP].chksum == words % 0xFFFF  # one's complement sum, not yet inverted (virtio 5.1.6.2)


def test_a_packet_of_the_mtu_asks_nothing_of_the_kernel(tmp_path: Path) -> None:
    found = prepared(tmp_path, [Record(1, tcp(A, B, 7, bytes(1460)))])
    assert vnet(found.frames, 0) == (0,) * 6


def test_a_packet_of_a_network_with_jumbo_frames_is_one_where_there_are_and_else_a_segment_to_cut(
    tmp_path: Path,
) -> None:
    record = Record(1, tcp(A, B, 7, bytes(8960)))
    whole = prepared(tmp_path, [record], spec="star:hosts=2,mtu=9000")
    assert vnet(whole.frames, 0) == (0,) * 6
    assert whole.largest_nbytes == 9014
    large = prepared(tmp_path, [record])
    assert vnet(large.frames, 0)[:4] == (1, 1, 54, 1460)
    assert large.largest_nbytes == 8960 + 7 * 54
    exact = prepared(tmp_path, [Record(1, tcp(A, B, 7, bytes(20_000)))], True, spec="star:hosts=2,mtu=9000")
    assert exact.pieces.payload_nbytes.tolist() == [8960, 8960, 2080]


def test_pieces_of_a_large_segment_are_a_stream_of_legal_packets(tmp_path: Path) -> None:
    payload = bytes(range(256)) * 40
    fin_psh_ack_cwr = 0x99
    record = Record(1, tcp(A, B, 2**32 - 2000, payload, fin_psh_ack_cwr))
    found = prepared(tmp_path, [record], exact_mtu=True, snaplen=4000)
    packets = [Ether(frame(found.frames, number)) for number in range(len(found.pieces))]
    assert [len(packet[TCP].payload) for packet in packets] == [1460] * 7 + [20]
    assert b"".join(bytes(packet[TCP].payload) for packet in packets) == payload[:3946] + bytes(
        len(payload) - 3946
    )
    assert [packet[TCP].seq for packet in packets] == [(2**32 - 2000 + 1460 * n) % 2**32 for n in range(8)]
    assert [packet[IP].id for packet in packets] == [7 + n for n in range(8)]
    assert [int(packet[TCP].flags) for packet in packets] == [0x90, *[0x10] * 6, 0x19]
    assert all(recomputed(bytes(packet)) == packet for packet in packets)


def test_a_datagram_longer_than_the_mtu_becomes_datagrams(tmp_path: Path) -> None:
    found = prepared(tmp_path, [Record(1, udp(A, B, bytes(3000)))])
    packets = [Ether(frame(found.frames, number)) for number in range(len(found.pieces))]
    assert [packet[UDP].len - 8 for packet in packets] == [1472, 1472, 56]
    assert all(recomputed(bytes(packet)) == packet for packet in packets)


def test_a_checksum_of_0_is_sent_as_ffff_for_0_would_say_that_there_is_none(tmp_path: Path) -> None:
    """RFC 768.  What makes the sum all ones is the checksum that the datagram has without it."""
    plain = prepared(tmp_path, [Record(1, udp(A, B, bytes(2)))])
    missing = Ether(frame(plain.frames, 0))[UDP].chksum.to_bytes(2)
    found = prepared(tmp_path, [Record(1, udp(A, B, missing))])
    assert Ether(frame(found.frames, 0))[UDP].chksum == 0xFFFF


def test_vlan_tags_are_left_out(tmp_path: Path) -> None:
    plain = tcp(A, B, 7, b"payload")
    found = prepared(tmp_path, [Record(1, ethernet(plain[14:], vlans=(5, 6)))])
    octets = frame(found.frames, 0)
    assert len(octets) == len(plain)
    assert recomputed(octets) == Ether(octets)


def test_options_that_the_snaplen_cut_off_are_zeros(tmp_path: Path) -> None:
    segment = bytearray(tcp(A, B, 7)[34:]) + b"\x01" * 20
    segment[12] = 10 << 4  # a header of 40 octets
    record = Record(1, ethernet(ipv4(A[0], B[0], 6, bytes(segment))))
    found = prepared(tmp_path, [record], snaplen=58)
    octets = frame(found.frames, 0)
    assert octets[54:] == b"\x01" * 4 + bytes(16)
    assert in4_chksum(6, Ether(octets)[IP], octets[34:]) == 0  # of what holds its own checksum


def test_spans_are_the_octets_of_each_one_after_the_other() -> None:
    assert spans(np.array([5, 20, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]

"""The reader against tshark, hand-made files and hostile ones."""

import struct
from pathlib import Path

import pytest

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import TCP, UDP, BadCapture
from tests.made_captures import NS_MAGIC, US_MAGIC, Order, Record, ethernet, ipv4, pcap, tcp, udp

A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit_ns"), [(NS_MAGIC, 1), (US_MAGIC, 1000)])
def test_both_byte_orders_and_both_units_of_time_are_read(
    tmp_path: Path, order: Order, magic: int, unit_ns: int
) -> None:
    time_ns = 1_795_271_927_329_748_047
    frames = [tcp(A, B, 2**32 - 1, b"x" * 70, flags=0x18), udp(B, A, b"hello")]
    data = pcap([Record(time_ns, f, len(f) + 30) for f in frames], order, magic, snaplen=100)
    packets = read_capture(written(tmp_path / "a.pcap", data))
    assert packets.time_ns.tolist() == [time_ns // unit_ns * unit_ns] * 2
    assert packets.protocol.tolist() == [TCP, UDP]
    assert packets.wire_nbytes.tolist() == [len(f) + 30 for f in frames]
    assert packets.captured_nbytes.tolist() == [100, len(frames[1])]
    assert packets.payload_nbytes.tolist() == [70, 5]
    assert packets.visible_nbytes.tolist() == [100 - 54, 5]
    assert [packets.addresses[i] for i in packets.src] == ["10.0.0.1", "10.0.0.2"]
    assert packets.dport.tolist() == [5000, 4000]
    assert packets.seq[0] == 2**32 - 1
    at = int(packets.payload_at[1])
    assert bytes(packets.data[at : at + 5]) == b"hello"
    assert not packets.truncated


def test_vlan_tags_are_stepped_over(tmp_path: Path) -> None:
    plain = tcp(A, B, 5, b"abc")
    tagged = ethernet(plain[14:], vlans=(3, 4))
    packets = read_capture(written(tmp_path / "a.pcap", pcap([Record(0, tagged), Record(1, plain)])))
    assert packets.payload_nbytes.tolist() == [3, 3]
    assert packets.sport.tolist() == [4000, 4000]


def test_padding_of_short_ethernet_frames_is_no_payload(tmp_path: Path) -> None:
    packets = read_capture(written(tmp_path / "a.pcap", pcap([Record(0, tcp(A, B, 5) + b"\0" * 6)])))
    assert packets.payload_nbytes.tolist() == [0]
    assert packets.visible_nbytes.tolist() == [0]


def test_a_segment_above_64_kib_has_the_length_of_the_wire(tmp_path: Path) -> None:
    frame = tcp(A, B, 5, b"abc")
    big = frame[:16] + b"\0\0" + frame[18:]  # IPv4's total length 0: BIG TCP
    packets = read_capture(written(tmp_path / "a.pcap", pcap([Record(0, big, 54 + 100_000)])))
    assert packets.payload_nbytes.tolist() == [100_000]
    assert packets.visible_nbytes.tolist() == [3]


def test_what_is_neither_tcp_nor_udp_keeps_its_row(tmp_path: Path) -> None:
    frames = [
        ethernet(b"\0" * 28, ether_type=0x0806),
        ethernet(ipv4(A[0], B[0], 1, b"ping")),
        ethernet(ipv4(A[0], B[0], 6, b"short")),
        b"",
        tcp(A, B, 5, b"abc"),
    ]
    packets = read_capture(written(tmp_path / "a.pcap", pcap([Record(i, f) for i, f in enumerate(frames)])))
    assert packets.protocol.tolist() == [0, 0, 0, 0, TCP]


@pytest.mark.parametrize("cut", [1, 5, 16, 40])
def test_a_last_record_that_is_cut_off_is_left_out_and_told(tmp_path: Path, cut: int) -> None:
    data = pcap([Record(0, tcp(A, B, 5, b"abc")), Record(1, tcp(A, B, 8, b"def"))])
    packets = read_capture(written(tmp_path / "a.pcap", data[:-cut]))
    assert len(packets) == 1
    assert packets.truncated


@pytest.mark.parametrize("length", [2**32 - 1, 2**21])
def test_a_record_of_impossible_length_ends_the_reading(tmp_path: Path, length: int) -> None:
    """Also where the file is so long that the record would fit."""
    wild = b"\0" * 8 + struct.pack("<II", length, length)
    data = pcap([Record(0, tcp(A, B, 5, b"abc"))]) + wild + b"\0" * 2**21
    packets = read_capture(written(tmp_path / "a.pcap", data))
    assert len(packets) == 1
    assert packets.truncated


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\xd4\xc3\xb2\xa1", "is not a pcap or pcapng file"),
        (b"rank,bytes\n0,17\n" * 9, "is not a pcap or pcapng file"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" * 9, "is not a pcap or pcapng file"),
        (b"\x0a\x0d\x0d\x0a" + b"\0" * 60, "byte-order mark"),
        (pcap([]), "no complete packet"),
        (pcap([Record(0, b"x" * 60)], link_type=127), "link type 127"),
        (pcap([Record(0, b"x" * 60)])[:70], "no complete packet"),
    ],
)
def test_what_is_no_capture_is_refused_in_one_line(tmp_path: Path, data: bytes, reason: str) -> None:
    path = written(tmp_path / "odd.pcap", data)
    with pytest.raises(BadCapture, match=reason) as caught:
        read_capture(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_modified_format_has_longer_record_headers(tmp_path: Path, order: Order) -> None:
    """Kuznetzov's libpcap: interface, protocol, direction and padding follow the lengths."""
    frame = tcp(A, B, 5, b"abc")
    header = struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)
    record = struct.pack(order + "IIIIIHBB", 7, 8, len(frame), len(frame), 1, 0x0800, 0, 0) + frame
    packets = read_capture(written(tmp_path / "a.pcap", header + record * 2))
    assert packets.time_ns.tolist() == [7_000_008_000] * 2
    assert packets.payload_nbytes.tolist() == [3, 3]

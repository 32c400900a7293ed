"""The reader against tshark, hand-made files and hostile ones."""

import shutil
import struct
import subprocess
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyshark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.made_captures import NS_MAGIC, US_MAGIC, Order, Record, ethernet, ipv4, pcap, tcp, udp
from traces.packets.packets import TCP, UDP, BadCapture
from traces.packets.pcap import read_pcap

SAMPLES = Path(__file__).parents[1] / "traces" / "samples"
A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
FIELDS = (
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "ip.src",
    "ip.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.flags",
    "tcp.seq",
    "tcp.ack",
    "tcp.len",
)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("sample", ["ddp_gloo_8/h3.pcap", "ddp_gloo_8_gpt_tso/h5.pcap"])
def test_every_field_of_every_tcp_packet_is_what_tshark_says(sample: str) -> None:
    path = SAMPLES / sample
    fields = [word for field in FIELDS for word in ("-e", field)]
    options = ["-o", "tcp.relative_sequence_numbers:false", "-o", "tcp.desegment_tcp_streams:false"]
    command = ["tshark", "-n", "-r", str(path), "-c", "600", *options, "-Y", "tcp", "-T", "fields", *fields]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    packets = read_pcap(path)
    rows = np.flatnonzero(packets.protocol == TCP)
    ours = [
        (
            f"{packets.time_ns[row] // 10**9}.{packets.time_ns[row] % 10**9:09d}",
            str(packets.wire_nbytes[row]),
            str(packets.captured_nbytes[row]),
            packets.addresses[packets.src[row]],
            packets.addresses[packets.dst[row]],
            str(packets.sport[row]),
            str(packets.dport[row]),
            f"0x{packets.flags[row]:04x}",
            str(packets.seq[row]),
            str(packets.ack[row]),
            str(packets.payload_nbytes[row]),
        )
        for row in rows.tolist()
    ]
    theirs = [tuple(line.split("\t")) for line in printed.splitlines()]
    assert len(theirs) > 400
    assert ours[: len(theirs)] == theirs


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_pyshark_sees_the_same_first_hundred_packets() -> None:
    path = SAMPLES / "ps_1srv_4wk" / "h0.pcap"
    options = ["-n", "-c", "100"]
    with pyshark.FileCapture(str(path), keep_packets=False, custom_parameters=options) as capture:
        theirs = [
            (
                Decimal(p.sniff_timestamp),
                *map(int, (p.length, p.tcp.srcport, p.tcp.seq_raw, p.tcp.len)),
                p.ip.src,
            )
            for p in capture
        ]
    packets = read_pcap(path)
    ours = [
        (
            Decimal(int(packets.time_ns[row])) / 10**9,
            int(packets.wire_nbytes[row]),
            int(packets.sport[row]),
            int(packets.seq[row]),
            int(packets.payload_nbytes[row]),
            packets.addresses[packets.src[row]],
        )
        for row in range(100)
    ]
    assert ours == theirs


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit_ns"), [(NS_MAGIC, 1), (US_MAGIC, 1000)])
def test_both_byte_orders_and_both_units_of_time_are_read(
    tmp_path: Path, order: Order, magic: int, unit_ns: int
) -> None:
    time_ns = 1_795_271_927_329_748_047
    frames = [tcp(A, B, 2**32 - 1, b"x" * 70, flags=0x18), udp(B, A, b"hello")]
    data = pcap([Record(time_ns, f, len(f) + 30) for f in frames], order, magic, snaplen=100)
    packets = read_pcap(written(tmp_path / "a.pcap", data))
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
    packets = read_pcap(written(tmp_path / "a.pcap", pcap([Record(0, tagged), Record(1, plain)])))
    assert packets.payload_nbytes.tolist() == [3, 3]
    assert packets.sport.tolist() == [4000, 4000]


def test_padding_of_short_ethernet_frames_is_no_payload(tmp_path: Path) -> None:
    packets = read_pcap(written(tmp_path / "a.pcap", pcap([Record(0, tcp(A, B, 5) + b"\0" * 6)])))
    assert packets.payload_nbytes.tolist() == [0]
    assert packets.visible_nbytes.tolist() == [0]


def test_a_segment_above_64_kib_has_the_length_of_the_wire(tmp_path: Path) -> None:
    frame = tcp(A, B, 5, b"abc")
    big = frame[:16] + b"\0\0" + frame[18:]  # IPv4's total length 0: BIG TCP
    packets = read_pcap(written(tmp_path / "a.pcap", pcap([Record(0, big, 54 + 100_000)])))
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
    packets = read_pcap(written(tmp_path / "a.pcap", pcap([Record(i, f) for i, f in enumerate(frames)])))
    assert packets.protocol.tolist() == [0, 0, 0, 0, TCP]


@pytest.mark.parametrize("cut", [1, 5, 16, 40])
def test_a_last_record_that_is_cut_off_is_left_out_and_told(tmp_path: Path, cut: int) -> None:
    data = pcap([Record(0, tcp(A, B, 5, b"abc")), Record(1, tcp(A, B, 8, b"def"))])
    packets = read_pcap(written(tmp_path / "a.pcap", data[:-cut]))
    assert len(packets) == 1
    assert packets.truncated


@pytest.mark.parametrize("length", [2**32 - 1, 2**21])
def test_a_record_of_impossible_length_ends_the_reading(tmp_path: Path, length: int) -> None:
    """Also where the file is so long that the record would fit."""
    wild = b"\0" * 8 + struct.pack("<II", length, length)
    data = pcap([Record(0, tcp(A, B, 5, b"abc"))]) + wild + b"\0" * 2**21
    packets = read_pcap(written(tmp_path / "a.pcap", data))
    assert len(packets) == 1
    assert packets.truncated


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is no pcap file"),
        (b"\xd4\xc3\xb2\xa1", "is no pcap file"),
        (b"rank,bytes\n0,17\n" * 9, "is no pcap file"),
        (b"\x0a\x0d\x0d\x0a" + b"\0" * 60, "editcap -F"),
        (pcap([]), "no whole packet"),
        (pcap([Record(0, b"x" * 60)], link_type=113), "link type 113"),
        (pcap([Record(0, b"x" * 60)])[:70], "no whole packet"),
    ],
)
def test_what_is_no_capture_is_refused_in_one_line(tmp_path: Path, data: bytes, reason: str) -> None:
    path = written(tmp_path / "odd.pcap", data)
    with pytest.raises(BadCapture, match=reason) as caught:
        read_pcap(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@given(
    noise=st.binary(max_size=400),
    places=st.lists(st.tuples(st.integers(24, 2_000), st.integers(0, 255)), max_size=20),
)
def test_broken_bytes_never_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, places: list[tuple[int, int]]
) -> None:
    data = bytearray(pcap([Record(i, tcp(A, B, i, b"x" * i)) for i in range(15)]) + noise)
    for place, value in places:
        if place < len(data):
            data[place] = value
    path = written(tmp_path_factory.mktemp("fuzz") / "a.pcap", bytes(data))
    try:
        packets = read_pcap(path)
    except BadCapture:
        return
    assert 1 <= len(packets) <= len(data) // 16
    assert np.all(packets.payload_at + packets.visible_nbytes <= len(data))
    assert np.all(packets.visible_nbytes <= packets.payload_nbytes)
    assert np.all(packets.visible_nbytes >= 0)

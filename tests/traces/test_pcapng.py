"""pcapng: clocks, byte orders, sections, kinds of packets, statistics, and files that lie."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from gradwire.traces.packets import pcapng
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import BadCapture, Packets
from tests import made_pcapng as ng
from tests.made_captures import Order, Record, pcap, tcp
from tests.tshark import ours, tshark_says

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
FRAME = tcp(A, B, 5, b"abc")
TIME_NS = 1_795_271_927_329_748_047


def read(tmp_path: Path, *blocks: bytes) -> Packets:
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"".join(blocks))
    return read_capture(path)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("resolution", [0, 3, 6, 9, 12, 0x80, 0x8A, 0x94, 0x9E, 0xA0, 0xA1, 0xA8])
def test_every_resolution_of_time_is_read_rounded_down(tmp_path: Path, order: Order, resolution: int) -> None:
    per_second = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    ticks = TIME_NS * per_second // 10**9 % 2**64
    options = ng.option(ng.RESOLUTION, bytes([resolution]), order) + ng.option(0, b"", order)
    blocks = [ng.section(order), ng.interface(order, options), ng.packet(ticks, FRAME, order)]
    packets = read(tmp_path, *blocks)
    assert packets.time_ns.tolist() == [ticks * 10**9 // per_second]
    assert packets.payload_nbytes.tolist() == [3]


@needs_tshark
def test_interfaces_and_sections_each_have_their_own_clock_and_order(tmp_path: Path) -> None:
    nano = ng.option(ng.RESOLUTION, b"\x09") + ng.option(ng.NAME, b"eth0")
    shifted = ng.option(ng.OFFSET, struct.pack(">q", 1_000_000_000), ">")
    packets = read(
        tmp_path,
        ng.section("<"),
        ng.interface("<", nano),
        ng.interface("<", link_type=101, snaplen=40),
        ng.packet(TIME_NS, FRAME),
        ng.packet(TIME_NS // 1000, FRAME[14:], number=1),
        ng.section(">"),
        ng.interface(">", shifted),
        ng.packet(795_271_927_329_748, FRAME, ">"),
        ng.old_packet(795_271_927_329_749, FRAME, ">"),
    )
    us = TIME_NS // 1000 * 1000
    assert packets.time_ns.tolist() == [TIME_NS, us, us, us + 1000]
    assert packets.interface.tolist() == [0, 1, 2, 2]
    assert [(i.name, i.link_type, i.snaplen) for i in packets.interfaces] == [
        ("eth0", 1, 0), ("", 101, 40), ("", 1, 0),
    ]  # fmt: skip
    assert packets.network_offset.tolist() == [14, 0, 14, 14]
    assert packets.ip_version.tolist() == [4] * 4
    assert ours(packets) == tshark_says(packets.path)


def test_simple_packets_are_cut_at_the_snaplen_and_have_the_time_of_the_one_before(tmp_path: Path) -> None:
    packets = read(
        tmp_path,
        ng.section(),
        ng.interface(snaplen=56),
        ng.packet(7, FRAME[:56], wire_nbytes=57),
        ng.simple_packet(FRAME[:56], wire_nbytes=57),
        ng.simple_packet(FRAME[:20], wire_nbytes=20),
    )
    assert packets.captured_nbytes.tolist() == [56, 56, 20]
    assert packets.wire_nbytes.tolist() == [57, 57, 20]
    assert packets.time_ns.tolist() == [7000] * 3


def test_blocks_that_nobody_knows_are_stepped_over(tmp_path: Path) -> None:
    other = ng.block(0x0BAD, b"secrets!" * 1000)
    packets = read(
        tmp_path, ng.section(), other, ng.interface(), other, ng.packet(1, FRAME), other, ng.packet(2, FRAME)
    )
    assert packets.time_ns.tolist() == [1000, 2000]
    assert not packets.truncated


def test_what_was_dropped_is_the_last_count_or_the_sum_of_the_packets_own(tmp_path: Path) -> None:
    def count(code: int, value: int) -> bytes:
        return ng.option(code, struct.pack("<Q", value))

    packets = read(
        tmp_path,
        ng.section(),
        *[ng.interface()] * 3,
        ng.packet(1, FRAME, number=1, options=ng.option(1, b"why") + count(ng.DROPCOUNT, 5)),
        ng.packet(2, FRAME, number=1, options=count(ng.DROPCOUNT, 2)),
        ng.statistics(0, count(ng.INTERFACE_DROPS, 1)),
        ng.statistics(0, count(ng.INTERFACE_DROPS, 3) + count(ng.SYSTEM_DROPS, 4)),
    )
    assert [interface.dropped for interface in packets.interfaces] == [7, 7, None]


def test_a_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    evil = ng.interface(options=ng.option(ng.NAME, b"eth\x1b[2J\n\xff"))
    assert read(tmp_path, ng.section(), evil, ng.packet(1, FRAME)).interfaces[0].name == "eth?[2J?\ufffd"


GOOD = [ng.section(), ng.interface(), ng.packet(1, FRAME)]
BROKEN = {
    "length 0": (ng.block(6, b"\0" * 40, nbytes=0), "length"),
    "length 2**32 - 1": (ng.block(6, b"\0" * 40, nbytes=2**32 - 1), "length"),
    "length 2**32 - 4": (ng.block(6, b"\0" * 40, nbytes=2**32 - 4), "length"),
    "length 2**31, unknown block": (ng.block(0x0BAD, b"\0" * 40, nbytes=2**31), "cut off"),
    "length no multiple of 4": (ng.block(6, b"\0" * 40, nbytes=51), "length"),
    "shorter than its header": (ng.block(6, b"\0" * 4), "length"),
    "two lengths": (ng.block(6, b"\0" * 40)[:-4] + b"\x40\0\0\0", "two lengths"),
    "captured beyond block": (
        ng.block(6, struct.pack("<IIIII", 0, 0, 0, 41, 41) + b"\0" * 40),
        "longer than its block",
    ),
    "interface out of range": (ng.packet(1, FRAME, number=1), "interface"),
    "interface 2**32 - 1": (ng.packet(1, FRAME, number=2**32 - 1), "interface"),
    "option without end": (ng.interface(options=struct.pack("<HH", 2, 60_000)), "option"),
    "too many options": (ng.interface(options=ng.option(1, b"") * 1001), "options"),
    "resolution 10**-20": (ng.interface(options=ng.option(ng.RESOLUTION, b"\x14")), "resolution"),
    "resolution 2**-64": (ng.interface(options=ng.option(ng.RESOLUTION, b"\xc0")), "resolution"),
    "offset": (ng.interface(options=ng.option(ng.OFFSET, struct.pack("<q", 2**62))), "offset"),
    "order of bytes": (ng.block(ng.SECTION, b"\0" * 16), "byte-order mark"),
    "short interface": (ng.block(ng.INTERFACE, b"\0" * 4), "too short"),
    "short statistics": (ng.block(ng.STATISTICS, b"\0" * 4), "too short"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_ends_the_reading_and_is_told(tmp_path: Path, name: str) -> None:
    block, reason = BROKEN[name]
    packets = read(tmp_path, *GOOD, block, ng.packet(2, FRAME))
    assert len(packets) == 1
    assert packets.truncated
    assert reason in packets.fault
    assert f"at byte {sum(map(len, GOOD)):,}" in packets.fault or "cut off" in packets.fault


@pytest.mark.parametrize("cut", [1, 4, 30, len(GOOD[-1]) - 1])
def test_a_last_packet_that_is_cut_off_is_left_out_and_told(tmp_path: Path, cut: int) -> None:
    packets = read(tmp_path, *GOOD, GOOD[-1][:-cut])
    assert len(packets) == 1
    assert packets.fault == f"at byte {sum(map(len, GOOD)):,}: the last packet is cut off"


def test_a_file_with_nothing_but_broken_blocks_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        BadCapture, match=r"a\.pcapng: it holds no complete packet \(at byte 28: .*length"
    ) as caught:
        read(tmp_path, ng.section(), ng.block(6, b"\0" * 40, nbytes=0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("limit", "noun"), [("MAX_INTERFACES", "interfaces"), ("MAX_READ_BLOCKS", "blocks")])
def test_there_are_only_so_many_blocks_for_python_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, noun: str
) -> None:
    monkeypatch.setattr(pcapng, limit, 5)
    packets = read(tmp_path, *GOOD, ng.interface() * 5, ng.packet(2, FRAME))
    assert len(packets) == 1
    assert f"more than 5 {noun}" in packets.fault


def test_packets_of_a_link_that_is_not_read_are_rows_without_protocol(tmp_path: Path) -> None:
    blocks = [ng.section(), ng.interface(link_type=127), ng.interface()]
    packets = read(tmp_path, *blocks, ng.packet(1, FRAME, number=0), ng.packet(2, FRAME, number=1))
    assert packets.protocol.tolist() == [0, 6]
    with pytest.raises(BadCapture, match="link type 127"):
        read(tmp_path, *blocks[:2], ng.packet(1, FRAME))


@pytest.mark.skipif(not shutil.which("mergecap"), reason="mergecap is not installed")
def test_what_wireshark_merges_from_several_interfaces_is_what_tshark_says(tmp_path: Path) -> None:
    for name, link_type, frame in [
        ("a", 1, FRAME),
        ("b", 101, FRAME[14:]),
        ("c", 113, b"\0" * 14 + FRAME[12:]),
    ]:
        records = [Record(TIME_NS + i * 10**6, frame) for i in range(5)]
        (tmp_path / f"{name}.pcap").write_bytes(pcap(records, link_type=link_type))
    merged = tmp_path / "merged.pcapng"
    inputs = [tmp_path / f"{name}.pcap" for name in "abc"]
    subprocess.run(["mergecap", "-w", merged, *inputs], check=True)
    packets = read_capture(merged)
    assert {interface.link_type for interface in packets.interfaces} == {1, 101, 113}
    assert (packets.protocol == 6).all()
    assert ours(packets) == tshark_says(merged)

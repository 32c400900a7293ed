"""A packet that one file has twice counts once, and one that TCP sent again does not count as a copy."""

import struct
from pathlib import Path

import pytest

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.copies import without_copies
from gradwire.traces.packets.packets import Packets
from tests.made_captures import Record, pcap, tcp, udp

A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
ID_AT = 14 + 4  # behind Ethernet's header


def frame(seq: int, ip_id: int) -> bytes:
    made = bytearray(tcp(A, B, seq, b"x" * 100))
    struct.pack_into(">H", made, ID_AT, ip_id)
    return bytes(made)


def read(folder: Path, frames: list[tuple[int, bytes]]) -> Packets:
    path = folder / "a.pcap"
    path.write_bytes(pcap([Record(*one) for one in frames]))
    return without_copies(read_capture(path))


def test_a_packet_seen_at_two_points_is_kept_as_it_was_first_seen(tmp_path: Path) -> None:
    packets = read(tmp_path, [(1000, frame(1, 7)), (3000, frame(1, 7)), (4000, frame(101, 8))])
    assert packets.n_copies == 1
    assert packets.time_ns.tolist() == [1000, 4000]
    assert packets.seq.tolist() == [1, 101]


@pytest.mark.parametrize(
    ("second_ns", "second_id"),
    [(3000, 8), (2_000_000_000, 7)],  # TCP sent it again; the identifications began again
)
def test_what_was_sent_again_is_no_copy(tmp_path: Path, second_ns: int, second_id: int) -> None:
    packets = read(tmp_path, [(1000, frame(1, 7)), (second_ns, frame(1, second_id))])
    assert (len(packets), packets.n_copies) == (2, 0)


def test_without_an_identification_nothing_is_left_out(tmp_path: Path) -> None:
    packets = read(tmp_path, [(1000, frame(1, 0)), (3000, frame(1, 0))])
    assert (len(packets), packets.n_copies) == (2, 0)


def test_three_points_have_two_copies(tmp_path: Path) -> None:
    packets = read(tmp_path, [(time_ns, frame(1, 7)) for time_ns in (3000, 1000, 2000)])
    assert (packets.time_ns.tolist(), packets.n_copies) == ([1000], 2)


@pytest.mark.parametrize(("second", "kept"), [(b"gradient 1", 1), (b"gradient 2", 2), (b"gradient", 2)])
def test_datagrams_of_one_number_that_begin_differently_are_no_copies(
    tmp_path: Path, second: bytes, kept: int
) -> None:
    frames = [(0, udp(A, B, b"gradient 1")), (1000, udp(A, B, second))]
    assert len(read(tmp_path, frames)) == kept

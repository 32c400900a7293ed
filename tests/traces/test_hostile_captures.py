"""Captures with wrong bytes, of every format: refused in one line, or read alike whole and in blocks."""

import gzip
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.traces.packets.capture import packet_blocks, read_capture
from gradwire.traces.packets.columns import Headers
from gradwire.traces.packets.packets import BadCapture, Packets
from tests.made_captures import Record, pcap
from tests.traces.test_capture import FRAMES, NEXT, PLAIN, written, zstd

FORMATS = {
    "pcap": PLAIN,
    "pcap, big-endian, µs": pcap([Record(i, f) for i, f in enumerate(FRAMES)], ">", 0xA1B2C3D4),
    "pcapng": NEXT,
    "gzip": gzip.compress(PLAIN),
    "zstd": zstd(NEXT),
}
edits = st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=8)), max_size=12)


@pytest.mark.parametrize("name", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200), places=edits, cut=st.integers(0, 400), piece=st.integers(1, 3000))
def test_a_file_with_wrong_bytes_is_refused_or_read_the_same_way_in_blocks(
    tmp_path: Path, name: str, noise: bytes, places: list[tuple[int, bytes]], cut: int, piece: int
) -> None:
    data = bytearray(FORMATS[name])
    for place, value in places:
        data[place % len(data) : place % len(data) + len(value)] = value
    path = written(tmp_path / "a", bytes(data[: len(data) - cut]) + noise)
    check_either(path, piece)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=600),
    start=st.sampled_from([b"", PLAIN[:24], NEXT[:48], b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]),
)
def test_any_bytes_are_refused_or_read(tmp_path: Path, data: bytes, start: bytes) -> None:
    check_either(written(tmp_path / "a", start + data), 100)


def check_either(path: Path, piece_nbytes: int) -> None:
    try:
        packets = read_capture(path)
    except BadCapture:
        with pytest.raises(BadCapture, match=r"\A[^\n]+\Z"):
            list(packet_blocks(path, piece_nbytes))
        return
    check_columns(packets)
    blocks = list(packet_blocks(path, piece_nbytes))
    for block in blocks:
        check_columns(block)
    assert np.array_equal(np.concatenate([block.time_ns for block in blocks]), packets.time_ns)
    assert blocks[-1].fault == packets.fault


def check_columns(packets: Packets) -> None:
    """What holds of every file, whatever is in it."""
    assert len(packets) > 0
    assert {len(getattr(packets, f.name)) for f in fields(packets) if f.name in Headers._fields} == {
        len(packets)
    }
    frame_end = packets.frame_at + packets.captured_nbytes
    assert np.all(frame_end <= len(packets.data))
    assert np.all(packets.payload_at + packets.visible_nbytes <= np.maximum(frame_end, packets.payload_at))
    assert np.all(packets.payload_at <= len(packets.data))
    assert np.all((packets.visible_nbytes >= 0) & (packets.visible_nbytes <= packets.payload_nbytes))
    assert np.all(packets.captured_nbytes <= packets.wire_nbytes)
    assert np.all(packets.interface < len(packets.interfaces))
    known = packets.protocol > 0
    if known.any():
        assert max(packets.src[known].max(), packets.dst[known].max()) < len(packets.addresses)
    assert packets.truncated == bool(packets.fault)

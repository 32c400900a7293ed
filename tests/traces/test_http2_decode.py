"""HTTP/2 frames in streams, whole and cut off by the snaplen."""

from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.http2 import PREFACE, FrameType
from gradwire.traces.framing.http2_decode import Part, decode, header_block
from gradwire.traces.packets.streams import Stream
from tests.made_http2 import HEAD, Asks, conversation, data, frame, from_client, message
from tests.made_http2 import settings as settings_frame

PING = frame(FrameType.PING, 0, 0, b"12345678")


def test_every_frame_of_a_whole_stream_is_found(tmp_path: Path) -> None:
    block = Asks().block("/a.B/C")
    writes = [frame(FrameType.HEADERS, HEAD, 1, block) + data(1, message(5_000)), PING, data(1, b"", 1)]
    parts = list(decode(from_client(tmp_path / "a.pcap", writes)))
    assert [(part.header.type, part.header.nbytes) for part in parts if part.header] == [
        (FrameType.SETTINGS, 6),
        (FrameType.HEADERS, len(block)),
        (FrameType.DATA, 5_005),
        (FrameType.PING, 8),
        (FrameType.DATA, 0),
    ]
    assert all(part.header for part in parts)


def test_what_a_packets_end_hides_is_a_gap_up_to_the_next_packet_that_begins_with_frames(
    tmp_path: Path,
) -> None:
    hidden = data(1, bytes(80)) + PING
    stream = from_client(tmp_path / "a.pcap", [Asks().headers(1, "/a.B/C") + hidden, PING, PING], visible=60)
    parts = list(decode(stream))
    assert [part.nbytes for part in parts if part.header is None] == [len(hidden)]
    assert parts[-1].header is not None and parts[-1].header.type is FrameType.PING
    assert tiled(stream, parts)


def test_zeros_and_counters_in_tensors_are_not_taken_for_frames(tmp_path: Path) -> None:
    """Integers as tensors hold them look like headers: 0, 1, 3 as int32 is an empty frame of stream 3."""
    counters = b"".join(number.to_bytes(4, "little") for number in range(100_000))
    stream = from_client(
        tmp_path / "a.pcap", [Asks().headers(1, "/a.B/C") + data(1, bytes(99) + counters), PING], 62, 100
    )
    parts = list(decode(stream))
    found = [part.header.type for part in parts if part.header]
    assert (
        found == [FrameType.SETTINGS, FrameType.HEADERS, FrameType.DATA, FrameType.PING]
        or parts[-2].header is None
    )
    assert FrameType.HEADERS not in found[2:] and found.count(FrameType.DATA) <= 1


def test_a_capture_that_begins_in_the_middle_is_read_from_the_first_run_of_frames(tmp_path: Path) -> None:
    found = conversation(tmp_path / "a.pcap", [bytes(700), PING + PING, PING], [], opened=False)
    parts = list(decode(found.streams[0]))
    assert parts[0] == Part(0, 700, None)
    assert [part.header.type for part in parts[1:] if part.header] == [FrameType.PING] * 3


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", PREFACE + PING, PREFACE[:-1], bytes(64)])
def test_a_stream_that_begins_otherwise_holds_no_frame(tmp_path: Path, first: bytes) -> None:
    found = conversation(tmp_path / "a.pcap", [first, settings_frame()], [])
    assert list(decode(found.streams[0])) == []


def test_a_block_is_its_headers_and_continuations(tmp_path: Path) -> None:
    block = Asks().block("/a.B/C")
    pieces = [block[:10], block[10:30], block[30:]]
    kinds = [(FrameType.HEADERS, 0), (FrameType.CONTINUATION, 0), (FrameType.CONTINUATION, HEAD)]
    write = b"".join(frame(kind, flags, 1, piece) for (kind, flags), piece in zip(kinds, pieces, strict=True))
    stream = from_client(tmp_path / "a.pcap", [write])
    parts = list(decode(stream))
    assert header_block(stream, parts, 1, 1 << 13) == (block, True)
    assert header_block(stream, parts, 1, 20) == (block[:20], False)


def tiled(stream: Stream, parts: list[Part]) -> bool:
    """Whether parts follow each other without a gap, to the stream's end."""
    joined = all(one.end == other.start for one, other in pairwise(parts))
    return joined and (not parts or parts[-1].end >= stream.nbytes)


@given(
    st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    st.integers(9, 200),
    st.integers(20, 400),
    st.booleans(),
)
def test_whatever_follows_the_preface_the_parts_cover_the_stream(
    writes: list[bytes], visible: int, segment: int, is_framed: bool
) -> None:
    if is_framed:
        writes = [frame(FrameType(w[0] % 10), w[0] % 2, w[-1], w) for w in writes]
    with TemporaryDirectory() as folder:
        stream = from_client(Path(folder) / "a.pcap", writes, max(visible, 33), segment)
        parts = list(decode(stream))
    assert tiled(stream, parts)


def test_noise_after_a_hidden_header_is_looked_at_once(tmp_path: Path) -> None:
    """The frame before them ends in the first, so all are searched for the next frame."""
    noise = Random(1).randbytes(40 * 20_000)
    stream = from_client(tmp_path / "a.pcap", [Asks().headers(1, "/a.B/C") + bytes(80), noise], 60, 40)
    assert sum(part.nbytes for part in decode(stream)) + len(PREFACE) >= stream.nbytes

"""The message index's bytes: what is written comes back, and what a stranger wrote is refused in a line."""

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.packets import messageindex
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.messageindex import (
    MAX_DELAYS,
    SCHEMA,
    BadIndex,
    MessageIndex,
    StreamIndex,
    decode,
    encode,
)
from gradwire.traces.packets.queueing import QueueingDelays
from tests.documented import documented_fields

FORTH = Direction("10.0.0.1", 4000, "10.0.0.2", 5000)
SHA = "0123456789abcdef" * 4


def part(direction: Direction, first_seq: int, *pieces: tuple[int, bytes]) -> StreamIndex:
    return StreamIndex(
        direction,
        first_seq,
        np.array([offset for offset, _ in pieces], np.int64),
        np.array([len(octets) for _, octets in pieces], np.int64),
        np.frombuffer(b"".join(octets for _, octets in pieces), np.uint8),
    )


INDEX = MessageIndex(
    SHA,
    (
        part(FORTH, 4_294_967_295, (62, b"abc"), (1 << 40, b"d")),
        part(Direction("2001:db8::1", 1, "2001:db8::2", 2, 3), 0, (0, b"efgh")),
    ),
    QueueingDelays(np.array([24, 1 << 40]), np.array([0, (1 << 32) - 1])),
)


def header(body: bytes, *streams: dict[str, Any], **other: Any) -> bytes:
    value = {
        "schema": SCHEMA,
        "capture_sha256": SHA,
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "streams": streams,
    }
    return json.dumps(value | other).encode() + b"\n"


def named(pieces: int, **other: Any) -> dict[str, Any]:
    value = {"src": "10.0.0.1", "sport": 1, "dst": "10.0.0.2", "dport": 2, "number": 0, "first_seq": 1}
    return value | {"pieces": pieces} | other


def file(
    *pieces: tuple[int, int],
    data: bytes = b"",
    streams: tuple[dict[str, Any], ...] = (),
    delayed: Sequence[tuple[int, int]] = (),
    **other: Any,
) -> bytes:
    """One written by the documentation alone: the table of offsets, that of lengths, the bytes; and where
    packets begin that queued, and for how long.
    """
    body = struct.pack(f"<{len(pieces)}Q", *(offset for offset, _ in pieces))
    body += struct.pack(f"<{len(pieces)}I", *(nbytes for _, nbytes in pieces)) + data
    body += struct.pack(f"<{len(delayed)}Q", *(at for at, _ in delayed))
    body += struct.pack(f"<{len(delayed)}I", *(delay_ns for _, delay_ns in delayed))
    return header(body, *(streams or (named(len(pieces)),)), **other) + body


def test_what_is_written_comes_back() -> None:
    back = decode(encode(INDEX))
    assert back.capture_sha256 == SHA
    for one, two in zip(back.streams, INDEX.streams, strict=True):
        assert (one.direction, one.first_seq) == (two.direction, two.first_seq)
        for name in ("offset", "nbytes", "data"):
            assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert back.delays is not None
    assert back.delays.frame_at.tolist() == [24, 1 << 40]
    assert back.delays.delay_ns.tolist() == [0, (1 << 32) - 1]


def test_an_index_written_by_the_documentation_alone_is_read() -> None:
    [stream] = decode(file((5, 2), (9, 1), data=b"xyz")).streams
    assert stream.direction == Direction("10.0.0.1", 1, "10.0.0.2", 2)
    assert stream.offset.tolist() == [5, 9]
    assert stream.nbytes.tolist() == [2, 1]
    assert stream.data.tobytes() == b"xyz"


def test_so_are_delays() -> None:
    index = decode(file((5, 2), data=b"xy", delayed=[(40, 7), (200, 9)], delays=2))
    assert index.streams[0].data.tobytes() == b"xy"
    assert index.delays is not None
    assert index.delays.frame_at.tolist() == [40, 200]
    assert index.delays.delay_ns.tolist() == [7, 9]


def test_no_delays_are_not_the_same_as_none_measured() -> None:
    measured = MessageIndex(SHA, (), QueueingDelays(np.empty(0, np.int64), np.empty(0, np.int64)))
    back = decode(encode(measured)).delays
    assert back is not None
    assert len(back.frame_at) == 0
    assert decode(encode(MessageIndex(SHA, ()))).delays is None


def test_an_index_of_nothing_is_read() -> None:
    assert decode(encode(MessageIndex(SHA, ()))).streams == ()


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"", "first line does not end"),
        (b"\xd4\xc3\xb2\xa1" * 10 + b"\n", "not a message index header"),
        (b"[" * 100_000 + b"\n", "not a message index header"),
        (encode(INDEX)[:-1], "do not match the hash"),
        (header(b"", schema="gradwire.messages/2"), "not a message index header"),
        (header(b"", named(1, sport=65_536)), "not a message index header"),
        (header(b"", named(1, src="h0")), "not a message index header"),
        (header(b"", named(1 << 60)), "not a message index header"),
        (header(b"", named(1000)), "ends before the end of its table"),
        (file((0, 4), data=b"abc"), "its pieces should have 4 bytes in all, but have 3"),
        (file((0, 0), (1, 3), data=b"abc"), "a piece is empty"),
        (file(((1 << 64) - 1, 3), data=b"abc"), "beyond the largest offset in a stream"),
        (file((4, 2), (5, 1), data=b"abc"), "overlap"),
        (file((9, 2), (5, 1), data=b"abc"), "out of order"),
        (file((1, 1), (2, 1), data=b"ab", streams=(named(1), named(1))), "a stream twice"),
        (header(b"", delays=-1), "not a message index header"),
        (header(b"", delays=MAX_DELAYS + 1), "not a message index header"),
        (header(b"", delays=1), "ends before the end of its table of 1 delays"),
        (file((5, 2), data=b"xy", total=3), "total is not known"),
        (file((5, 2), data=b"xy", delayed=[(1, 1)]), "its pieces should have 2 bytes in all, but have 14"),
        (file((5, 2), data=b"xy", delayed=[(9, 1), (9, 1)], delays=2), "its delays are out of order"),
        (file((5, 2), data=b"xy", delayed=[(9, 1), (1 << 63, 1)], delays=2), "beyond the largest place"),
    ],
)
def test_what_is_not_an_index_is_refused_in_a_line(octets: bytes, said: str) -> None:
    with pytest.raises(BadIndex, match=said) as caught:
        decode(octets)
    assert "\n" not in str(caught.value)


def test_an_index_that_is_too_large_is_neither_read_nor_written(monkeypatch: pytest.MonkeyPatch) -> None:
    octets = encode(INDEX)
    monkeypatch.setattr(messageindex, "MAX_INDEX_NBYTES", len(octets) - 1)
    with pytest.raises(BadIndex, match="larger than"):
        decode(octets)
    with pytest.raises(BadIndex, match="the limit is"):
        encode(INDEX)


EDITS = st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=8)), max_size=8)


@given(edits=EDITS, cut=st.integers(0, 200), more=st.binary(max_size=40), resealed=st.booleans())
def test_any_bytes_are_refused_or_give_pieces_that_hold_together(
    edits: list[tuple[int, bytes]], cut: int, more: bytes, resealed: bool
) -> None:
    """With `resealed` the hash of what was damaged is put right, as a malicious writer would."""
    data = bytearray(encode(INDEX))
    start = data.index(b"\n") + 1 if resealed else 0
    for place, value in edits:
        at = start + place % (len(data) - start)
        data[at : at + len(value)] = value
    octets = bytes(data[: max(start, len(data) - cut)]) + more
    if resealed:
        old = hashlib.sha256(encode(INDEX)[start:]).hexdigest().encode()
        octets = octets.replace(old, hashlib.sha256(octets[start:]).hexdigest().encode())
    try:
        index = decode(octets)
    except BadIndex as error:
        assert "\n" not in str(error)  # noqa: PT017 - whether it is refused is not known beforehand
        return
    for stream in index.streams:
        assert (stream.nbytes > 0).all()
        assert (stream.offset >= 0).all()
        assert (stream.offset[1:] >= (stream.offset + stream.nbytes)[:-1]).all()
        assert stream.nbytes.sum() == len(stream.data)
    if index.delays is not None:
        assert len(index.delays.frame_at) == len(index.delays.delay_ns)
        assert (np.diff(index.delays.frame_at, prepend=-1) > 0).all()
        assert ((index.delays.delay_ns >= 0) & (index.delays.delay_ns < 1 << 32)).all()


def test_the_first_lines_fields_are_those_documented() -> None:
    line = json.loads(encode(INDEX).partition(b"\n")[0])
    assert set(line) == documented_fields("hN.messages: the first line")
    assert set(line["streams"][0]) == documented_fields("hN.messages: streams")

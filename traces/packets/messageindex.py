"""The message index of a trimmed capture: what the packets do not show.

These are the bytes that decoding needs and that were cut off, and how long packets queued in the host's port.
`hN.messages` beside `hN.pcap` (docs/schemas.md).  A line of JSON says which capture it belongs to and which
streams it has; a table of pieces, their bytes and a table of delays follow.  Values only: nothing here opens
a file.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradwire.traces.complaints import complaint
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.queueing import QueueingDelays

SCHEMA: Literal["gradwire.messages/1"] = "gradwire.messages/1"
MAX_INDEX_NBYTES = 1 << 28
MAX_HEADER_NBYTES = 1 << 24
MAX_STREAMS = 1 << 16
MAX_OFFSET = 1 << 50  # of a byte in a stream, or of a packet in its file: a petabyte
MAX_DELAYS = 1 << 22  # packets
PIECE_NBYTES = 12  # of a piece in the table: an offset of 8 bytes, a length of 4
DELAY_NBYTES = 12  # of a packet: where it begins in its file in 8 bytes, ns in 4

_OFFSETS, _LENGTHS = np.dtype("<u8"), np.dtype("<u4")
Octets = npt.NDArray[np.uint8]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Port = Annotated[int, Field(ge=0, lt=1 << 16)]


class BadIndex(Exception):
    """A message index that cannot be used; the text says why, without the file's name."""


@dataclass(frozen=True)
class StreamIndex:
    """Pieces of one stream: ascending, disjoint, none empty; `offset` counts from the byte with `first_seq`.

    `data` holds the bytes of all pieces, one after the other.
    """

    direction: Direction
    first_seq: int
    offset: Ints
    nbytes: Ints
    data: Octets


@dataclass(frozen=True)
class MessageIndex:
    """`capture_sha256` is of the capture file that it belongs to, as it is when not compressed.  `delays` is
    None if they were not measured.
    """

    capture_sha256: str
    streams: tuple[StreamIndex, ...]
    delays: QueueingDelays | None = None


class _Stream(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    src: IPv4Address | IPv6Address
    sport: Port
    dst: IPv4Address | IPv6Address
    dport: Port
    number: Annotated[int, Field(ge=0, lt=1 << 31)]
    first_seq: Annotated[int, Field(ge=0, lt=1 << 32)]
    pieces: Annotated[int, Field(ge=1, le=MAX_INDEX_NBYTES // PIECE_NBYTES)]

    @property
    def direction(self) -> Direction:
        return Direction(str(self.src), self.sport, str(self.dst), self.dport, self.number)


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    schema_: Literal["gradwire.messages/1"] = Field(alias="schema")
    capture_sha256: Sha256
    body_sha256: Sha256
    streams: Annotated[tuple[_Stream, ...], Field(max_length=MAX_STREAMS)]
    delays: Annotated[int, Field(ge=0, le=MAX_DELAYS)] | None = None


def encode(index: MessageIndex) -> bytes:
    """The whole file.  Raises BadIndex for one that `decode` would refuse for its size."""
    parts, delays = index.streams, index.delays
    body = b"".join(
        [
            *(part.offset.astype(_OFFSETS).tobytes() for part in parts),
            *(part.nbytes.astype(_LENGTHS).tobytes() for part in parts),
            *(part.data.tobytes() for part in parts),
            *(() if delays is None else _delays_table(delays)),
        ]
    )
    header = _Header(
        schema=SCHEMA,
        capture_sha256=index.capture_sha256,
        body_sha256=hashlib.sha256(body).hexdigest(),
        streams=tuple(_described(part) for part in parts),
        delays=None if delays is None else len(delays.frame_at),
    )
    line = header.model_dump_json(by_alias=True).encode() + b"\n"
    if len(line) > MAX_HEADER_NBYTES or len(line) + len(body) > MAX_INDEX_NBYTES:
        raise BadIndex(f"it would take {len(line) + len(body):,} bytes; the limit is {MAX_INDEX_NBYTES:,}")
    return line + body


def _delays_table(delays: QueueingDelays) -> tuple[bytes, bytes]:
    return delays.frame_at.astype(_OFFSETS).tobytes(), delays.delay_ns.astype(_LENGTHS).tobytes()


def _described(part: StreamIndex) -> _Stream:
    src, sport, dst, dport, number = part.direction
    return _Stream.model_validate(
        {
            "src": src,
            "sport": sport,
            "dst": dst,
            "dport": dport,
            "number": number,
            "first_seq": part.first_seq,
            "pieces": len(part.offset),
        }
    )


def decode(octets: bytes) -> MessageIndex:
    """The index in a file's bytes.  Raises BadIndex for what is not one, or is damaged."""
    if len(octets) > MAX_INDEX_NBYTES:
        raise BadIndex(f"larger than the {MAX_INDEX_NBYTES:,} bytes that an index may have")
    line, newline, _ = octets[:MAX_HEADER_NBYTES].partition(b"\n")
    if not newline:
        raise BadIndex("its first line does not end")
    try:
        header = _Header.model_validate_json(line)
    except ValidationError as error:
        raise BadIndex(f"its first line is not a message index header: {complaint(error)}") from error
    body = memoryview(octets)[len(line) + 1 :]
    if hashlib.sha256(body).hexdigest() != header.body_sha256:
        raise BadIndex("its contents do not match the hash in its first line")
    if len({stream.direction for stream in header.streams}) < len(header.streams):
        raise BadIndex("it names a stream twice")
    octets_of_body = np.frombuffer(body, np.uint8)
    if header.delays is None:
        return MessageIndex(header.capture_sha256, tuple(_streams(header, octets_of_body)))
    cut = len(body) - header.delays * DELAY_NBYTES
    if cut < 0:
        raise BadIndex(f"it ends before the end of its table of {header.delays:,} delays")
    streams = tuple(_streams(header, octets_of_body[:cut]))
    return MessageIndex(header.capture_sha256, streams, _delays(octets_of_body[cut:]))


def _delays(table: Octets) -> QueueingDelays:
    n_places = len(table) // DELAY_NBYTES * _OFFSETS.itemsize
    frame_at, delay_ns = table[:n_places].view(_OFFSETS), table[n_places:].view(_LENGTHS)
    if np.any(frame_at[1:] <= frame_at[:-1]) or np.any(frame_at > MAX_OFFSET):
        raise BadIndex("its delays are out of order, or of packets beyond the largest place in a file")
    return QueueingDelays(frame_at.astype(np.int64), delay_ns.astype(np.int64))


def _streams(header: _Header, body: Octets) -> Iterator[StreamIndex]:
    """The streams, each with its part of the body."""
    n_pieces = sum(stream.pieces for stream in header.streams)
    if n_pieces * PIECE_NBYTES > len(body):
        raise BadIndex(f"it ends before the end of its table of {n_pieces:,} pieces")
    table_nbytes = n_pieces * _OFFSETS.itemsize
    offsets = body[:table_nbytes].view(_OFFSETS)
    lengths = body[table_nbytes : n_pieces * PIECE_NBYTES].view(_LENGTHS).astype(np.int64)
    data = body[n_pieces * PIECE_NBYTES :]
    if int(lengths.sum()) != len(data):
        raise BadIndex(f"its pieces should have {int(lengths.sum()):,} bytes in all, but have {len(data):,}")
    if n_pieces and (int(lengths.min()) < 1 or int(offsets.max()) > MAX_OFFSET):
        raise BadIndex("a piece is empty, or lies beyond the largest offset in a stream")
    first, at = 0, 0
    for stream in header.streams:
        rows = slice(first, first + stream.pieces)
        offset, nbytes = offsets[rows].astype(np.int64), lengths[rows]
        if np.any(offset[1:] < offset[:-1] + nbytes[:-1]):
            raise BadIndex("the pieces of a stream overlap or are out of order")
        end = at + int(nbytes.sum())
        yield StreamIndex(stream.direction, stream.first_seq, offset, nbytes, data[at:end])
        first, at = first + stream.pieces, end

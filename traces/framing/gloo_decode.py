"""gloo messages in a TCP stream, as far as the capture shows them.

Captures keep the first bytes of each packet only, so a preamble that does not start a packet may be
hidden.  What lies between a place where a message must begin and the next preamble that can be read is
a `GlooGap`; `traces.framing.gloo_hidden` finds out what is in it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from gradwire.traces.framing.gloo import (
    HELLO_NBYTES,
    MAX_LENGTH,
    PREAMBLE_NBYTES,
    Opcode,
    decode_preamble,
)
from gradwire.traces.packets.streams import Stream

MAX_SEARCH = 1 << 12  # packets looked at before a stream is taken for something else than gloo


class GlooFrame(NamedTuple):
    """One message: where its preamble is in the stream, and what that says.

    `length` is the payload's, sent or announced; `recovered`: the preamble itself was not captured.
    """

    offset: int
    opcode: Opcode
    slot: int
    length: int
    recovered: bool = False

    @property
    def nbytes(self) -> int:
        return wire_nbytes(self.opcode, self.length)


class GlooGap(NamedTuple):
    """Bytes [start, end) of a stream that hold whole messages which cannot be read.

    With `is_one` it is exactly one message, of kind `opcode` if that is known.
    """

    start: int
    end: int
    is_one: bool = False
    opcode: Opcode | None = None


@dataclass(frozen=True)
class GlooDecoded:
    """One direction of a connection; `frames` and `gaps` in stream order."""

    stream: Stream
    frames: tuple[GlooFrame, ...]
    gaps: tuple[GlooGap, ...]


def wire_nbytes(opcode: Opcode, length: int) -> int:
    """Bytes of the stream that a message takes."""
    return PREAMBLE_NBYTES + (length if opcode.has_payload else 0)


def decode(stream: Stream) -> GlooDecoded | None:
    """None for a stream in which no gloo message is found."""
    frames: list[GlooFrame] = []
    gaps: list[GlooGap] = []
    start = {True: HELLO_NBYTES, False: 0, None: None}[stream.opener]
    offset = _next_preamble(stream, 0, MAX_SEARCH) if start is None else start
    if start is not None and _is_something_else(stream, start):
        return None
    while offset is not None and offset < stream.nbytes:
        found = _at(stream, offset)
        if isinstance(found, GlooFrame):
            frames.append(found)
            offset += found.nbytes
            continue
        if found is None:
            anchor = _next_preamble(stream, offset + 1, None if frames else MAX_SEARCH)
            found = GlooGap(offset, stream.nbytes if anchor is None else anchor)
        gaps.append(found)
        offset = found.end
    return GlooDecoded(stream, tuple(frames), tuple(gaps)) if frames else None


def _is_something_else(stream: Stream, start: int) -> bool:
    """Whether the place of the first preamble can be read, and holds none."""
    head = stream.visible.read(start, PREAMBLE_NBYTES)
    return len(head) == PREAMBLE_NBYTES and decode_preamble(head) is None


def _at(stream: Stream, offset: int) -> GlooFrame | GlooGap | None:
    """The message at `offset`: whole, or only its size, or nothing."""
    head = stream.visible.read(offset, PREAMBLE_NBYTES)
    if len(head) == PREAMBLE_NBYTES:
        preamble = decode_preamble(head)
        return preamble and GlooFrame(offset, preamble.opcode, preamble.slot, preamble.length)
    nbytes = int.from_bytes(head[:8], "little")
    if len(head) < 8 or not PREAMBLE_NBYTES <= nbytes <= PREAMBLE_NBYTES + MAX_LENGTH:
        return None
    opcode = None
    if len(head) > 8:  # little-endian: the first byte is the lowest
        code = int.from_bytes(head[8:16], "little")
        if code > Opcode.RECV_READY:
            return None
        opcode = Opcode(code)
        if not opcode.has_payload and nbytes != PREAMBLE_NBYTES:
            return None
    return GlooGap(offset, offset + nbytes, is_one=True, opcode=opcode)


def _next_preamble(stream: Stream, offset: int, limit: int | None) -> int | None:
    """The first packet at or after `offset` that starts with a preamble, among the next `limit`."""
    for start in stream.visible.starts_from(offset, limit):
        head = stream.visible.read(start, PREAMBLE_NBYTES)
        if len(head) == PREAMBLE_NBYTES and decode_preamble(head):
            return start
    return None

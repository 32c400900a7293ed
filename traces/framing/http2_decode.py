"""HTTP/2 frames in a TCP stream, as far as the capture shows them.

Captures keep the first bytes of each packet only, and of a long write few packets begin with a frame: what
lies between a place where a frame must begin and the next header that can be read is a gap.  Frames and gaps
together cover the stream from its first byte to its last.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradwire.traces.framing.http2 import (
    HEADER_NBYTES,
    PREFACE,
    Flag,
    FrameHeader,
    FrameType,
    begins_frames,
    content,
    header_at,
)
from gradwire.traces.packets.streams import Stream

MAX_SEARCH = 1 << 12  # packets looked at before a stream is taken for something else than HTTP/2
MAX_AHEAD = 1 << 11  # by how much a stream's number may be beyond the highest seen, after a gap
MAX_CONTROL_NBYTES = (
    1 << 14
)  # of a frame other than DATA, after a gap: what a peer takes unasked (RFC 9113 6.5.2)
_AFTER_GAPS = {
    FrameType.HEADERS,
    FrameType.PING,
    FrameType.RST_STREAM,
    FrameType.SETTINGS,
    FrameType.WINDOW_UPDATE,
}


class Part(NamedTuple):
    """Bytes [start, end) of a TCP stream: a frame, or with no header a gap."""

    start: int
    end: int
    header: FrameHeader | None

    @property
    def nbytes(self) -> int:
        return self.end - self.start


def decode(stream: Stream) -> Iterator[Part]:
    """Nothing for a stream in which no frame is found.  The last part may reach beyond the stream's end."""
    offset = first_frame(stream)
    if offset is None:
        return
    if offset and stream.opener is None:
        yield Part(0, offset, None)
    seen = _Streams()
    while offset < stream.nbytes:
        header = header_at(stream, offset)
        if header is None:
            end = _next_frame(stream, offset + 1, seen)
        else:
            seen.note(header)
            end = offset + HEADER_NBYTES + header.nbytes
        yield Part(offset, end, header)
        offset = end


def header_block(stream: Stream, parts: Sequence[Part], number: int, limit: int) -> tuple[bytes, bool]:
    """What was captured of the header block that begins with a part, up to `limit`, and whether it is all
    of it.

    A block is one HEADERS frame and its CONTINUATION frames (RFC 9113, 4.3).
    """
    block = b""
    for place in range(number, len(parts)):
        header = parts[place].header
        if header is None or (place > number and header.type is not FrameType.CONTINUATION):
            return block, False
        start, end = content(stream, parts[place].start, header)
        piece = stream.visible.read(start, min(end - start, limit))
        block += piece
        if len(piece) < end - start or len(block) > limit:
            return block[:limit], False
        if header.flags & Flag.END_HEADERS:
            return block, True
    return block, False


class _Streams:
    """HTTP/2's streams in one direction, so that payload is not taken for frames."""

    def __init__(self) -> None:
        self._highest = 0
        self._open: set[int] = set()

    def note(self, header: FrameHeader) -> None:
        self._highest = max(self._highest, header.stream_id)
        if header.ends_stream or header.type is FrameType.RST_STREAM:
            self._open.discard(header.stream_id)
        elif header.type is FrameType.HEADERS:
            self._open.add(header.stream_id)

    def may_follow(self, header: FrameHeader) -> bool:
        """Whether frames could go on with this one after a gap.

        Sparse tensors are full of zeros, as are headers; but data needs a stream that is open, and gRPC
        numbers streams in order.
        """
        if header.type is FrameType.DATA:
            return header.stream_id in self._open
        return (
            header.type in _AFTER_GAPS
            and header.nbytes <= MAX_CONTROL_NBYTES
            and header.stream_id <= self._highest + MAX_AHEAD
        )


def first_frame(stream: Stream) -> int | None:
    """Where the first frame begins that can be recognised; None if there is none."""
    if stream.opener is None:
        places = stream.visible.starts_from(0, MAX_SEARCH)
        return next((place for place in places if _is_run(stream, place)), None)
    start = len(PREFACE) if stream.opener else 0
    if stream.visible.read(0, start) != PREFACE[:start]:
        return None
    header = header_at(stream, start)
    return start if header is not None and header.type is FrameType.SETTINGS else None


def _is_run(stream: Stream, offset: int) -> bool:
    """Whether two frames at least begin at `offset`: of the first frame in a stream nothing else is known."""
    header = header_at(stream, offset)
    if header is None or not begins_frames(stream, offset):
        return False
    return header_at(stream, offset + HEADER_NBYTES + header.nbytes) is not None


def _next_frame(stream: Stream, offset: int, seen: _Streams) -> int:
    """The first packet at or after `offset` that begins with frames, or the stream's end."""
    for place in stream.visible.starts_from(offset):
        header = header_at(stream, place)
        if header is not None and seen.may_follow(header) and begins_frames(stream, place):
            return place
    return stream.nbytes

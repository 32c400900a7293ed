"""HTTP/2's frames on the wire (RFC 9113, sections 3.4, 4.1 and 6): values only.

A connection begins with the client's preface; then each direction is frames without a gap, each a header of 9
bytes and up to 16 MiB of payload.
"""

from enum import IntEnum
from typing import NamedTuple

from gradwire.traces.packets.streams import Stream

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_NBYTES = 9
TYPE_AT = 3  # in a frame's header
MAX_HOPS = 8  # frames that are looked at to confirm that a place is the beginning of one


class FrameType(IntEnum):
    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(IntEnum):
    END_STREAM = 0x01  # ACK for SETTINGS and PING
    END_HEADERS = 0x04
    PADDED = 0x08
    PRIORITY = 0x20


_FLAGS = {  # what a sender may set (section 4.1: unused flags MUST be left unset)
    FrameType.DATA: Flag.END_STREAM | Flag.PADDED,
    FrameType.HEADERS: Flag.END_STREAM | Flag.END_HEADERS | Flag.PADDED | Flag.PRIORITY,
    FrameType.SETTINGS: Flag.END_STREAM,
    FrameType.PUSH_PROMISE: Flag.END_HEADERS | Flag.PADDED,
    FrameType.PING: Flag.END_STREAM,
    FrameType.CONTINUATION: Flag.END_HEADERS,
}
_SIZES = {FrameType.PRIORITY: 5, FrameType.RST_STREAM: 4, FrameType.PING: 8, FrameType.WINDOW_UPDATE: 4}
_OF_CONNECTION = {FrameType.SETTINGS, FrameType.PING, FrameType.GOAWAY}  # on stream 0, and only these
_OF_EITHER = {FrameType.WINDOW_UPDATE}
_MIN_GOAWAY_NBYTES = 8
_SETTING_NBYTES = 6


class FrameHeader(NamedTuple):
    """`nbytes` is the length of the payload that follows the header."""

    nbytes: int
    type: FrameType
    flags: int
    stream_id: int

    @property
    def ends_stream(self) -> bool:
        return self.type in (FrameType.DATA, FrameType.HEADERS) and bool(self.flags & Flag.END_STREAM)


def decode_header(head: bytes) -> FrameHeader | None:
    """None for 9 bytes that no sender of gRPC would write: no frame begins there.

    Streams are opened by clients only, with odd numbers: gRPC pushes nothing.
    """
    if len(head) < HEADER_NBYTES or head[3] > FrameType.CONTINUATION:
        return None
    nbytes, kind, flags = int.from_bytes(head[:3], "big"), FrameType(head[3]), head[4]
    stream_id = int.from_bytes(head[5:9], "big")
    if flags & ~_FLAGS.get(kind, 0) or stream_id >> 31 or (stream_id and not stream_id & 1):
        return None
    if kind not in _OF_EITHER and (stream_id == 0) != (kind in _OF_CONNECTION):
        return None
    return FrameHeader(nbytes, kind, flags, stream_id) if _may_be_so_long(kind, flags, nbytes) else None


def _may_be_so_long(kind: FrameType, flags: int, nbytes: int) -> bool:
    if kind in _SIZES:
        return nbytes == _SIZES[kind]
    if kind is FrameType.SETTINGS:
        return nbytes % _SETTING_NBYTES == 0 and not (flags & Flag.END_STREAM and nbytes)
    if kind is FrameType.DATA:
        return nbytes > 0 or bool(flags & Flag.END_STREAM)  # an empty one that ends nothing says nothing
    return kind is not FrameType.GOAWAY or nbytes >= _MIN_GOAWAY_NBYTES


def header_at(stream: Stream, offset: int) -> FrameHeader | None:
    """The frame that begins at `offset`; None if it was not captured, or none does."""
    return decode_header(stream.visible.read(offset, HEADER_NBYTES))


def begins_frames(stream: Stream, offset: int) -> bool:
    """Whether frames begin at `offset`, as far as their headers were captured: 8 at most are looked at."""
    for hop in range(MAX_HOPS):
        head = stream.visible.read(offset, HEADER_NBYTES)
        if len(head) < HEADER_NBYTES:
            return hop > 0
        header = decode_header(head)
        if header is None:
            return False
        offset += HEADER_NBYTES + header.nbytes
    return True


def content(stream: Stream, offset: int, header: FrameHeader) -> tuple[int, int]:
    """Where the content of the frame at `offset` begins and ends: without padding and priority (6.1, 6.2)."""
    start, end = offset + HEADER_NBYTES, offset + HEADER_NBYTES + header.nbytes
    if header.flags & Flag.PADDED and header.type in (FrameType.DATA, FrameType.HEADERS):
        padding = stream.visible.read(start, 1)
        start += 1
        end -= padding[0] if padding else 0
    if header.flags & Flag.PRIORITY and header.type is FrameType.HEADERS:
        start += 5
    return min(start, max(end, start)), max(end, start)

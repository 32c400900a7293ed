"""Open MPI's fragments in a TCP stream, as far as the capture shows them.

Captures keep the first bytes of each packet only, so a fragment that does not start a packet may be hidden.
What lies between a place where a fragment must begin and the next that can be read is a gap;
`traces.framing.mpi_hidden` finds out what is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.traces.framing.mpi_btl import (
    BTL_NBYTES,
    HANDSHAKE_NBYTES,
    HEAD_NBYTES,
    MATCH_NBYTES,
    SURE_NBYTES,
    Fragment,
    Process,
    What,
    decode_fragment,
    decode_handshake,
    is_sure,
)
from gradwire.traces.packets.streams import Stream

MAX_SEARCH = 1 << 12  # packets looked at before a stream is taken for something else than Open MPI


class Placed(NamedTuple):
    """A fragment and where it begins in its stream; `recovered`: its header was not captured."""

    offset: int
    fragment: Fragment
    recovered: bool = False

    @property
    def end(self) -> int:
        return self.offset + self.fragment.nbytes


class MpiGap(NamedTuple):
    """Bytes [start, end) of a stream that hold whole fragments which cannot be read.

    `open_end`: the stream was lost track of; no fragment is known to begin at `end`.
    """

    start: int
    end: int
    open_end: bool = False


@dataclass(frozen=True)
class MpiDecoded:
    """One direction of a connection; `placed` and `gaps` in stream order.

    `process` is who sends, None where the capture has no handshake.
    """

    stream: Stream
    process: Process | None
    placed: tuple[Placed, ...]
    gaps: tuple[MpiGap, ...]


def decode(stream: Stream, most: int | None = None) -> MpiDecoded | None:
    """None for a stream in which there is neither a handshake nor two fragments; `most` are read."""
    head = stream.visible.read(0, HANDSHAKE_NBYTES)
    process = decode_handshake(head)
    if process is None and stream.opener is not None and len(head) == HANDSHAKE_NBYTES:
        return None
    placed: list[Placed] = []
    gaps: list[MpiGap] = []
    offset = HANDSHAKE_NBYTES if process is not None else 0
    begins_here, is_closed = process is not None, False  # a fragment; and none any more
    while offset < stream.nbytes and (most is None or len(placed) < most):
        found = _at(stream, offset) if begins_here and not is_closed else None
        if found is not None:
            placed.append(found)
            is_closed = found.fragment.what is What.CLOSE
            offset = found.end
            continue
        limit = None if begins_here else MAX_SEARCH
        anchor = None if is_closed else _next_fragment(stream, offset + begins_here, limit)
        begins_here, end = True, stream.nbytes if anchor is None else anchor
        if end > offset:
            gaps.append(MpiGap(offset, end, open_end=anchor is None))
        offset = end
    if process is None and len(placed) < 2:
        return None
    return MpiDecoded(stream, process, tuple(placed), tuple(gaps))


def header_nbytes(decoded: Sequence[MpiDecoded]) -> int:
    """The length of MATCH headers in this build of Open MPI, from the sizes of all messages.

    One of MATCH_NBYTES.  Payloads are mostly whole 4-byte words, and a size below the longer one is proof.
    """
    sizes = [p.fragment.size for one in decoded for p in one.placed if p.fragment.what is What.MATCH]
    short, long = MATCH_NBYTES
    if any(size < long for size in sizes):
        return short
    fitting = {length: sum((size - length) % 4 == 0 for size in sizes) for length in MATCH_NBYTES}
    return long if fitting[long] > fitting[short] else short


def _at(stream: Stream, offset: int) -> Placed | None:
    head = stream.visible.read(offset, HEAD_NBYTES)
    fragment = decode_fragment(head) if len(head) >= BTL_NBYTES else None
    return fragment and Placed(offset, fragment)


def _next_fragment(stream: Stream, offset: int, limit: int | None) -> int | None:
    """The first packet at or after `offset` that surely starts with a fragment, among the next `limit`.

    The next one, if it can be read, must be one as well.
    """
    for start in stream.visible.starts_from(offset, limit):
        head = stream.visible.read(start, HEAD_NBYTES)
        if len(head) < SURE_NBYTES:
            continue
        fragment = decode_fragment(head)
        if fragment is not None and is_sure(fragment, len(head)):
            following = stream.visible.read(start + fragment.nbytes, HEAD_NBYTES)
            if len(following) < BTL_NBYTES or decode_fragment(following) is not None:
                return start
    return None

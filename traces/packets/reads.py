"""What framings read of a stream: recorded from whole packets, and replayed for trimmed ones.

A framing decides by what `read` returns alone.  So a trimmed capture that answers every read as the whole one
did is decoded to the same messages, whatever the framing, and those reads are all that must be kept.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints, Readable, Visible, cover, distinct
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.messageindex import MessageIndex, StreamIndex
from gradwire.traces.packets.queueing import QueueingDelays
from gradwire.traces.packets.streams import Stream

Streams = Mapping[Direction, Stream]


class Recorded:
    """The bytes of a stream, and which of them were read."""

    def __init__(self, seen: Readable) -> None:
        self._seen = seen
        self._start: list[int] = []
        self._end: list[int] = []

    def starts_from(self, offset: int, limit: int | None = None) -> Iterator[int]:
        """Where packets start, from `offset` on."""
        return self._seen.starts_from(offset, limit)

    def ranges(self) -> tuple[Ints, Ints]:
        """The pieces that are in the files: start and end of each."""
        return self._seen.ranges()

    def read(self, offset: int, nbytes: int) -> bytes:
        """Up to `nbytes` from `offset` on; noted."""
        octets = self._seen.read(offset, nbytes)
        if octets:
            self._start.append(offset)
            self._end.append(offset + len(octets))
        return octets

    def were_read(self) -> tuple[Ints, Ints]:
        """Start and end of every range that was read, in the order of reading; they may overlap."""
        return np.array(self._start, np.int64), np.array(self._end, np.int64)


class Supplemented:
    """The bytes of a stream that its packets show, and where they show none, those of indexes."""

    def __init__(self, packets: Readable, pieces: Readable) -> None:
        self._packets = packets
        self._pieces = pieces

    def starts_from(self, offset: int, limit: int | None = None) -> Iterator[int]:
        """Where packets start, from `offset` on; an index's pieces are not packets."""
        return self._packets.starts_from(offset, limit)

    def ranges(self) -> tuple[Ints, Ints]:
        """The pieces that are in the packets: start and end of each."""
        return self._packets.ranges()

    def read(self, offset: int, nbytes: int) -> bytes:
        """Up to `nbytes` from `offset` on: fewer if the next ones are neither in a packet nor in an index."""
        octets = self._packets.read(offset, nbytes)
        while len(octets) < nbytes:
            at, lacking = offset + len(octets), nbytes - len(octets)
            more = self._pieces.read(at, lacking) or self._packets.read(at, lacking)
            if not more:
                break
            octets += more
        return octets


def recorded(streams: Streams) -> dict[Direction, Stream]:
    """The same streams, each of which notes what is read of it."""
    return {direction: stream.showing(Recorded(stream.visible)) for direction, stream in streams.items()}


def index_of(
    capture_sha256: str, kept: Streams, read: Streams, delays: QueueingDelays | None = None
) -> MessageIndex:
    """What was read of the streams `read`, which are `recorded`, and is not in the trimmed file; and the
    `delays` of its packets.

    `kept` are the streams of that file alone.
    """
    found = (_lacking(kept[direction], read[direction]) for direction in kept if direction in read)
    return MessageIndex(capture_sha256, tuple(part for part in found if part is not None), delays)


def _lacking(kept: Stream, read: Stream) -> StreamIndex | None:
    visible = read.visible
    if not isinstance(visible, Recorded):
        raise TypeError("the reads of this stream were not recorded")
    shift = _shift(kept.first_seq, read.first_seq)
    start, end = kept.visible.ranges()
    start, end = _minus(visible.were_read(), (start + shift, end + shift))
    if not len(start):
        return None
    data = b"".join(visible.read(at, to - at) for at, to in zip(start.tolist(), end.tolist(), strict=True))
    return StreamIndex(read.direction, read.first_seq, start, end - start, np.frombuffer(data, np.uint8))


def _shift(first_seq: int, base: int) -> int:
    """How far from the byte with sequence number `base` the one with `first_seq` is, the nearer way round."""
    return (first_seq - base + (1 << 31)) % (1 << 32) - (1 << 31)


def _minus(wanted: tuple[Ints, Ints], present: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """What the ranges `wanted` cover and `present` do not: ascending, disjoint, as few as can be."""
    cuts = distinct(np.concatenate([*wanted, *present]))
    is_lacking = _is_within(cuts[:-1], wanted) & ~_is_within(cuts[:-1], present)
    begins = is_lacking & ~np.concatenate([[False], is_lacking[:-1]])
    ends = is_lacking & ~np.concatenate([is_lacking[1:], [False]])
    return cuts[:-1][begins], cuts[1:][ends]


def _is_within(at: Ints, ranges: tuple[Ints, Ints]) -> npt.NDArray[np.bool_]:
    """Whether more ranges have begun at each place than have ended."""
    begun, ended = (np.searchsorted(np.sort(one), at, "right") for one in ranges)
    within: npt.NDArray[np.bool_] = begun > ended
    return within


def supplemented(streams: Streams, indexes: Sequence[MessageIndex]) -> dict[Direction, Stream]:
    """The streams with what the indexes know of them; where two know a byte, the first is believed.

    A piece that does not lie inside its stream is left out.
    """
    parts: dict[Direction, list[StreamIndex]] = {}
    for index in indexes:
        for part in index.streams:
            parts.setdefault(part.direction, []).append(part)
    return {
        direction: _with_pieces(stream, parts[direction]) if direction in parts else stream
        for direction, stream in streams.items()
    }


def _with_pieces(stream: Stream, parts: Sequence[StreamIndex]) -> Stream:
    start = np.concatenate([part.offset + _shift(part.first_seq, stream.first_seq) for part in parts])
    nbytes = np.concatenate([part.nbytes for part in parts])
    at = np.concatenate([np.cumsum(part.nbytes) - part.nbytes for part in parts])
    source = np.repeat(np.arange(len(parts)), [len(part.offset) for part in parts])
    inside = (start >= 0) & (start + nbytes <= stream.nbytes)
    start, nbytes, at, source = start[inside], nbytes[inside], at[inside], source[inside]
    pieces = Visible(cover(start, start + nbytes), [part.data for part in parts], (source, at - start))
    return stream.showing(Supplemented(stream.visible, pieces))

"""Which bytes of a stream were captured, when each was first seen, and where to read it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.jit import compiled

Ints = npt.NDArray[np.int64]
_FEW = 64


@dataclass(frozen=True)
class Cover:
    """The pieces of a stream that were seen: ascending, disjoint, `end` exclusive, in bytes from its start.

    `source` is a row of what the cover was made of.
    """

    start: Ints
    end: Ints
    source: Ints


@dataclass(frozen=True)
class Timeline:
    """When each byte of a stream was first seen."""

    cover: Cover
    time_ns: Ints

    def first_seen_ns(self, offset: npt.ArrayLike) -> Ints:
        """A byte that was never seen has the time of the next that was (the last one's, at the end)."""
        piece = np.searchsorted(self.cover.end, np.asarray(offset, np.int64), "right")
        return self.time_ns[np.minimum(piece, len(self.time_ns) - 1)]

    @cached_property
    def in_order(self) -> "Timeline":
        """When each byte could be delivered: after all bytes before it."""
        return Timeline(self.cover, np.maximum.accumulate(self.time_ns))


class Readable(Protocol):
    """The bytes of a stream that are known, for reading at any offset."""

    def starts_from(self, offset: int, limit: int | None = None) -> Iterator[int]: ...

    def ranges(self) -> tuple[Ints, Ints]: ...

    def read(self, offset: int, nbytes: int) -> bytes: ...


class Visible:
    """The bytes of a stream that are in the files, for reading at any offset."""

    def __init__(
        self, cover: Cover, datas: Sequence[npt.NDArray[np.uint8]], where: tuple[Ints, Ints]
    ) -> None:
        """`where` are, for each row of `cover.source`, the index of its data and the place of the
        piece's offset 0.
        """
        file, origin = where
        self._starts = _items(cover.start)
        self._ends = _items(cover.end)
        self._file = _items(file[cover.source])
        self._at = _items(origin[cover.source] + cover.start)
        self._datas = datas

    def starts_from(self, offset: int, limit: int | None = None) -> Iterator[int]:
        """Where pieces start, from `offset` on; these are where packets do."""
        first = bisect_left(self._starts, offset)
        return islice(self._starts, first, None if limit is None else first + limit)

    def ranges(self) -> tuple[Ints, Ints]:
        """Start and end of each piece."""
        return np.array(self._starts, np.int64), np.array(self._ends, np.int64)

    def read(self, offset: int, nbytes: int) -> bytes:
        """Up to `nbytes` from `offset` on: fewer if the next ones are not in any file."""
        piece = bisect_right(self._starts, offset) - 1
        if piece < 0 or offset >= self._ends[piece]:
            return b""
        parts = b""
        while piece < len(self._starts) and self._starts[piece] <= offset < self._ends[piece]:
            take = min(nbytes - len(parts), self._ends[piece] - offset)
            at = self._at[piece] + offset - self._starts[piece]
            parts += self._datas[self._file[piece]][at : at + take].tobytes()
            if len(parts) == nbytes:
                break
            offset += take
            piece += 1
        return parts


def _items(values: Ints) -> Sequence[int]:
    """For reading some of them, one by one: of an array that is slow, and many as a list take much memory."""
    items: Sequence[int] = values.tolist() if len(values) < _FEW else np.ascontiguousarray(values).data
    return items


def cover(start: Ints, end: Ints) -> Cover:
    """What the ranges [start, end) cover together; where several do, the first of them is the source."""
    if (start[1:] >= end[:-1]).all() and (start < end).all():
        return Cover(start, end, np.arange(len(start)))
    if first := _covering(start, end):
        return Cover(start[:first], end[:first], np.arange(first))
    cuts = distinct(np.concatenate([start, end]))
    owner = np.full(max(0, len(cuts) - 1), -1, np.int64)
    _paint(np.searchsorted(cuts, start), np.searchsorted(cuts, end), owner)
    painted = np.flatnonzero(owner >= 0)
    return Cover(cuts[painted], cuts[painted + 1], owner[painted])


def distinct(values: Ints) -> Ints:
    """The values in ascending order, each once; fast where they are sorted in long runs, unlike np.unique."""
    if len(values) < 2:
        return values
    ordered = np.sort(values, kind="stable")
    once: Ints = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return once


def are_among(values: Ints, ordered: Ints) -> npt.NDArray[np.bool_]:
    """Which of the values are in `ordered`, which ascends; fast where they ascend too, unlike np.isin."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    found: npt.NDArray[np.bool_] = ordered[np.searchsorted(ordered[:-1], values)] == values
    return found


@compiled
def _covering(start: Ints, end: Ints) -> int:
    """How many ranges at the beginning ascend and are disjoint, if each of the rest is one of them or several
    without a gap between, as where a second point saw the same packets; 0 if that is not so.
    """
    first = 0
    while first < len(start) and start[first] < end[first] and (not first or start[first] >= end[first - 1]):
        first += 1
    gaps = np.zeros(first, np.int64)  # before each
    for row in range(1, first):
        gaps[row] = gaps[row - 1] + (start[row] != end[row - 1])
    place = -1
    for row in range(first, len(start)):
        place += 1  # mostly the next one
        if place >= first or start[place] != start[row]:
            place = np.searchsorted(start[:first], start[row])
            if place == first or start[place] != start[row]:
                return 0
        last = place
        if end[last] != end[row]:
            last = np.searchsorted(end[:first], end[row])
            if last < place or last >= first or end[last] != end[row] or gaps[last] != gaps[place]:
                return 0
    return first


@compiled
def _paint(first: Ints, last: Ints, owner: Ints) -> None:
    """Give each unowned piece in first[i]..last[i]-1 to i, for ascending i.

    `free` leads from a piece to the next unowned one (a disjoint-set forest), so that hostile overlaps
    cost no more than honest ones.
    """
    free = np.arange(len(owner) + 1)
    for row in range(len(first)):
        piece = first[row]
        while True:
            while free[piece] != piece:
                free[piece] = free[free[piece]]
                piece = free[piece]
            if piece >= last[row]:
                break
            owner[piece] = row
            free[piece] = piece + 1

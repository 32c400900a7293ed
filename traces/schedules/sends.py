"""What is sent, as columns: a million sends take about 60 MB, where as many objects would take 300.

A *send* is one chunk from one rank to another; its id is its position.  Generators of small schedules make
lists of `Send`, those of large ones columns; both become `Sends`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray
from pydantic_core import core_schema

from gradwire.traces.files import memory_nbytes

Numbers = NDArray[np.int32]
Nbytes = NDArray[np.int64]

_PLANNED_NBYTES = 600  # that a send takes at most while it is planned (benchmarks.schedules)
MAX_SENDS = min(memory_nbytes() // 2 // _PLANNED_NBYTES, (1 << 31) - 1)  # of a schedule
_CHUNK = 1 << 16  # sends that an iteration makes lists of at a time
_DTYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(("op", "src", "dst", "step"), np.int32),
    **dict.fromkeys(("offset", "shift", "nbytes"), np.int64),
    "reduce": np.bool_,
}
_EDGES = ("needs", "ready")


@dataclass(frozen=True, slots=True)
class Send:
    """One chunk in flight.

    It is read at `offset` of its source's buffer and written `shift` bytes further on in its receiver's.
    With `reduce` the receiver adds it to its own copy, without it the receiver's copy is replaced.
    `needs` are sends that come before it at its source: one that the source receives must have
    arrived and been added, one that the source itself makes must have been handed to its kernel.
    `ready` is the same at the destination, for the moment when that announces that it will receive.
    Of two sends that swap the same bytes to be added (`swaps`), both carry what was there before either.
    """

    op: int
    src: int
    dst: int
    offset: int
    nbytes: int
    reduce: bool
    needs: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()
    step: int = 0
    shift: int = 0


class Edges(NamedTuple):
    """For each send the ids of others: those of send i are `ids[starts[i] : starts[i + 1]]`."""

    starts: Numbers
    ids: Numbers

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]]) -> Self:
        """A sequence of ids for each send."""
        starts = np.zeros(len(ids) + 1, np.int32)
        np.cumsum([len(each) for each in ids], out=starts[1:])
        return cls(starts, np.fromiter(chain.from_iterable(ids), np.int32, int(starts[-1])))

    @classmethod
    def none(cls, n_sends: int) -> Self:
        """No ids for any of this many sends."""
        return cls(np.zeros(n_sends + 1, np.int32), np.zeros(0, np.int32))

    @classmethod
    def one(cls, have: NDArray[np.bool_], ids: Numbers) -> Self:
        """One id for each send where `have` is true, from `ids` in their order; none for the others."""
        starts = np.zeros(len(have) + 1, np.int32)
        np.cumsum(have, out=starts[1:])
        return cls(starts, ids.astype(np.int32, copy=False))

    @classmethod
    def present(cls, ids: NDArray[np.integer[Any]]) -> Self:
        """A row of ids for each send; ids below 0 stand for none and are left out."""
        is_there = ids >= 0
        starts = np.zeros(len(ids) + 1, np.int32)
        np.cumsum(is_there.sum(axis=1), out=starts[1:])
        return cls(starts, ids[is_there].astype(np.int32))

    def renumbered(self, new: NDArray[np.integer[Any]]) -> "Edges":
        """With `new[id]` in place of each id; an id whose new one is below 0 is left out."""
        ids = new[self.ids]
        is_there = ids >= 0
        n_before = np.concatenate(([0], np.cumsum(is_there)))
        return Edges(n_before[self.starts].astype(np.int32), ids[is_there].astype(np.int32))

    @property
    def counts(self) -> Numbers:
        """How many ids each send has."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Numbers:
        """The send that each of `ids` belongs to."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), self.counts)

    def lists(self) -> list[tuple[int, ...]]:
        """The ids of each send."""
        ids, starts = self.ids.tolist(), self.starts.tolist()
        return [tuple(ids[start:end]) for start, end in pairwise(starts)]


@dataclass(frozen=True, eq=False)
class Sends(Sequence[Send]):
    """The columns, all of one length; as a sequence, the sends one by one."""

    op: Numbers
    src: Numbers
    dst: Numbers
    step: Numbers
    offset: Nbytes
    shift: Nbytes
    nbytes: Nbytes
    reduce: NDArray[np.bool_]
    needs: Edges
    ready: Edges

    @classmethod
    def of(cls, sends: Iterable[Send]) -> "Sends":
        """The columns of these sends, whose `needs` and `ready` name others by their positions."""
        if isinstance(sends, Sends):
            return sends
        made = list(sends)
        columns: dict[str, Any] = {
            name: np.array([getattr(each, name) for each in made], dtype) for name, dtype in _DTYPES.items()
        }
        edges: dict[str, Any] = {name: Edges.of([getattr(each, name) for each in made]) for name in _EDGES}
        return cls(**columns, **edges)

    def __len__(self) -> int:
        return len(self.op)

    @overload
    def __getitem__(self, index: int) -> Send: ...

    @overload
    def __getitem__(self, index: slice) -> list[Send]: ...

    def __getitem__(self, index: int | slice) -> Send | list[Send]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        return next(self._made(number, number + 1))

    def __iter__(self) -> Iterator[Send]:
        for start in range(0, len(self), _CHUNK):
            yield from self._made(start, min(start + _CHUNK, len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sends):
            return NotImplemented
        return all(
            np.array_equal(one, two)
            for (_, one), (_, two) in zip(self.columns(), other.columns(), strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.op.tobytes(), self.src.tobytes(), self.dst.tobytes(), self.nbytes.tobytes()))

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """All of them with their names, and those of `needs` and `ready`."""
        yield from ((name, getattr(self, name)) for name in _DTYPES)
        for name in _EDGES:
            edges: Edges = getattr(self, name)
            yield from ((f"{name}.starts", edges.starts), (f"{name}.ids", edges.ids))

    def _made(self, start: int, end: int) -> Iterator[Send]:
        columns = [
            getattr(self, name)[start:end].tolist()
            for name in ("op", "src", "dst", "offset", "nbytes", "reduce")
        ]
        edges = [Edges(each.starts[start : end + 1], each.ids).lists() for each in (self.needs, self.ready)]
        last = [getattr(self, name)[start:end].tolist() for name in ("step", "shift")]
        return map(Send, *columns, *edges, *last)

    def pairs(self) -> set[tuple[int, int]]:
        """Who sends to whom: (source, destination)."""
        high = int(max(self.src.max(initial=0), self.dst.max(initial=0))) + 1
        keys = distinct(self.src.astype(np.int64) * high + self.dst)
        return {divmod(key, high) for key in keys.tolist()}

    def numbers_of(self, rank: int) -> NDArray[np.intp]:
        """The ids, ascending, of what a rank sends and receives."""
        return np.flatnonzero((self.src == rank) | (self.dst == rank))

    def of_rank(self, rank: int) -> dict[int, Send]:
        """What a rank sends and receives, by id, ascending."""
        numbers = self.numbers_of(rank)
        return dict(zip(numbers.tolist(), self.chosen(numbers, keep_edges=True), strict=True))

    def chosen(self, numbers: NDArray[Any], *, keep_edges: bool = False) -> "Sends":
        """The sends with these ids; `needs` and `ready` are empty, or have the old ids with `keep_edges`."""
        columns: dict[str, Any] = {name: getattr(self, name)[numbers] for name in _DTYPES}
        edges: dict[str, Any] = {
            name: _chosen(getattr(self, name), numbers) if keep_edges else Edges.none(len(numbers))
            for name in _EDGES
        }
        return Sends(**columns, **edges)

    def between(self, first: int, end: int) -> "Sends":
        """Those with the ids from `first` to before `end`, numbered from 0; earlier ones that they wait for
        have numbers below 0.
        """
        columns: dict[str, Any] = {name: getattr(self, name)[first:end] for name in _DTYPES}
        for name in _EDGES:
            starts, ids = getattr(self, name)
            some = starts[first : end + 1]
            columns[name] = Edges(some - some[0], ids[some[0] : some[-1]] - np.int32(first))
        return Sends(**columns)

    def clipped(self, first: int, end: int) -> "Sends":
        """The same sends, each of those bytes alone that lie between two bytes of the sources' buffers."""
        offset = np.clip(self.offset, first, end)
        nbytes = np.clip(self.offset + self.nbytes, first, end) - offset
        return replace(self, offset=offset, nbytes=nbytes)

    def with_bytes(self) -> "Sends":
        """The sends that are not empty, numbered again; nothing waits for those that were left out."""
        has_bytes = self.nbytes > 0
        kept = self.chosen(np.flatnonzero(has_bytes), keep_edges=True)
        new = np.where(has_bytes, np.cumsum(has_bytes) - 1, -1)
        return replace(kept, needs=kept.needs.renumbered(new), ready=kept.ready.renumbered(new))

    def moved(self, *, op: int = 0, rank: int = 0) -> "Sends":
        """The same sends with `op` added to every operation's number, and `rank` to every rank's."""
        more = np.int32(rank)
        return replace(self, op=self.op + np.int32(op), src=self.src + more, dst=self.dst + more)

    def narrowed(self, factor: int) -> "Sends":
        """The same elements, each with `factor` times fewer bytes."""
        columns = {name: getattr(self, name) // factor for name in ("offset", "shift", "nbytes")}
        return self if factor == 1 else replace(self, **columns)

    @classmethod
    def joined(cls, parts: Sequence["Sends"]) -> "Sends":
        """All parts one after the other; the ids in each part's `needs` and `ready` are those of the part."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of(())
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _DTYPES
        }
        firsts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        edges: dict[str, Any] = {}
        for name in _EDGES:
            own = [getattr(part, name) for part in parts]
            counts = np.concatenate([each.counts for each in own])
            starts = np.zeros(len(counts) + 1, np.int32)
            np.cumsum(counts, out=starts[1:])
            ids = [each.ids + np.int32(first) for each, first in zip(own, firsts, strict=True)]
            edges[name] = Edges(starts, np.concatenate(ids))
        return cls(**columns, **edges)

    def to_json(self) -> dict[str, list[Any]]:
        """A list for each column; `needs` and `ready` are lists of lists."""
        columns: dict[str, Any] = {name: getattr(self, name).tolist() for name in _DTYPES}
        return columns | {name: getattr(self, name).lists() for name in _EDGES}

    @classmethod
    def from_json(cls, value: object) -> "Sends":
        """Raise ValueError for what is not such columns."""
        if isinstance(value, Sends):
            return value
        names = (*_DTYPES, *_EDGES)
        if not isinstance(value, dict) or set(value) != set(names):
            raise ValueError(f"the sends must be the columns {', '.join(names)}")
        if not all(isinstance(column, list) for column in value.values()):
            raise ValueError("each column of the sends must be a list")
        lengths = {len(column) for column in value.values()}
        if len(lengths) > 1:
            raise ValueError(f"the columns of the sends differ in length: {sorted(lengths)}")
        columns: dict[str, Any] = {name: _column(name, value[name], dtype) for name, dtype in _DTYPES.items()}
        edges: dict[str, Any] = {name: _edges(name, value[name]) for name in _EDGES}
        return cls(**columns, **edges)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        del source, handler
        return core_schema.no_info_plain_validator_function(cls.from_json)


def _chosen(edges: Edges, numbers: NDArray[Any]) -> Edges:
    counts = edges.counts[numbers]
    starts = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    places = np.arange(starts[-1]) + np.repeat(edges.starts[numbers] - starts[:-1], counts)
    return Edges(starts, edges.ids[places])


def _column(name: str, values: list[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Raise ValueError for anything but whole numbers (or true and false) that fit."""
    wanted: type = bool if dtype is np.bool_ else int
    if not set(map(type, values)) <= {wanted}:
        kind = "true and false" if wanted is bool else "whole numbers"
        raise ValueError(f"the column {name} of the sends must have {kind}")
    try:
        return np.array(values, dtype)
    except OverflowError:
        raise ValueError(f"the column {name} of the sends has a number that is too large") from None


def _edges(name: str, values: list[Any]) -> Edges:
    if not set(map(type, values)) <= {list, tuple}:
        raise ValueError(f"the column {name} of the sends must have lists")
    ids = _column(name, list(chain.from_iterable(values)), np.int32)
    starts = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(each) for each in values], out=starts[1:])
    return Edges(starts, ids)


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Each of the numbers, none of them negative, once, ascending.

    As np.unique does, which first imports numpy.ma: 20 ms that a network on its way up would wait for.
    """
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def totals(keys: NDArray[Any], nbytes: Nbytes, n_keys: int) -> Nbytes:
    """The sum of `nbytes` of each key from 0 to `n_keys` - 1; exact, as float sums would not be."""
    sums = np.zeros(n_keys, np.int64)
    np.add.at(sums, keys, nbytes)
    return sums


def swaps(sends: Sends, numbers: NDArray[Any] | None = None) -> dict[int, int]:
    """Ids of the sends of one step with which two ranks exchange the same bytes, each adding the other's.

    Each id of such a pair leads to the other.  Of all, or of those with these `numbers`.
    """
    ids = np.arange(len(sends)) if numbers is None else numbers
    ids = ids[sends.reduce[ids] & (sends.shift[ids] == 0) & (sends.nbytes[ids] > 0)]
    if not len(ids):
        return {}
    src, dst = sends.src[ids], sends.dst[ids]
    key = (sends.nbytes[ids], sends.offset[ids], np.maximum(src, dst), np.minimum(src, dst), sends.step[ids])
    order = np.lexsort((*key, sends.op[ids]))
    same = np.all([column[order][1:] == column[order][:-1] for column in (*key, sends.op[ids])], axis=0)
    same &= src[order][1:] != src[order][:-1]
    pairs: dict[int, int] = {}
    for place in np.flatnonzero(same).tolist():
        one, two = int(ids[order[place]]), int(ids[order[place + 1]])
        if one not in pairs:
            pairs |= {one: two, two: one}
    return pairs

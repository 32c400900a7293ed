"""Puts a job's gradients into buckets of another size, as DDP's `bucket_cap_mb` does.

Li et al., "PyTorch Distributed", VLDB 2020, section 4.2: an iteration's gradients become ready one after the
other, and a bucket's allreduce begins when all of its gradients are ready.  The allreduces of an iteration
that follow each other are read as one row of bytes, which is cut again.  A captured job does not show its
tensors: cuts are where the size says, and what a rank computes before a captured bucket is spread evenly over
it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any

from gradwire.traces.circles import peeled
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.schedules.other import Other
from gradwire.traces.workload import MAX_ITEMS, MAX_NBYTES, Collective, Compute, Item, Start, Workload

MAX_WAITS = 1 << 22  # of items for others
MAX_BUCKETS = 1 << 13  # of all iterations

Node = tuple[int, int]
"""An item of the new job: the captured one that it comes from, and which part of it.

Of a bucket that is the last captured one that it has bytes of, and the bucket's number in its row; of what is
computed before a captured bucket the number of the new one that follows; of all else 0.
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """Captured allreduces that follow each other: their ids, and where each begins and the last one ends."""

    members: tuple[int, ...]
    starts: tuple[int, ...]
    size: int

    @property
    def n_buckets(self) -> int:
        return -(-self.starts[-1] // self.size)

    def buckets(self, member: int) -> range:
        """Those that have bytes of a member."""
        return range(self.starts[member] // self.size, (self.starts[member + 1] - 1) // self.size + 1)

    def members_of(self, bucket: int) -> range:
        """Those that a bucket has bytes of."""
        end = min((bucket + 1) * self.size, self.starts[-1])
        return range(bisect_right(self.starts, bucket * self.size) - 1, bisect_left(self.starts, end))

    def node(self, bucket: int) -> Node:
        return self.members[self.members_of(bucket)[-1]], bucket

    def nbytes(self, bucket: int) -> int:
        return min(self.size, self.starts[-1] - bucket * self.size)

    def share(self, member: int, bucket: int, total: int) -> int:
        """What falls to a bucket of `total`, spread evenly over a member; the shares sum up to it."""
        first, end = self.starts[member], self.starts[member + 1]
        ends = (min(max(place * self.size, first), end) - first for place in (bucket, bucket + 1))
        before, after = (total * nbytes // (end - first) for nbytes in ends)
        return after - before


def rebucketed(workload: Workload, size: int) -> Other:
    """The job with gradients in buckets of `size` bytes, the last one of an iteration smaller.

    The bytes of an iteration and what ranks compute stay; so does the set-up.  A bucket waits for what its
    captured ones waited for, but not for those whose bytes it or a later one has.
    Raise ValueError for a size that holds no elements or makes too many buckets, for a job without
    allreduces, and where the captured ones wait for each other by more than computing.
    """
    if not ELEMENT_NBYTES <= size <= MAX_NBYTES or size % ELEMENT_NBYTES:
        raise ValueError(
            f"buckets cannot have {size:,} bytes: give a multiple of {ELEMENT_NBYTES} (float32), at most "
            f"{MAX_NBYTES:,}"
        )
    rows = list(_rows(workload.items, size))
    if not rows:
        raise ValueError("the job has no allreduces: there is nothing to put into buckets")
    _check_few(rows, size, workload)
    made = workload.model_copy(update={"items": _Cut(workload.items, rows).items()})
    return Other(made, (_assumption(size),))


def _check_few(rows: Sequence[_Row], size: int, workload: Workload) -> None:
    """Raise ValueError for more buckets than a job may have, with a size of which there are few enough."""
    most = min(MAX_BUCKETS, (MAX_ITEMS - len(workload.items)) // (workload.n_ranks + 1))
    n_buckets = sum(row.n_buckets for row in rows)
    if n_buckets <= most:
        return
    larger, advice = size, "extract fewer iterations"
    if len(rows) <= most:
        while sum(-(-row.starts[-1] // larger) for row in rows) > most:
            larger *= 2
        advice = f"try {larger:,} bytes"
    raise ValueError(
        f"buckets of {size:,} bytes would be {n_buckets:,} in this job; at most {most:,} are made: {advice}"
    )


def _assumption(size: int) -> str:
    """What other buckets take for granted, as a sentence."""
    return (
        f"buckets of {size:,} bytes: cut where the size says, not between tensors; what a rank computes "
        "before a captured bucket is spread evenly over its bytes"
    )


def _rows(items: Sequence[Item], size: int) -> Iterator[_Row]:
    """Those of each iteration; a broadcast, a message or an empty allreduce of it ends one."""
    under_way: dict[int, list[int]] = {}

    def row(members: Sequence[int]) -> _Row:
        sizes = (item.nbytes for item in map(items.__getitem__, members) if isinstance(item, Collective))
        return _Row(tuple(members), tuple(accumulate(sizes, initial=0)), size)

    for number, item in enumerate(items):
        if isinstance(item, Compute) or item.iteration < 0:
            continue
        if item.kind == "allreduce" and item.nbytes:
            under_way.setdefault(item.iteration, []).append(number)
        elif members := under_way.pop(item.iteration, None):
            yield row(members)
    yield from map(row, under_way.values())


class _Cut:
    """A job's items with all rows cut into new buckets."""

    def __init__(self, items: Sequence[Item], rows: Sequence[_Row]) -> None:
        self._items = items
        self._rows = rows
        self._place = {number: (row, member) for row in rows for member, number in enumerate(row.members)}
        self._leads_to: dict[int, tuple[_Row, int]] = {}
        """Of what is computed: the first captured bucket that waits for it, through computing only."""
        self._cut: set[int] = set()
        """Of these, those that it waits for itself: they are cut as it is."""
        for number, place in self._place.items():
            for start in items[number].begins:
                fresh = [o for o in start.after if o not in self._leads_to and self._is_computing(o)]
                self._cut.update(fresh)
                self._lead(fresh, place)
        self._tags = count(1 + max(item.tag for item in items if isinstance(item, Collective)))

    def items(self) -> tuple[Item, ...]:
        """In an order in which none waits for a later one, else as captured."""
        nodes = sorted(self._nodes())
        place_of = {node: place for place, node in enumerate(nodes)}
        begins = self._all_begins(nodes)
        before = [{place_of[other] for after in some.values() for other in after} for some in begins]
        order = peeled(before)
        if len(order) < len(nodes):
            raise ValueError(
                "allreduces of an iteration wait for each other through more than computing, so buckets "
                "cannot join them"
            )
        number_of = {nodes[place]: number for number, place in enumerate(order)}

        def numbers(some: Iterable[Node]) -> tuple[int, ...]:
            return tuple(sorted(number_of[node] for node in some))

        return tuple(self._made(nodes[place], begins[place], numbers) for place in order)

    def _all_begins(self, nodes: Sequence[Node]) -> list[dict[int, set[Node]]]:
        found, n_waits = [], 0
        for node in nodes:
            found.append(self._begins(node))
            n_waits += sum(map(len, found[-1].values()))
            if n_waits > MAX_WAITS:
                raise ValueError("too many buckets would wait for too many others: give a larger size")
        return found

    def _is_computing(self, number: int) -> bool:
        return isinstance(self._items[number], Compute)

    def _lead(self, waiting: list[int], place: tuple[_Row, int]) -> None:
        while waiting:
            number = waiting.pop()
            item = self._items[number]
            if isinstance(item, Compute) and number not in self._leads_to:
                self._leads_to[number] = place
                waiting += item.start.after

    def _nodes(self) -> Iterator[Node]:
        for row in self._rows:
            yield from map(row.node, range(row.n_buckets))
        for number in range(len(self._items)):
            if number not in self._place:
                yield from ((number, part) for part in self._parts(number))

    def _parts(self, number: int) -> range:
        """Of what is not a bucket."""
        if number not in self._cut:
            return range(1)
        row, member = self._leads_to[number]
        return row.buckets(member)

    def _begins(self, node: Node) -> dict[int, set[Node]]:
        """What each rank waits for before it begins."""
        number, part = node
        if number in self._place:
            return self._bucket_begins(self._place[number][0], part)
        begins = self._items[number].begins
        if part != self._parts(number)[0]:
            return {start.rank: {(number, part - 1)} for start in begins}
        if number not in self._leads_to:
            return {start.rank: self._done(start) for start in begins}
        row, member = self._leads_to[number]
        return {start.rank: self._done(start, (row, row.buckets(member)[0])) for start in begins}

    def _bucket_begins(self, row: _Row, bucket: int) -> dict[int, set[Node]]:
        begins: defaultdict[int, set[Node]] = defaultdict(set)
        for member in row.members_of(bucket):
            for start in self._items[row.members[member]].begins:
                own = {o for o in start.after if o in self._cut and self._leads_to[o] == (row, member)}
                rest = Start(rank=start.rank, after=tuple(o for o in start.after if o not in own))
                begins[start.rank] |= {(o, bucket) for o in own} | self._done(rest, (row, bucket))
        return begins

    def _done(self, start: Start, part_of: tuple[_Row, int] | None = None) -> set[Node]:
        """What is complete when all that a rank waits for is.

        What is part of a bucket cannot wait for it, or for a later one of its row: it waits for what their
        captured buckets waited for.
        """
        found: set[Node] = set()
        seen: set[int] = set()
        waiting = list(start.after)
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            if number not in self._place:
                found.add((number, self._parts(number)[-1]))
                continue
            row, member = self._place[number]
            before = part_of[1] if part_of and part_of[0] is row else row.n_buckets
            found.update(row.node(bucket) for bucket in row.buckets(member) if bucket < before)
            if row.buckets(member)[-1] >= before:
                waiting += (
                    o for one in self._items[number].begins if one.rank == start.rank for o in one.after
                )
        return found

    def _made(
        self,
        node: Node,
        begins: Mapping[int, set[Node]],
        numbers: Callable[[Iterable[Node]], tuple[int, ...]],
    ) -> Item:
        number, part = node
        item = self._items[number]
        starts = tuple(Start(rank=rank, after=numbers(after)) for rank, after in begins.items())
        if isinstance(item, Collective):
            return item.model_copy(update={**self._bucket(number, part), "starts": starts})
        if isinstance(item, Compute):
            return item.model_copy(update={**self._computing(item, node), "start": starts[0]})
        ready, until = item.ready, item.lock_until
        if ready is not None:
            ready = Start(rank=ready.rank, after=numbers(self._done(ready)))
        if until is not None:
            (until,) = numbers(self._done(Start(rank=item.dst, after=(until,))))[-1:]
        return item.model_copy(update={"start": starts[0], "ready": ready, "lock_until": until})

    def _bucket(self, number: int, bucket: int) -> dict[str, Any]:
        """What differs from the captured one."""
        if number not in self._place:
            return {}
        row, member = self._place[number]
        if len(row.members_of(bucket)) == len(row.buckets(member)) == 1:
            return {}
        return {"nbytes": row.nbytes(bucket), "tag": next(self._tags), "turns": ()}

    def _computing(self, item: Compute, node: Node) -> dict[str, Any]:
        number, bucket = node
        if len(self._parts(number)) == 1:
            return {}
        row, member = self._leads_to[number]
        times_ns = {name: getattr(item, name) for name in ("duration_ns", "least_ns", "most_ns")}
        shares = {n: None if ns is None else row.share(member, bucket, ns) for n, ns in times_ns.items()}
        return {**shares, "usual": None}

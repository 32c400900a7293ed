"""How long ranks computed, as items of a workload: from the end of what an operation waited for to its start.

A rank's computing goes on while operations are in flight.  Of two operations that wait for the same, the
later one therefore waits for what was computed before the earlier one, and for what was computed since.
What its host took besides is part of it here: a replay's takes next to nothing between two collectives.
What leads from one iteration to the next closes the earlier one: the optimizer's step, and the gradients up
to the first bucket.  After the last operations a capture shows nothing any more; as they are followed by
computing in every other iteration, they are here too, for as long as the median of the others.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from gradwire.traces.iterationtimes import percentile
from gradwire.traces.recognition.starts import Beginning
from gradwire.traces.workload import MAX_GAP_NS, Collective, Compute, Item, Message, Start, Usual

Place = tuple[object, ...]
"""Where in an iteration a rank computes: before which of its operations."""


def with_computing(
    items: Sequence[Collective | Message],
    begins: Sequence[Sequence[Beginning]],
    together_with: Mapping[int, int],
) -> list[Item]:
    """`items` with their starts, and before each what was computed for it; `begins` has those of each.

    `together_with` is, by message, the send of its destination together with which that asked for it.
    """
    collected = _Items(together_with)
    for item, some in zip(items, begins, strict=True):
        collected.add(item, some)
    collected.close()
    return collected.found()


class _Items:
    def __init__(self, together_with: Mapping[int, int]) -> None:
        self._together_with = together_with
        self._items: list[Item] = []
        self._ids: list[int] = []  # of each operation
        self._latest: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}  # by rank and what it follows
        self._seen: Counter[Place] = Counter()
        self._place_of: dict[int, tuple[int, Place]] = {}  # of each computing, its rank and place
        self._assumed: set[int] = set()  # what no capture shows
        self._closing: defaultdict[int, dict[int, int]] = defaultdict(dict)  # rank, iteration -> computing
        self._part: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # operations, the same way

    def add(self, item: Collective | Message, begins: Sequence[Beginning]) -> None:
        starts = []
        for one in begins:
            key = (one.rank, item.iteration, item.kind, item.nbytes, *_ends(item))
            place: Place = (*key[2:], self._seen[key])
            self._seen[key] += 1
            starts.append(self._start(item, one, place))
        number = len(self._items)
        self._ids.append(number)
        is_message = isinstance(item, Message)
        self._items.append(
            item.model_copy(update={"start": starts[0]} if is_message else {"starts": tuple(starts)})
        )
        ranks = {start.rank for start in starts}
        for rank in ranks | ({item.dst} if isinstance(item, Message) else set()):
            self._part[rank, item.iteration].append(number)

    def _start(self, item: Collective | Message, one: Beginning, place: Place) -> Start:
        after = tuple(self._ids[other] for other in one.after)
        if one.readiness is not None:
            earlier = tuple(self._ids[other] for other in one.readiness.after)
            width_ns = one.readiness.most_ns - one.readiness.least_ns
            least_ns = one.readiness.least_ns + one.host_ns
            after = (*after, self._chained(one.rank, earlier, least_ns, item, ("ready", *place), width_ns))
        if one.gap_ns:
            after = (self._chained(one.rank, after, one.gap_ns + one.host_ns, item, place),)
        return Start(rank=one.rank, after=after)

    def _chained(
        self,
        rank: int,
        after: tuple[int, ...],
        gap_ns: int,
        item: Collective | Message,
        place: Place,
        width_ns: int | None = None,
    ) -> int:
        """What ends `gap_ns` after all of `after`, or up to `width_ns` later than that."""
        before, before_ns = self._latest.get((rank, after), (None, 0))
        if before is not None and before_ns == gap_ns and width_ns is None:
            return before
        if before is None or before_ns > gap_ns:
            number = self._compute(rank, after, gap_ns, self._iteration(after, item), place, width_ns)
            if self._items[number].iteration < item.iteration:
                self._closing[rank].setdefault(self._items[number].iteration, number)
        else:
            number = self._compute(rank, (before,), gap_ns - before_ns, item.iteration, place, width_ns)
        self._latest[rank, after] = (number, gap_ns)
        return number

    def _compute(
        self,
        rank: int,
        after: tuple[int, ...],
        duration_ns: int,
        iteration: int,
        place: Place,
        width_ns: int | None = None,
    ) -> int:
        number = len(self._items)
        self._items.append(
            Compute(
                start=Start(rank=rank, after=after),
                duration_ns=duration_ns,
                iteration=iteration,
                least_ns=None if width_ns is None else duration_ns,
                most_ns=None if width_ns is None else min(MAX_GAP_NS, duration_ns + width_ns),
            )
        )
        self._place_of[number] = (rank, place)
        return number

    def _iteration(self, after: Sequence[int], leads_to: Item) -> int:
        """The iteration of what it follows, if that is part of the training; else of what it leads to."""
        latest = max((self._items[other].iteration for other in after), default=-1)
        return latest if 0 <= latest <= leads_to.iteration else leads_to.iteration

    def close(self) -> None:
        """Let ranks compute after the last iteration, if that is whole, as after those before."""
        last = max((item.iteration for item in self._items), default=-1)
        for rank, by_iteration in sorted(self._closing.items()):
            example = by_iteration.get(last - 1)
            alike = [
                Counter(_shape(self._items[number]) for number in self._part[rank, iteration])
                for iteration in (last - 1, last)
            ]
            if example is None or alike[0] != alike[1]:
                continue
            place = self._place_of[example][1]
            same = [
                computing.duration_ns
                for number in by_iteration.values()
                if self._place_of[number][1] == place
                and isinstance(computing := self._items[number], Compute)
            ]
            self._compute(rank, tuple(self._part[rank, last]), round(median(same)), last, place)
            self._assumed.add(len(self._items) - 1)

    def found(self) -> list[Item]:
        """Each computing with what is usual at its place; what destinations wait for by the items' ids."""
        durations: defaultdict[tuple[int, Place], list[int]] = defaultdict(list)
        for number, place in self._place_of.items():
            computing = self._items[number]
            assert isinstance(computing, Compute)
            if number not in self._assumed:
                durations[place].append(computing.duration_ns)
        usual = {place: _usual(sorted(some)) for place, some in durations.items() if len(some) > 1}
        return [
            item.model_copy(update={"usual": usual.get(self._place_of[number])})
            if isinstance(item, Compute)
            else self._prepared(number, item)
            for number, item in enumerate(self._items)
        ]

    def _prepared(self, number: int, item: Collective | Message) -> Item:
        """That may come after later operations, so it is known when all have been added."""
        if not isinstance(item, Message) or item.ready is None:
            return item
        after = {self._ids[other] for other in item.ready.after}
        operation = bisect_left(self._ids, number)  # the ids of operations ascend
        send = self._together_with.get(operation)
        if send is not None:
            after |= {*self._items[self._ids[send]].begins[0].after}
        return item.model_copy(
            update={"ready": item.ready.model_copy(update={"after": tuple(sorted(after))})}
        )


def _ends(item: Collective | Message) -> tuple[int, ...]:
    return (item.src, item.dst) if isinstance(item, Message) else ()


def _shape(item: Item) -> Place:
    assert not isinstance(item, Compute)
    return (item.kind, item.nbytes, *_ends(item))


def _usual(ordered: Sequence[int]) -> Usual:
    return Usual(
        median_ns=round(median(ordered)),
        low_ns=round(percentile(ordered, 0.1)),
        high_ns=round(percentile(ordered, 0.9)),
        n=len(ordered),
    )

"""Schedules of one operation: other orders that they allow, what ranks hold after them, and their cost."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from gradwire.traces.schedules.schedule import Aggregation
from gradwire.traces.schedules.sends import Send, Sends, swaps

Held = list[dict[int, Counter[int]]]
"""held[rank][start of a piece] counts whose data are in it."""


def in_any_order(listed: Iterable[Send], seed: int) -> list[Send]:
    """The sends numbered again, in an order that `needs` and `ready` allow, drawn at random."""
    sends = list(listed)
    left = {number: {*send.needs, *send.ready} for number, send in enumerate(sends)}
    frees: defaultdict[int, list[int]] = defaultdict(list)
    for number, before in left.items():
        for other in before:
            frees[other].append(number)
    random = Random(seed)
    free = [number for number, before in left.items() if not before]
    new: dict[int, int] = {}
    while free:
        number = free.pop(random.randrange(len(free)))
        new[number] = len(new)
        for other in frees[number]:
            left[other].discard(number)
            if not left[other]:
                free.append(other)
    assert len(new) == len(sends), "sends wait for each other"
    return [
        replace(
            sends[number],
            needs=tuple(new[other] for other in sends[number].needs),
            ready=tuple(new[other] for other in sends[number].ready),
        )
        for number in new
    ]


def held(
    sends: Sequence[Send],
    n_ranks: int,
    nbytes: int,
    *,
    cut_by: Sequence[Send] | None = None,
    aggregations: Iterable[Aggregation] = (),
) -> Held:
    """What each rank holds at the end of the pieces that no send (or none of `cut_by`) divides."""
    cutting = sends if cut_by is None else cut_by
    starts = {0, *(start for send in cutting for start in (send.offset, send.offset + send.nbytes))}
    return held_pieces(sends, n_ranks, [start for start in starts if start < nbytes], aggregations)


def held_pieces(
    listed: Iterable[Send], n_ranks: int, starts: Iterable[int], aggregations: Iterable[Aggregation] = ()
) -> Held:
    """What each rank holds at the end of the pieces that begin at `starts`.

    An allreduce is right when every count is exactly one for every rank.  The sends are carried out in the
    order of their ids, each reading what its source holds at that moment (swapped ones: at the first one's);
    its `needs` must therefore come first.  `aggregations` of the same operation are done before all of them.
    """
    sends, pieces = Sends.of(listed), sorted(set(starts))
    partner = swaps(sends)
    before: dict[tuple[int, int], Counter[int]] = {}  # what a later half of a swap carries
    have = [{start: Counter([rank]) for start in pieces} for rank in range(n_ranks)]
    for aggregation in aggregations:
        for start in pieces:
            total = Counter(aggregation.givers)
            for taker in aggregation.takers:
                have[taker][start] = total
    for number, send in enumerate(sends):
        if any(need >= number for need in send.needs):
            raise ValueError(f"send {number} waits for a later send: {send.needs}")
        for start in pieces:
            if send.offset <= start < send.offset + send.nbytes:
                own = have[send.dst][start]
                data = before.get((number, start), have[send.src][start])
                if partner.get(number, -1) > number:
                    before[partner[number], start] = own
                have[send.dst][start] = own + data if send.reduce else Counter(data)
    return have


def step_by_step_s(sends: Sequence[Send], alpha: float, beta: float, *, by_link: bool = False) -> float:
    """T = sum over steps of alpha + n beta, n the most that a rank sends or receives in the step.

    `by_link`: the most that a rank sends to one other.
    """
    loads: defaultdict[int, Counter[tuple[object, ...]]] = defaultdict(Counter)
    for send in sends:
        ends = [(send.src, send.dst)] if by_link else [("out", send.src), ("in", send.dst)]
        for end in ends:
            loads[send.step][end] += send.nbytes
    return sum(alpha + max(load.values()) * beta for load in loads.values())

"""Schedules of one operation: other orders that they allow, what ranks hold after them, and their cost."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from gradwire.traces.schedules.collectives import piece_starts
from gradwire.traces.schedules.schedule import contributions
from gradwire.traces.schedules.sends import Send

Held = list[dict[int, Counter[int]]]


def in_any_order(sends: Sequence[Send], seed: int) -> list[Send]:
    """The sends numbered anew, in an order that `needs` and `ready` allow, drawn at random."""
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


def held(sends: list[Send], n_ranks: int, nbytes: int, cut_by: list[Send] | None = None) -> Held:
    """What each rank holds at the end, by the starts of pieces that no send of `cut_by` divides."""
    starts = {0, *piece_starts(sends if cut_by is None else cut_by)}
    return contributions(sends, n_ranks, [start for start in starts if start < nbytes])


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

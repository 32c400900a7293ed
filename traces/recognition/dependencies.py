"""What a rank waits for before each operation of an iteration, by a vote over iterations and ranks.

Whether one operation was complete at a rank before it began the next is a comparison of two noisy times,
and a single one, wrong by a millisecond, would turn the waiting of a whole iteration into computing.  But
training repeats itself: an operation has a *place* in its iteration, and what one place waits for, it waits
for in every iteration and on every rank.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.traces.recognition.operation import Operation

TOLERANCE_NS = 1_000_000  # a host's own time between the last byte at its interface and the next first one
MOST = 0.9  # of the iterations and ranks, for one operation to wait for another
HALF = (
    0.5  # for an iteration to wait for the allreduces of the one before: the optimizer's step needs them all
)
MAX_LAG = (
    2  # iterations back; 2 is for jobs that reduce one iteration's gradients while they compute the next
)
MAX_PLACES = 1 << 10  # these two bound what a hostile file may cost
MAX_COMPARISONS = 1 << 30
MAX_QUEUED = (
    0.1  # of the gap that the rest leaves: with less, an operation began because another was complete
)
NEAR = 0.1  # of that gap: so much later the other one may seem to be complete, where preambles are hidden
_NEVER = -1

Flags = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]
Place = tuple[str, int, int]
"""An operation's kind, its bytes, and how many of the same came before it in its iteration."""


@dataclass(frozen=True)
class RepeatingOperations:
    """What repeats of a job: `number[i, p]` is the operation at place `p` of iteration `i`, or -1.

    `begun_ns[i, p, r]` and `done_ns[i, p, r]` are its times at rank `r`, -1 where there is none.
    """

    places: tuple[Place, ...]
    number: Times
    begun_ns: Times
    done_ns: Times


@dataclass(frozen=True, order=True)
class Dependency:
    """On the operation at `place` of the iteration `lag` before."""

    lag: int
    place: int


def grid(operations: Sequence[Operation], iterations: Sequence[int]) -> RepeatingOperations:
    """Of collectives that have an iteration; `iterations` has an entry for each operation, < 0 for none."""
    chosen = [
        n for n, operation in enumerate(operations) if iterations[n] >= 0 and operation.kind != "message"
    ]
    chosen.sort(key=lambda n: (iterations[n], operations[n].tag, n))
    seen: Counter[tuple[int, str, int]] = Counter()
    index: dict[Place, int] = {}
    cells: list[tuple[int, int, int]] = []
    for n in chosen:
        key = (iterations[n], operations[n].kind, operations[n].nbytes)
        place = (key[1], key[2], seen[key])
        seen[key] += 1
        cells.append((iterations[n], index.setdefault(place, len(index)), n))
    n_ranks = 1 + max(
        (rank for n in chosen for rank in {**operations[n].begun, **operations[n].done}), default=-1
    )
    n_iterations = 1 + max((iteration for iteration, _, _ in cells), default=-1)
    number = np.full((n_iterations, len(index)), _NEVER, np.int64)
    begun, done = (np.full((*number.shape, n_ranks), _NEVER, np.int64) for _ in range(2))
    for iteration, place_number, n in cells:
        number[iteration, place_number] = n
        for times, values in ((begun, operations[n].begun), (done, operations[n].done)):
            for rank, time_ns in values.items():
                times[iteration, place_number, rank] = time_ns
    return RepeatingOperations(tuple(index), number, begun, done)


def dependencies(of: RepeatingOperations) -> dict[int, tuple[Dependency, ...]]:
    """What each place waits for, without what the rest implies; no entry for a place that shows nothing."""
    n_iterations, n_places, n_ranks = of.begun_ns.shape
    if n_iterations < 2 or n_places > MAX_PLACES or n_places**2 * n_iterations * n_ranks > MAX_COMPARISONS:
        return {}
    voted = _voted(of)
    found: defaultdict[int, list[Dependency]] = defaultdict(list)
    for lag, place, other in np.argwhere(voted & ~_implied(voted, of)).tolist():
        found[place].append(Dependency(lag, other))
    return {place: tuple(some) for place, some in found.items()}


def _voted(of: RepeatingOperations) -> Flags:
    """`[lag, p, q]`: in most iterations after the first, the q of `lag` before was complete when ranks
    began p.
    """
    n_iterations, n_places, _ = of.begun_ns.shape
    found = np.zeros((MAX_LAG + 1, n_places, n_places), np.bool_)
    for lag in range(min(MAX_LAG, n_iterations - 1) + 1):
        first = max(1, lag)
        earlier = slice(first - lag, n_iterations - lag)
        wanted = np.full(n_places, MOST)
        if lag == 1:
            wanted[[kind == "allreduce" for kind, _, _ in of.places]] = HALF
        for place in range(n_places):
            begun = of.begun_ns[first:, place, np.newaxis, :]
            done = of.done_ns[earlier]
            comparable = (begun != _NEVER) & (done != _NEVER)
            precedes = of.number[earlier] < of.number[first:, place, np.newaxis]
            agrees = comparable & (done <= begun + TOLERANCE_NS) & precedes[:, :, np.newaxis]
            compared, agreed = comparable.sum((0, 2)), agrees.sum((0, 2))
            enough = (compared > 0) & (2 * compared >= (begun != _NEVER).sum())
            found[lag, place] = enough & (agreed >= wanted * compared)
    np.fill_diagonal(found[0], val=False)
    return found


def _implied(voted: Flags, of: RepeatingOperations) -> Flags:
    """What another one waits for already: at ranks that begin both, that must have been complete as well."""
    begins = (of.begun_ns != _NEVER).any(0)
    by_all = ~(begins[:, np.newaxis, :] & ~begins[np.newaxis]).any(2)  # [p, q]: who begins p begins q
    weights = voted.astype(np.float32)
    found = np.zeros_like(voted)
    for lag in range(MAX_LAG + 1):
        for first in range(lag + 1):
            found[lag] |= (weights[first] * by_all) @ weights[lag - first] > 0
    return found


@dataclass(frozen=True)
class Readiness:
    """An operation that had to queue was ready `least_ns` to `most_ns` after all of `after` were complete."""

    after: tuple[int, ...]
    least_ns: int
    most_ns: int


@dataclass(frozen=True)
class Wait:
    """Before an operation at a rank: the operations `after` which it computed for `gap_ns`.

    `measured` is False where one of them is not in the capture: the gap is then the median of this place and
    rank.  `readiness` is of one that queued.
    """

    after: tuple[int, ...]
    gap_ns: int
    measured: bool
    readiness: Readiness | None = None


def waits(
    operations: Sequence[Operation], iterations: Sequence[int], turnarounds_ns: Mapping[int, int]
) -> dict[tuple[int, int], Wait]:
    """By operation and rank, for collectives of all iterations but the first."""
    of = grid(operations, iterations)
    found: dict[tuple[int, int], Wait] = {}
    unknown: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, int]]] = {}
    gaps: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for place, some in dependencies(of).items():
        for iteration in range(1, len(of.number)):
            number = int(of.number[iteration, place])
            if number < 0:
                continue
            others = [int(of.number[iteration - d.lag, d.place]) for d in some if d.lag <= iteration]
            for rank, begun_ns in operations[number].begun.items():
                after = tuple(sorted({n for n in others if 0 <= n < number and rank in operations[n].done}))
                if len(after) < len(some) or not after:
                    unknown[number, rank] = (after, (place, rank))
                    continue
                ready_ns = max(operations[n].done[rank] for n in after) + turnarounds_ns.get(rank, 0)
                gap_ns = max(0, begun_ns - ready_ns)
                gaps[place, rank].append(gap_ns)
                found[number, rank] = Wait(after, gap_ns, measured=True)
    for place in range(len(of.places)):
        found |= _queued(of, place, operations, found, turnarounds_ns)
    for key, (after, where) in unknown.items():
        if after and gaps[where]:
            found[key] = Wait(after, int(np.median(gaps[where])), measured=False)
    return found


def _queued(
    of: RepeatingOperations,
    place: int,
    operations: Sequence[Operation],
    found: Mapping[tuple[int, int], Wait],
    turnarounds_ns: Mapping[int, int],
) -> dict[tuple[int, int], Wait]:
    """What a place waits for because a library limits how many are in flight: gloo has two threads.

    Then an operation begins as soon as any other of its iteration is complete, not always the same one.  It
    may have been ready long before, though not before those that began before it; how long cannot be known.
    """
    changed: dict[tuple[int, int], Wait] = {}
    before: list[int] = []
    for number, mates in zip(of.number[:, place].tolist(), of.number.tolist(), strict=True):
        for rank, begun_ns in operations[number].begun.items() if number >= 0 else ():
            wait = found.get((number, rank))
            if wait is None or not wait.measured:
                continue
            before.append(wait.gap_ns)
            latest_ns = begun_ns + max(TOLERANCE_NS, int(NEAR * wait.gap_ns))
            complete = [
                (abs(begun_ns - done_ns), mate)
                for mate in mates
                if 0 <= mate < number
                and (done_ns := operations[mate].done.get(rank))
                and done_ns <= latest_ns
            ]
            if complete:
                distance_ns, mate = min(complete)
                gap_ns = max(0, distance_ns - turnarounds_ns.get(rank, 0))
                if operations[mate].done[rank] > begun_ns:
                    gap_ns = 0
                after = tuple(sorted({*wait.after, mate}))
                since_ns = begun_ns - wait.gap_ns
                begins = [
                    operations[other].begun[rank]
                    for other in mates
                    if 0 <= other < number and rank in operations[other].begun
                ]
                least_ns = min(max([0, *(ns - since_ns for ns in begins)]), wait.gap_ns)
                readiness = Readiness(wait.after, least_ns, wait.gap_ns)
                changed[number, rank] = Wait(after, gap_ns, measured=True, readiness=readiness)
    if not before or len(changed) < MOST * len(before):
        return {}
    gaps = [wait.gap_ns for wait in changed.values()]
    return changed if np.median(gaps) <= MAX_QUEUED * np.median(before) else {}

"""How long an iteration takes, from start to start: defined once for ranks' logs and for replays.

An iteration's time is the mean over the ranks of the time from its start there to the next one's.  In the
mean a rank that happened to begin early, and late the next time, cancels out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which reads what is recognised, and that works out such times as well
    from gradwire.traces.groundtruth import RankLog

BEGINS = frozenset(("iter0", 1))  # the log's events: of ddp and of programs, of a parameter server's worker
FIRST_WARM = 2  # iterations 0 and 1 hold connection set-up and DDP's rebuild of its buckets
MIN_ITERATIONS = 5  # so that two times remain

Starts = Mapping[int, Mapping[int, int]]
"""By rank and iteration, in ns by any clock that is the rank's own."""


@dataclass(frozen=True, slots=True)
class IterationTime:
    """Seconds: the median iteration, and the 10th and the 90th percentile of the `n` iterations."""

    median: float
    low: float
    high: float
    n: int

    @property
    def spread(self) -> float:
        """Half of what lies between the percentiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median

    @classmethod
    def of(cls, times_s: Sequence[float]) -> "IterationTime":
        ordered = sorted(times_s)
        return cls(median(ordered), percentile(ordered, 0.1), percentile(ordered, 0.9), len(ordered))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest values, in proportion."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def logged_starts(logs: Sequence["RankLog"]) -> dict[int, dict[int, int]]:
    """When each rank began each iteration by its own log; ranks whose logs name none are left out."""
    starts: dict[int, dict[int, int]] = {}
    for log in logs:
        for event in log.events:
            if event.k in BEGINS and event.it >= 0:
                starts.setdefault(log.rank, {}).setdefault(event.it, event.t)
    return starts


def iteration_times_s(starts: Starts, first: int) -> tuple[float, ...]:
    """Of each iteration from `first` on that every rank has begun, as its next one.

    Raise ValueError if a rank's next iteration begins before the one before.
    """
    if not starts:
        return ()
    common = set.intersection(*(set(of_rank) for of_rank in starts.values()))
    numbers = sorted(number for number in common if number >= first and number + 1 in common)
    times_s = []
    for number in numbers:
        spans_ns = [of_rank[number + 1] - of_rank[number] for of_rank in starts.values()]
        if min(spans_ns) <= 0:
            raise ValueError(f"iteration {number + 1} begins before iteration {number} on one of the ranks")
        times_s.append(fmean(spans_ns) / 1e9)
    return tuple(times_s)


def together(jobs: Sequence[Starts]) -> list[dict[int, dict[int, int]]]:
    """The starts of jobs side by side while all of them train: from when the last of them is past its
    warm-up until the first one's last start.  Their clocks must be one.  A job alone keeps all.
    """
    if len(jobs) < 2 or not all(jobs):
        return [{rank: dict(of_rank) for rank, of_rank in starts.items()} for starts in jobs]
    warm = [
        [t for of_rank in starts.values() for it, t in of_rank.items() if it >= FIRST_WARM] for starts in jobs
    ]
    if not all(warm):
        return [{} for _ in jobs]
    first, last = max(map(min, warm)), min(map(max, warm))
    return [
        {rank: {it: t for it, t in of_rank.items() if first <= t <= last} for rank, of_rank in starts.items()}
        for starts in jobs
    ]

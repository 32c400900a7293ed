"""How long an iteration takes and where its time goes, without the warm-up; or why neither can be said."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from gradwire.traces.analysis.bursts import Series
from gradwire.traces.analysis.exposure import Exposure, Span
from gradwire.traces.trace import MAX_UNREAD, Losses, Trace
from gradwire.traces.units import show_nbytes

# Of the bytes that ranks receive: those that come while they compute and nothing is known to be in flight.
MAX_IN_COMPUTE = 0.02
# Times the median: what takes longer is a checkpoint, an evaluation or a hole in the capture.
LONG = 5
BULK_NBYTES = 1000  # of a packet: smaller ones may be notices and acknowledgements


@dataclass(frozen=True)
class Shares:
    """Iterations from start to start at each rank, and the shares of that time, all ranks and iterations
    together.

    `time_ns`, `least_ns` and `most_ns` are the median, the shortest and the longest of `iteration_times`.
    `compute`, `exposed` and `wait` add up to 1; `hidden` is the part of `compute` under which something was
    in flight.  The first `n_warm_up` iterations are left out, and of these four also the `long` ones, which
    took more than LONG times the median.
    """

    n_iterations: int
    n_warm_up: int
    time_ns: float
    least_ns: float
    most_ns: float
    compute: float
    hidden: float
    exposed: float
    wait: float
    long: tuple[int, ...] = ()


def iteration_times(exposures: Iterable[Exposure]) -> dict[int, int]:
    """How long each iteration took from start to start, in nanoseconds: at the median rank."""
    by_iteration: defaultdict[int, list[int]] = defaultdict(list)
    for one in exposures:
        by_iteration[one.iteration].append(one.time_ns)
    return {iteration: round(median(times)) for iteration, times in by_iteration.items()}


def shares(exposures: Sequence[Exposure], warm_up: int) -> Shares | None:
    """None if no iteration was found."""
    chosen = [one for one in exposures if one.iteration >= warm_up]
    if not chosen:
        return None
    times = iteration_times(chosen)
    usual_ns = median(times.values())
    long = {iteration for iteration, time_ns in times.items() if time_ns > LONG * usual_ns > 0}
    usual = [one for one in chosen if one.iteration not in long]
    whole = sum(one.time_ns for one in usual) or 1
    return Shares(
        n_iterations=len(times),
        n_warm_up=warm_up,
        time_ns=usual_ns,
        least_ns=min(times.values()),
        most_ns=max(times.values()),
        compute=sum(one.compute_ns for one in usual) / whole,
        hidden=sum(one.overlapped_ns for one in usual) / whole,
        exposed=sum(one.exposed_ns for one in usual) / whole,
        wait=sum(one.wait_ns for one in usual) / whole,
        long=tuple(sorted(long)),
    )


def refusals(
    trace: Trace,
    series: Sequence[Series],
    spans: Sequence[Span],
    exposures: Sequence[Exposure],
    warm_up: int = 0,
    n_buckets: int = 1,
) -> tuple[str, ...]:
    """Why no shares are said, one sentence each; empty if they can be.  `series` are the trace's packets.

    Shares leave the first `warm_up` iterations out, in which set-up is in flight that belongs to none.
    `n_buckets` is how many collectives an iteration has.
    """
    steady = [one for one in exposures if one.iteration >= warm_up]
    chosen = [one for one in spans if one.iteration >= warm_up]
    why = (_unread(trace.losses), _few(trace, steady, n_buckets), _misread(trace, series, chosen, steady))
    return tuple(filter(None, why))


def _few(trace: Trace, steady: Sequence[Exposure], n_buckets: int) -> str | None:
    """One rank in one iteration shows which collectives came after one another, not which had to wait."""
    n_iterations = len({one.iteration for one in steady})
    if len(trace.seen_from) != 1 or n_iterations != 1 or n_buckets == 1:
        return None
    return (
        f"one iteration of one rank does not show which of its {n_buckets} collectives waited for another: "
        "capture for longer, or other hosts too"
    )


def _unread(losses: Losses) -> str | None:
    if losses.unread <= MAX_UNREAD:
        return None
    nbytes = show_nbytes(losses.unresolved_nbytes + losses.unseen_nbytes)
    return f"{losses.unread:.1%} of the job's bytes ({nbytes}) could not be read as messages"


def _misread(
    trace: Trace, series: Sequence[Series], spans: Sequence[Span], exposures: Sequence[Exposure]
) -> str | None:
    """Needs no decoding: a rank that only computes receives no bulk of its training."""
    ranks = {host: rank for rank, host in enumerate(trace.addresses)}
    seen = {one.rank for one in exposures}
    inside = received = 0
    since_ns: dict[int, int] = {}
    for one in spans:  # in order
        since_ns.setdefault(one.rank, one.start_ns)
    for host, direction, time_ns, nbytes in series:
        if direction == "out" or ranks.get(host) not in seen:
            continue
        is_bulk = (nbytes >= BULK_NBYTES) & (time_ns >= since_ns.get(ranks[host], 0))
        bulk_ns = time_ns[is_bulk]
        total = np.concatenate([[0], np.cumsum(nbytes[is_bulk])])
        alone = np.array(list(_alone(ranks[host], spans)), np.int64).reshape(-1, 2)
        first, last = np.searchsorted(bulk_ns, alone[:, 0], "right"), np.searchsorted(bulk_ns, alone[:, 1])
        inside += int((total[np.maximum(first, last)] - total[first]).sum())
        received += int(total[-1])
    if not exposures or inside <= MAX_IN_COMPUTE * received:
        return None
    return f"{inside / received:.1%} of what ranks received came while nothing was known to be in flight"


def _alone(rank: int, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """When the rank computed and nothing was in flight there."""
    return (
        (s.start_ns, s.end_ns) for s in spans if s.rank == rank and s.kind == "compute" and not s.overlapped
    )

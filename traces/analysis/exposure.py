"""Where each rank's time went: computing, communicating with nothing else to do, waiting for a later rank.

Seen from outside.  Before an operation that a rank begins itself, it computes; also while others of its own
are still in flight (that is overlap).  Before a message that it is sent, it waits for the sender.  In
flight with nothing begun until it is over, it communicates, exposed; but as long as some other rank has not
even begun, it waits for that one.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from traces.recognition.operation import Operation
from traces.recognition.recognise import Job

SpanKind = Literal["compute", "communication", "wait"]
# In these every rank sends as soon as it takes part, whatever the others do.
SYMMETRIC = frozenset({"ring", "segmented-ring", "recursive-doubling", "halving-doubling", "all-pairs"})


@dataclass(frozen=True)
class Span:
    """What `rank` did from `start_ns` to `end_ns`, since the trace's first training byte."""

    rank: int
    iteration: int
    kind: SpanKind
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Exposure:
    """One rank's iteration: `time_ns` = `compute_ns` + `exposed_ns` + `wait_ns`.

    `overlapped_ns` of the compute were communication at the same time.  `waits_for` is the rank it waited for
    longest.
    """

    iteration: int
    rank: int
    time_ns: int
    compute_ns: int
    exposed_ns: int
    overlapped_ns: int
    wait_ns: int
    waits_for: int | None


@dataclass(frozen=True)
class Straggler:
    """How often `rank` was the last to begin, and then how long after the mean of the others."""

    rank: int
    times_last: int
    mean_late_ns: int


class _Flight(NamedTuple):
    """An operation at one rank; `latest_ns` is when the last rank, `latest`, began it."""

    begin_ns: int
    end_ns: int
    iteration: int
    is_own: bool  # begun by this rank
    latest_ns: int
    latest: int


class _Piece(NamedTuple):
    span: Span
    overlapped: bool
    waits_for: int | None


def exposure(job: Job) -> tuple[tuple[Span, ...], tuple[Exposure, ...]]:
    """The timelines of all ranks, disjoint and in order, and their sums, by iteration and rank.

    A rank's first iteration begins with its first operation: what was computed before cannot be seen.
    """
    spans: list[Span] = []
    sums: list[Exposure] = []
    for rank, flights in sorted(_flights(job).items()):
        pieces = list(_pieces(rank, flights))
        spans += _joined([piece.span for piece in pieces])
        by_iteration: defaultdict[int, list[_Piece]] = defaultdict(list)
        for piece in pieces:
            by_iteration[piece.span.iteration].append(piece)
        sums += (_sum(iteration, rank, some) for iteration, some in by_iteration.items())
    return tuple(spans), tuple(sorted(sums, key=lambda one: (one.iteration, one.rank)))


def stragglers(job: Job) -> tuple[Straggler, ...]:
    """The ranks that were last, most often first: in collectives that all begin by themselves, in pushes."""
    late: defaultdict[int, list[float]] = defaultdict(list)
    for begun in _begins(job):
        last = max(begun, key=lambda rank: begun[rank])
        others = [ns for rank, ns in begun.items() if rank != last]
        late[last].append(begun[last] - sum(others) / len(others))
    found = [Straggler(rank, len(some), round(sum(some) / len(some))) for rank, some in late.items()]
    return tuple(sorted(found, key=lambda one: (-one.times_last, one.rank)))


def _begins(job: Job) -> Iterator[dict[int, int]]:
    """When each rank began what all of them do."""
    pushes: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for number, operation in enumerate(job.operations):
        iteration = job.labels.iterations[number]
        if iteration < 0:
            continue
        if job.labels.roles[number] == "push":
            pushes[iteration, operation.dst].setdefault(operation.src, operation.begin_ns)
        elif _is_symmetric(job, number) and len(operation.begun) > 1:
            yield operation.begun
    yield from (begun for begun in pushes.values() if len(begun) > 1)


def _is_symmetric(job: Job, number: int) -> bool:
    return job.operations[number].kind == "allreduce" and job.algorithms[number].name in SYMMETRIC


def _flights(job: Job) -> dict[int, list[_Flight]]:
    """The operations of each rank in training iterations, by their beginning."""
    found: defaultdict[int, list[_Flight]] = defaultdict(list)
    first_ns = int(job.trace.messages.first_ns.min())
    for number, operation in enumerate(job.operations):
        iteration = job.labels.iterations[number]
        if iteration < 0:
            continue
        for rank, done_ns in operation.done.items():
            is_own = rank in operation.begun or operation.kind != "message"
            begin_ns = operation.begun.get(rank, operation.begin_ns)
            latest = _awaited(operation, rank, symmetric=_is_symmetric(job, number))
            latest_ns = operation.begun.get(latest, begin_ns) if is_own else begin_ns
            times = (begin_ns - first_ns, max(done_ns, begin_ns) - first_ns)
            found[rank].append(_Flight(*times, iteration, is_own, latest_ns - first_ns, latest))
    for flights in found.values():
        flights.sort()
    return dict(found)


def _awaited(operation: Operation, rank: int, *, symmetric: bool) -> int:
    """Whose beginning `rank` may have to wait for: the last one's, a broadcast's root, a message's sender."""
    if symmetric:
        return max(operation.begun, key=lambda other: operation.begun[other])
    return rank if operation.kind == "allreduce" else operation.src


def _pieces(rank: int, flights: Sequence[_Flight]) -> Iterator[_Piece]:
    """The rank's time cut wherever something begins, ends or ceases to wait."""
    cuts = sorted({ns for f in flights for ns in (f.begin_ns, f.end_ns, min(f.latest_ns, f.end_ns))})
    own_begins = [f.begin_ns for f in flights if f.is_own]
    place = 0
    flying: list[_Flight] = []
    for start_ns, end_ns in pairwise(cuts):
        while place < len(flights) and flights[place].begin_ns <= start_ns:
            flying.append(flights[place])
            place += 1
        flying = [flight for flight in flying if flight.end_ns > start_ns]
        if not flying:
            following = flights[place]
            kind: SpanKind = "compute" if following.is_own else "wait"
            span = Span(rank, following.iteration, kind, start_ns, end_ns)
            yield _Piece(span, overlapped=False, waits_for=None if following.is_own else following.latest)
            continue
        next_own = bisect_right(own_begins, start_ns)
        until_ns = max(flight.end_ns for flight in flying)
        if next_own < len(own_begins) and own_begins[next_own] < until_ns:
            span = Span(rank, flying[-1].iteration, "compute", start_ns, end_ns)
            yield _Piece(span, overlapped=True, waits_for=None)
        elif all(flight.latest_ns >= end_ns for flight in flying):
            latest = max(flying, key=lambda flight: flight.latest_ns)
            span = Span(rank, flying[-1].iteration, "wait", start_ns, end_ns)
            yield _Piece(span, overlapped=False, waits_for=latest.latest)
        else:
            span = Span(rank, flying[-1].iteration, "communication", start_ns, end_ns)
            yield _Piece(span, overlapped=False, waits_for=None)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of one kind as one."""
    found: list[Span] = []
    for span in spans:
        if found and (found[-1].kind, found[-1].iteration) == (span.kind, span.iteration):
            found[-1] = Span(span.rank, span.iteration, span.kind, found[-1].start_ns, span.end_ns)
        else:
            found.append(span)
    return found


def _sum(iteration: int, rank: int, pieces: Sequence[_Piece]) -> Exposure:
    total: Counter[str] = Counter()
    waits: Counter[int] = Counter()
    for piece in pieces:
        total[piece.span.kind] += piece.span.duration_ns
        total["overlapped"] += piece.span.duration_ns * piece.overlapped
        if piece.waits_for is not None:
            waits[piece.waits_for] += piece.span.duration_ns
    return Exposure(
        iteration=iteration,
        rank=rank,
        time_ns=total["compute"] + total["communication"] + total["wait"],
        compute_ns=total["compute"],
        exposed_ns=total["communication"],
        overlapped_ns=total["overlapped"],
        wait_ns=total["wait"],
        waits_for=waits.most_common(1)[0][0] if waits else None,
    )

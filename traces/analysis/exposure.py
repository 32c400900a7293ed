"""Where each rank's time went: computing, exposed communication, or waiting for a later rank.

Seen from outside.  A rank computes from the moment when all that an operation of its own waits for is
complete until it begins it (`traces.recognition.starts`); what is in flight meanwhile is hidden by
computing.  Before a message that it is sent, it waits for the sender.  In flight while it does not compute,
it communicates, exposed; but as long as some other rank has not even begun, it waits for that one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.recognise import Job

SpanKind = Literal["compute", "communication", "wait"]
# In these every rank sends as soon as it takes part, whatever the others do.
SYMMETRIC = frozenset({"ring", "segmented-ring", "recursive-doubling", "halving-doubling", "all-pairs"})


@dataclass(frozen=True)
class Span:
    """What `rank` did from `start_ns` to `end_ns`, since the trace's first training byte.

    `overlapped`: while it computed, something was in flight there.
    """

    rank: int
    iteration: int
    kind: SpanKind
    start_ns: int
    end_ns: int
    overlapped: bool = False

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Exposure:
    """One rank's iteration: `time_ns` = `compute_ns` + `exposed_ns` + `wait_ns`.

    It lasts from the end of the one before at this rank to its own end, so `time_ns` is the time from start
    to start; the first that is seen begins with its first operation.  `overlapped_ns` of the compute were
    communication at the same time.  `waits_for` is the rank it waited for longest.
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


class _Compute(NamedTuple):
    """What a rank computed before it began an operation of `iteration`."""

    start_ns: int
    end_ns: int
    iteration: int


class _Piece(NamedTuple):
    span: Span
    waits_for: int | None = None


def exposure(job: Job) -> tuple[tuple[Span, ...], tuple[Exposure, ...]]:
    """The timelines of all ranks, disjoint and in order, and their sums, by iteration and rank.

    A rank's first iteration begins with its first operation: what was computed before cannot be seen.
    """
    spans: list[Span] = []
    sums: list[Exposure] = []
    computes = _computes(job)
    for rank, flights in sorted(_flights(job).items()):
        pieces = list(_pieces(rank, flights, computes.get(rank, [])))
        spans += _joined([piece.span for piece in pieces])
        by_iteration: defaultdict[int, list[_Piece]] = defaultdict(list)
        for piece in pieces:
            by_iteration[piece.span.iteration].append(piece)
        sums += (_sum(iteration, rank, some) for iteration, some in by_iteration.items())
    return tuple(spans), tuple(sorted(sums, key=lambda one: (one.iteration, one.rank)))


def stragglers(job: Job, left_out: Collection[int] = ()) -> tuple[Straggler, ...]:
    """The ranks that were last, most often first: in collectives that all begin by themselves, in pushes.

    The warm-up does not count, nor iterations that are `left_out`, nor pushes to asynchronous servers, for
    which nobody waits.
    """
    late: defaultdict[int, list[float]] = defaultdict(list)
    for begun in _begins(job, left_out):
        last = max(begun, key=lambda rank: begun[rank])
        others = [ns for rank, ns in begun.items() if rank != last]
        late[last].append(begun[last] - sum(others) / len(others))
    found = [Straggler(rank, len(some), round(sum(some) / len(some))) for rank, some in late.items()]
    return tuple(sorted(found, key=lambda one: (-one.times_last, one.rank)))


def _begins(job: Job, left_out: Collection[int]) -> Iterator[dict[int, int]]:
    """When each rank began what all of them do."""
    pushes: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for number, operation in enumerate(job.operations):
        iteration = job.labels.iterations[number]
        if iteration < job.labels.warm_up or iteration in left_out:
            continue
        if job.labels.roles[number] == "push" and job.shape.synchronous is not False:
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
            if job.trace.seen_from and rank not in job.trace.seen_from:
                continue
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


def _computes(job: Job) -> dict[int, list[_Compute]]:
    """By rank and beginning: from when all that an operation waited for was complete until its beginning."""
    found: defaultdict[int, list[_Compute]] = defaultdict(list)
    first_ns = int(job.trace.messages.first_ns.min())
    for operation, iteration, starts in zip(job.operations, job.labels.iterations, job.starts, strict=True):
        for start in starts if iteration >= 0 else ():
            if start.rank not in operation.begun:
                continue
            if start.computed_ns:
                end_ns = operation.begun[start.rank] - first_ns - start.waited_ns
                found[start.rank].append(_Compute(end_ns - start.computed_ns, end_ns, iteration))
    for computes in found.values():
        computes.sort()
    return dict(found)


def _pieces(rank: int, flights: Sequence[_Flight], computes: Sequence[_Compute]) -> Iterator[_Piece]:
    """The rank's time cut wherever something begins, ends or ceases to wait."""
    begin_ns, end_ns = flights[0].begin_ns, max(flight.end_ns for flight in flights)
    times = {ns for f in flights for ns in (f.begin_ns, f.end_ns, min(f.latest_ns, f.end_ns))}
    times |= {ns for one in computes for ns in (one.start_ns, one.end_ns) if begin_ns <= ns <= end_ns}
    flying: list[_Flight] = []
    computing: list[_Compute] = []
    next_flight = next_compute = 0
    for start_ns, end_ns in pairwise(sorted(times)):
        while next_flight < len(flights) and flights[next_flight].begin_ns <= start_ns:
            flying.append(flights[next_flight])
            next_flight += 1
        while next_compute < len(computes) and computes[next_compute].start_ns <= start_ns:
            computing.append(computes[next_compute])
            next_compute += 1
        flying = [flight for flight in flying if flight.end_ns > start_ns]
        computing = [one for one in computing if one.end_ns > start_ns]
        following = flights[next_flight] if next_flight < len(flights) else flights[-1]
        yield _piece(rank, (start_ns, end_ns), flying, computing, following)


def _piece(
    rank: int, times: tuple[int, int], flying: list[_Flight], computing: list[_Compute], following: _Flight
) -> _Piece:
    """What `rank` did between two cuts, with all that was under way; `following` begins next."""
    if computing:
        iteration = flying[-1].iteration if flying else computing[0].iteration
        return _Piece(Span(rank, iteration, "compute", *times, overlapped=bool(flying)))
    if not flying and not following.is_own:
        return _Piece(Span(rank, following.iteration, "wait", *times), following.latest)
    if not flying:  # what it waited for is not in the captures
        return _Piece(Span(rank, following.iteration, "communication", *times))
    if all(flight.latest_ns >= times[1] for flight in flying):
        latest = max(flying, key=lambda flight: flight.latest_ns).latest
        return _Piece(Span(rank, flying[-1].iteration, "wait", *times), latest)
    return _Piece(Span(rank, flying[-1].iteration, "communication", *times))


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of one kind as one."""
    found: list[Span] = []
    for span in spans:
        if found and replace(found[-1], start_ns=span.start_ns, end_ns=span.end_ns) == span:
            found[-1] = replace(found[-1], end_ns=span.end_ns)
        else:
            found.append(span)
    return found


def _sum(iteration: int, rank: int, pieces: Sequence[_Piece]) -> Exposure:
    total: Counter[str] = Counter()
    waits: Counter[int] = Counter()
    for piece in pieces:
        total[piece.span.kind] += piece.span.duration_ns
        total["overlapped"] += piece.span.duration_ns * piece.span.overlapped
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

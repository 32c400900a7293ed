"""How far the decoded times of a job differ from the times that its ranks logged.

A rank's log (`traces.groundtruth`) says when each bucket was ready and done, or when a worker's pushes began
and its pulls ended, by the clock that the host's capture has as well.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from gradwire.traces.groundtruth import BUCKET_DONE, BUCKET_READY, PULL_DONE, PUSH_BEGINS, RankLog
from gradwire.traces.recognition.recognise import Job
from gradwire.traces.units import show_s

What = Literal["begun", "done", "gap"]
WHATS: tuple[What, ...] = ("begun", "done", "gap")
MIN_LIMIT_NS = 10_000_000  # of the 95th percentile: what a machine shared by all ranks adds by itself
LIMIT_OF_ITERATION = 20  # 5 % of an iteration


@dataclass(frozen=True)
class TimeError:
    """By how much one time of a rank differs from what it logged; `place` numbers buckets of an iteration."""

    what: What
    rank: int
    iteration: int
    place: int
    error_ns: int

    def __str__(self) -> str:
        return f"iteration {self.iteration}, rank {self.rank}'s bucket {self.place}"


@dataclass(frozen=True)
class ErrorSpread:
    """Of `n` errors the median, the 95th percentile (the nearest there was, from above), and the largest."""

    n: int
    median_ns: int
    p95_ns: int
    largest: TimeError


@dataclass(frozen=True)
class TimeErrors:
    """`iteration_ns` is the median iteration by the logs, from start to start; `n_absent` counts what was
    logged and is not in the job.

    A time is right enough if p95 is at most `limit_ns` and the largest error is below half an iteration: a
    wrong dependency costs a whole one.
    """

    iteration_ns: int
    errors: tuple[TimeError, ...]
    n_absent: int

    @property
    def limit_ns(self) -> int:
        return max(MIN_LIMIT_NS, self.iteration_ns // LIMIT_OF_ITERATION)

    def spread(self, what: What) -> ErrorSpread | None:
        """None if nothing of the kind could be compared."""
        errors = sorted((e for e in self.errors if e.what == what), key=lambda error: error.error_ns)
        if not errors:
            return None
        half, nearest = (-(-percent * len(errors) // 100) - 1 for percent in (50, 95))
        return ErrorSpread(len(errors), errors[half].error_ns, errors[nearest].error_ns, errors[-1])

    @property
    def differences(self) -> tuple[str, ...]:
        """Sentences on what is not right enough."""
        found = [f"{self.n_absent} logged times have no operation"] if self.n_absent else []
        for what in WHATS:
            spread = self.spread(what)
            if spread is None:
                continue
            if spread.p95_ns > self.limit_ns:
                p95, limit = (show_s(ns / 1e9) for ns in (spread.p95_ns, self.limit_ns))
                found.append(f"{what}: 5 % of {spread.n} are more than {p95} off, at most {limit} may be")
            if 2 * spread.largest.error_ns >= self.iteration_ns:
                off, whole = (show_s(ns / 1e9) for ns in (spread.largest.error_ns, self.iteration_ns))
                found.append(f"{what}: {spread.largest} is {off} off, of an iteration of {whole}")
        return tuple(found)

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on what a busy machine does not explain, and a wrong reading of the packets does.

        A rank that waits for a processor is late now and then; a wrong rule is wrong for most operations, and
        a wrong dependency costs a whole iteration.
        """
        found = []
        whole_ns = max(self.iteration_ns // 2, 2 * MIN_LIMIT_NS)
        for what in WHATS:
            spread = self.spread(what)
            if spread is None:
                continue
            for share, error_ns, most_ns in (
                (50, spread.median_ns, self.limit_ns),
                (5, spread.p95_ns, whole_ns),
            ):
                if error_ns > most_ns:
                    off, most = (show_s(ns / 1e9) for ns in (error_ns, most_ns))
                    found.append(
                        f"{what}: {share} % of {spread.n} are {off} off or more, at most {most} may be"
                    )
        return tuple(found)

    @property
    def agrees(self) -> bool | None:
        """None if there was nothing to compare."""
        return not self.differences if self.errors or self.n_absent else None


@dataclass(frozen=True)
class _Logged:
    """What one rank logged of one bucket, or of one iteration's pushes and pulls; `done_ns` None: nothing."""

    rank: int
    iteration: int
    place: int
    ready_ns: int
    done_ns: int | None


@dataclass(frozen=True)
class _Seen:
    """The same in the job.  `gap_ns` is the compute before it since all of `after` were done."""

    begun_ns: int
    done_ns: int
    gap_ns: int
    after: tuple[int, ...]


def time_errors(job: Job, logs: Sequence[RankLog]) -> TimeErrors:
    """How far the job's times are from those that its ranks logged.

    Of each rank and bucket: when it began against when it was ready, and the compute before it against the
    time from the latest bucket done until then, both only where no earlier bucket of the rank was in flight
    (else it may have had to wait its turn, and nothing on the wire says since when); and when it was done.
    The compute is not compared after an operation that no log names, as DDP's broadcast of buffers.

    Of a parameter server's worker likewise the begin of its pushes and the end of its pulls.  When a push
    was done is not compared: the sender's socket takes the last bytes before the wire does.
    """
    by_server = any(log.role for log in logs)
    logged = [line for log in logs for line in (_exchanges(log) if by_server else _buckets(log))]
    place_of, in_logs = _pushed(job) if by_server else _places(job)
    errors: list[TimeError] = []
    n_absent = 0
    by_rank: defaultdict[int, list[_Logged]] = defaultdict(list)
    for line in logged:
        by_rank[line.rank].append(line)
    for rank, lines in by_rank.items():
        for line in lines:
            seen = place_of.get((rank, line.iteration, line.place))
            if seen is None:
                n_absent += 1
                continue
            earlier = [other for other in lines if other.ready_ns < line.ready_ns]
            differences = _compared(line, seen, earlier, in_logs)
            errors += [TimeError(what, rank, line.iteration, line.place, ns) for what, ns in differences]
    return TimeErrors(_iteration_ns(by_rank.values()), tuple(errors), n_absent)


def _compared(
    line: _Logged, seen: _Seen, earlier: Sequence[_Logged], in_logs: set[int]
) -> Iterator[tuple[What, int]]:
    """`in_logs` are the operations that the logs name."""
    if line.done_ns is not None:
        yield "done", abs(seen.done_ns - line.done_ns)
    if any(other.done_ns is None or other.done_ns > line.ready_ns for other in earlier):
        return
    yield "begun", abs(seen.begun_ns - line.ready_ns)
    ends = [other.done_ns for other in earlier if other.done_ns is not None]
    if ends and in_logs.issuperset(seen.after):  # else something was waited for that no log names
        yield "gap", abs(seen.gap_ns - (line.ready_ns - max(ends)))


def _buckets(log: RankLog) -> Iterator[_Logged]:
    """A rank's buckets, placed in the order in which they were ready, as `traces.groundtruth` does."""
    done = {(event.it, event.b): event.t for event in log.events if event.k == BUCKET_DONE}
    n_ready: defaultdict[int, int] = defaultdict(int)
    for event in sorted(log.events, key=lambda event: event.t):
        if event.k == BUCKET_READY:
            yield _Logged(log.rank, event.it, n_ready[event.it], event.t, done.get((event.it, event.b)))
            n_ready[event.it] += 1


def _exchanges(log: RankLog) -> Iterator[_Logged]:
    """A worker's iterations, each from the begin of its pushes to the end of its pulls."""
    done = {event.it: event.t for event in log.events if event.k == PULL_DONE}
    for event in log.events:
        if event.k == PUSH_BEGINS and log.role == "worker":
            yield _Logged(log.rank, event.it, 0, event.t, done.get(event.it))


_ByPlace = dict[tuple[int, int, int], _Seen]  # by rank, iteration, place


def _places(job: Job) -> tuple[_ByPlace, set[int]]:
    """The allreduces of each iteration in the order of their tags, and their numbers."""
    numbers = [n for n, one in enumerate(job.operations) if one.kind == "allreduce"]
    n_before: defaultdict[int, int] = defaultdict(int)
    places: _ByPlace = {}
    for number in sorted(numbers, key=lambda n: job.operations[n].tag):
        operation, iteration = job.operations[number], job.labels.iterations[number]
        for start in job.starts[number]:
            if start.rank in operation.begun and start.rank in operation.done:
                places[start.rank, iteration, n_before[iteration]] = _Seen(
                    operation.begun[start.rank], operation.done[start.rank], start.computed_ns, start.after
                )
        n_before[iteration] += 1
    return places, set(numbers)


def _pushed(job: Job) -> tuple[_ByPlace, set[int]]:
    """Of each worker and iteration its first push, with the end of its last pull; and the exchanges'
    numbers.
    """
    numbers = [n for n, role in enumerate(job.labels.roles) if role != "other"]
    pushes: dict[tuple[int, int], int] = {}
    pulled_ns: defaultdict[tuple[int, int], int] = defaultdict(int)
    for number in numbers:
        operation, iteration = job.operations[number], job.labels.iterations[number]
        if job.labels.roles[number] == "push":
            key = (operation.src, iteration)
            first = pushes.setdefault(key, number)
            if operation.begun[operation.src] < job.operations[first].begun[operation.src]:
                pushes[key] = number
        else:
            key = (operation.dst, iteration)
            pulled_ns[key] = max(pulled_ns[key], operation.done[operation.dst])
    places: _ByPlace = {}
    for (worker, iteration), number in pushes.items():
        start = job.starts[number][0]
        if (worker, iteration) in pulled_ns:
            begun_ns = job.operations[number].begun[worker]
            done_ns = pulled_ns[worker, iteration]
            places[worker, iteration, 0] = _Seen(begun_ns, done_ns, start.computed_ns, start.after)
    return places, set(numbers)


def _iteration_ns(by_rank: Iterable[Sequence[_Logged]]) -> int:
    """The median time from one iteration's first bucket to the next one's; of a single iteration, how long
    it took.
    """
    steps: list[int] = []
    alone: list[int] = []
    for lines in by_rank:
        first: dict[int, int] = {}
        for line in lines:
            first[line.iteration] = min(first.get(line.iteration, line.ready_ns), line.ready_ns)
            alone.append((line.done_ns or line.ready_ns) - line.ready_ns)
        steps += [later - earlier for earlier, later in pairwise(sorted(first.values()))]
    return int(median(steps or alone or [0]))

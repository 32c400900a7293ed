"""Whether a decoded workload is what the job itself logged: `log.rN.json` against a workload, and against the
times of the job that it was made from.

A log is one rank's own account (docs/schemas.md): of DDP every gradient bucket that was ready, of a parameter
server every push and pull of a worker.  Pure but for reading the logs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from traces.complaints import complaint
from traces.recognition.recognise import Job
from traces.units import show_s
from traces.workload import MAX_NBYTES, MAX_RANKS, Collective, Message, Workload

LOGS = "log.r*.json"
MAX_LOG_NBYTES = 1 << 26
BUCKET_READY = "bucket_ready"
PULL_DONE, PUSH_BEGINS = 5, 6  # a parameter server's worker numbers its events
MAX_TOLD = 5  # differences that are spelled out

Lines = Mapping[str, tuple[int, ...]]  # what is compared, by the words that name it: sizes in bytes


class BadLog(Exception):
    """Ground truth that cannot be used; the text says which file and why."""


class Event(BaseModel):
    """`k` is what happened, in iteration `it` (-1: set-up), at `t` ns since 1970; `n` is its bytes, `b` the
    bucket's index.
    """

    model_config = ConfigDict(frozen=True)
    k: str | int
    it: Annotated[int, Field(ge=-1, lt=1 << 40)]
    t: Annotated[int, Field(ge=0)]
    n: Annotated[int, Field(ge=0, le=MAX_NBYTES)] = 0
    b: Annotated[int, Field(ge=0, lt=1 << 31)] = 0


class RankLog(BaseModel):
    """One rank's log; keys beyond these are the job's own business."""

    model_config = ConfigDict(frozen=True)
    rank: Annotated[int, Field(ge=0, lt=MAX_RANKS)]
    role: Literal["server", "worker"] | None = None
    servers: Annotated[int, Field(ge=1, lt=MAX_RANKS)] = 1
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Check:
    """`n_compared` lines of ground truth, of them `differences` do not agree with the workload."""

    n_compared: int
    nbytes: int
    differences: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences


def read_logs(folder: Path) -> tuple[RankLog, ...]:
    """The logs in a folder by rank, none if there are none.  Raises BadLog."""
    logs = [_read_log(path) for path in sorted(folder.glob(LOGS))]
    ranks = [log.rank for log in logs]
    if len(set(ranks)) < len(ranks):
        raise BadLog(f"{folder}: two of the logs {LOGS} are of one rank")
    return tuple(sorted(logs, key=lambda log: log.rank))


def _read_log(path: Path) -> RankLog:
    if path.stat().st_size > MAX_LOG_NBYTES:
        raise BadLog(f"{path}: too large for a rank's log")
    try:
        return RankLog.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BadLog(f"{path}: no rank's log: {complaint(error)}") from error


def compare(workload: Workload, logs: Sequence[RankLog]) -> Check:
    """Every iteration's buckets, or every worker's pushes and pulls, by their sizes and in their order.

    Raises BadLog when the logs say nothing that could be compared, or contradict each other.
    """
    if any(log.role for log in logs):
        told, found = _told_by_workers(logs), _exchanged(workload)
    else:
        told, found = _told_buckets(logs), _reduced(workload)
    if not told:
        raise BadLog("the job's own logs name no bucket, push or pull: there is nothing to compare with")
    names = [*told, *(name for name in found if name not in told)]
    differences = [_difference(name, told.get(name), found.get(name)) for name in names]
    if logs[-1].rank >= workload.n_ranks:
        differences.insert(0, f"ranks: logs up to rank {logs[-1].rank}, captures of {workload.n_ranks} ranks")
    return Check(
        n_compared=len(told),
        nbytes=sum(map(sum, told.values())),
        differences=tuple(filter(None, differences)),
    )


def _told_buckets(logs: Sequence[RankLog]) -> Lines:
    """Of each iteration, the buckets in the order in which they were ready: the same on every rank."""
    by_rank = {
        log.rank: _by_name(
            (f"iteration {event.it}, buckets", event.n)
            for event in sorted(log.events, key=lambda event: event.t)
            if event.k == BUCKET_READY
        )
        for log in logs
    }
    first = next(iter(by_rank.values()), {})
    for rank, lines in by_rank.items():
        if lines != first:
            raise BadLog(
                f"the logs contradict each other: rank {rank}'s buckets are not rank {logs[0].rank}'s"
            )
    return first


def _reduced(workload: Workload) -> Lines:
    items = [item for item in workload.items if isinstance(item, Collective) and item.kind == "allreduce"]
    return _by_name(
        (f"iteration {item.iteration}, buckets", item.nbytes) for item in sorted(items, key=lambda i: i.tag)
    )


def _told_by_workers(logs: Sequence[RankLog]) -> Lines:
    """Of each worker and iteration, what was pushed to each server, and what was pulled.

    The log has the sum only, the parameters are cut over the servers at n·s/S numbers of four bytes.
    """
    kinds = {PUSH_BEGINS: "push", PULL_DONE: "pull"}
    return _by_name(
        (_exchange(event.it, log.rank, kinds[int(event.k)]), size)
        for log in logs
        if log.role == "worker"
        for event in log.events
        if event.k in kinds
        for size in shares(event.n, log.servers)
    )


def shares(nbytes: int, n_servers: int) -> tuple[int, ...]:
    """How float32 parameters of `nbytes` are cut over the servers."""
    count = nbytes // 4
    cuts = [count * server // n_servers for server in range(n_servers + 1)]
    return tuple(4 * (end - begin) for begin, end in pairwise(cuts))


def _exchanged(workload: Workload) -> Lines:
    """The same of a workload; in the order of the servers' ranks."""
    items = [item for item in workload.items if isinstance(item, Message) and item.iteration >= 0]
    named = []
    for item in items:
        worker, server = (item.src, item.dst) if item.role == "push" else (item.dst, item.src)
        if item.role != "other":
            named.append((server, _exchange(item.iteration, worker, item.role), item.nbytes))
    return _by_name((name, nbytes) for _, name, nbytes in sorted(named, key=lambda line: line[0]))


def _exchange(iteration: int, worker: int, role: str) -> str:
    return f"iteration {iteration}, rank {worker}'s {role}"


def _by_name(lines: Iterable[tuple[str, int]]) -> Lines:
    made: defaultdict[str, list[int]] = defaultdict(list)
    for name, nbytes in lines:
        made[name].append(nbytes)
    return {name: tuple(sizes) for name, sizes in made.items()}


def _difference(name: str, told: tuple[int, ...] | None, found: tuple[int, ...] | None) -> str:
    if told == found:
        return ""
    return f"{name}: logged {_sizes(told)}, in the captures {_sizes(found)}"


def _sizes(sizes: tuple[int, ...] | None) -> str:
    if sizes is None:
        return "none"
    shown = " + ".join(map(str, sizes[:MAX_TOLD]))
    return shown + (f" and {len(sizes) - MAX_TOLD} more" if len(sizes) > MAX_TOLD else "") + " B"


What = Literal["begun", "done", "gap"]
WHATS: tuple[What, ...] = ("begun", "done", "gap")
MIN_LIMIT_NS = 10_000_000  # of the 95th percentile: what a machine shared by all ranks adds by itself
LIMIT_OF_ITERATION = 20  # 5 % of an iteration
BUCKET_DONE = "bucket_done"


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
class Spread:
    """Of `n` errors the 95th percentile (the nearest that there was, from above) and the largest."""

    n: int
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

    def spread(self, what: What) -> Spread | None:
        """None if nothing of the kind could be compared."""
        errors = sorted((e for e in self.errors if e.what == what), key=lambda error: error.error_ns)
        if not errors:
            return None
        nearest = -(-95 * len(errors) // 100) - 1
        return Spread(len(errors), errors[nearest].error_ns, errors[-1])

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
    The compute is not compared after an operation that no log tells of, as DDP's broadcast of buffers.

    Of a parameter server's worker likewise the begin of its pushes and the end of its pulls.  When a push
    was done is not compared: the sender's socket takes the last bytes before the wire does.
    """
    by_server = any(log.role for log in logs)
    logged = [line for log in logs for line in (_exchanges(log) if by_server else _buckets(log))]
    place_of, own = _pushed(job) if by_server else _places(job)
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
            found = _compared(line, seen, earlier, own)
            errors += [TimeError(what, rank, line.iteration, line.place, ns) for what, ns in found]
    return TimeErrors(_iteration_ns(by_rank.values()), tuple(errors), n_absent)


def _compared(
    line: _Logged, seen: _Seen, earlier: Sequence[_Logged], own: set[int]
) -> Iterator[tuple[What, int]]:
    """`own` are the operations that the logs tell of."""
    if line.done_ns is not None:
        yield "done", abs(seen.done_ns - line.done_ns)
    if any(other.done_ns is None or other.done_ns > line.ready_ns for other in earlier):
        return
    yield "begun", abs(seen.begun_ns - line.ready_ns)
    ends = [other.done_ns for other in earlier if other.done_ns is not None]
    if ends and own.issuperset(seen.after):  # else something was waited for that no log tells of
        yield "gap", abs(seen.gap_ns - (line.ready_ns - max(ends)))


def _buckets(log: RankLog) -> Iterator[_Logged]:
    """A rank's buckets, placed in the order in which they were ready, as `_told_buckets` does."""
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
    found: _ByPlace = {}
    for number in sorted(numbers, key=lambda n: job.operations[n].tag):
        operation, iteration = job.operations[number], job.labels.iterations[number]
        for start in job.starts[number]:
            if start.rank in operation.begun and start.rank in operation.done:
                found[start.rank, iteration, n_before[iteration]] = _Seen(
                    operation.begun[start.rank], operation.done[start.rank], start.gap_ns, start.after
                )
        n_before[iteration] += 1
    return found, set(numbers)


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
    found: _ByPlace = {}
    for (worker, iteration), number in pushes.items():
        start = job.starts[number][0]
        if (worker, iteration) in pulled_ns:
            begun_ns = job.operations[number].begun[worker]
            done_ns = pulled_ns[worker, iteration]
            found[worker, iteration, 0] = _Seen(begun_ns, done_ns, start.gap_ns, start.after)
    return found, set(numbers)


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

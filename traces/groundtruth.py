"""Compares a decoded workload with the job's own log (`log.rN.json`).

A log is one rank's own account (docs/schemas.md): of DDP every gradient bucket that was ready, of a parameter
server every push and pull of a worker.  `traces.loggedtimes` compares the times.  Pure but for reading the
logs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from gradwire.traces.complaints import complaint
from gradwire.traces.iterationtimes import FIRST_WARM
from gradwire.traces.units import show_first
from gradwire.traces.workload import MAX_NBYTES, MAX_RANKS, Collective, Message, Workload

LOGS = "log.r*.json"
MAX_LOG_NBYTES = 1 << 26
BUCKET_READY, BUCKET_DONE = "bucket_ready", "bucket_done"
PULL_DONE, PUSH_BEGINS = 5, 6  # a parameter server's worker numbers its events
_BEGINS, _ENDS = (BUCKET_READY, PUSH_BEGINS), (BUCKET_DONE, PULL_DONE)
MOST_SIZES = 5  # of a difference, that are spelled out

Lines = Mapping[str, tuple[int, ...]]  # what is compared, by the words that name it: sizes in bytes


class BadLog(Exception):
    """Ground truth that cannot be used; the text says which file and why."""


class LoggedEvent(BaseModel):
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
    """One rank's log; keys beyond these are the job's own business.

    Workers whose servers are `asynchronous` do not wait for each other; only a worker's log says it.
    `waited` is how long its threads waited for a processor, added up over the threads, as a share of the
    training's time; None where the rank did not measure it, or calls something else by that name.
    """

    model_config = ConfigDict(frozen=True)
    rank: Annotated[int, Field(ge=0, lt=MAX_RANKS)]
    role: Literal["server", "worker"] | None = None
    servers: Annotated[int, Field(ge=1, lt=MAX_RANKS)] = 1
    asynchronous: bool = False
    waited: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    events: tuple[LoggedEvent, ...]

    @field_validator("asynchronous", mode="before")
    @classmethod
    def _is_true(cls, value: object) -> bool:
        """Logs of other people's jobs may have an `asynchronous` of their own."""
        return value is True

    @field_validator("waited", mode="wrap")
    @classmethod
    def _or_none(cls, value: object, validated: ValidatorFunctionWrapHandler) -> float | None:
        """Logs of other people's jobs may have a `waited` of their own: nothing reads it."""
        try:
            share: float | None = validated(value)
        except ValidationError:
            return None
        return share


@dataclass(frozen=True)
class TruthCheck:
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
        raise BadLog(f"{folder}: two of the logs {LOGS} name the same rank")
    return tuple(sorted(logs, key=lambda log: log.rank))


def _read_log(path: Path) -> RankLog:
    if path.stat().st_size > MAX_LOG_NBYTES:
        raise BadLog(f"{path}: it is larger than the {MAX_LOG_NBYTES >> 20} MiB that a rank's log may have")
    try:
        return RankLog.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BadLog(f"{path}: not a rank's log: {complaint(error)}") from error


def computed_s(logs: Sequence[RankLog]) -> float | None:
    """How long a rank computes for an iteration: of each iteration from FIRST_WARM on the slowest rank, for
    which the others wait, or the mean of all ranks if none waits, and of these the median.  None where logs
    do not say.

    That is from when the last bucket of the iteration before is done (`bucket_done`; a worker: all pulled)
    until the last one of this is ready (`bucket_ready`; its push begins).  What moves meanwhile does not hold
    it up, so it is the same on slow links and on fast ones.  What a job sends besides, as DDP does buffers,
    counts as computing.
    """
    by_iteration: defaultdict[int, list[int]] = defaultdict(list)
    for log in logs:
        for iteration, computed_ns in _computed_ns(log).items():
            by_iteration[iteration].append(computed_ns)
    of_ranks = fmean if any(log.asynchronous for log in logs if log.role == "worker") else max
    warm = [of_ranks(each) for iteration, each in by_iteration.items() if iteration >= FIRST_WARM]
    return median(warm) / 1e9 if warm else None


def _computed_ns(log: RankLog) -> dict[int, int]:
    """By iteration, where the one before has an end."""
    begun_ns: dict[int, int] = {}  # the last of each iteration
    ended_ns: dict[int, int] = {}
    for event in log.events:
        moments = begun_ns if event.k in _BEGINS else ended_ns if event.k in _ENDS else None
        if moments is not None:
            moments[event.it] = max(event.t, moments.get(event.it, event.t))
    return {
        iteration: max(0, last_ns - ended_ns[iteration - 1])
        for iteration, last_ns in begun_ns.items()
        if iteration - 1 in ended_ns
    }


def compare(workload: Workload, logs: Sequence[RankLog]) -> TruthCheck:
    """Every iteration's buckets, or every worker's pushes and pulls, by their sizes and in their order.

    Raises BadLog when the logs say nothing that could be compared, or contradict each other.
    """
    if any(log.role for log in logs):
        logged, captured = _worker_lines(logs), _exchanged(workload)
    else:
        logged, captured = _bucket_lines(logs), _reduced(workload)
    if not logged:
        raise BadLog("the job's own logs name no bucket, push or pull: there is nothing to compare with")
    names = [*logged, *(name for name in captured if name not in logged)]
    differences = [_difference(name, logged.get(name), captured.get(name)) for name in names]
    if logs[-1].rank >= workload.n_ranks:
        differences.insert(0, f"ranks: logs up to rank {logs[-1].rank}, captures of {workload.n_ranks} ranks")
    return TruthCheck(
        n_compared=len(logged),
        nbytes=sum(map(sum, logged.values())),
        differences=tuple(filter(None, differences)),
    )


def _bucket_lines(logs: Sequence[RankLog]) -> Lines:
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
                f"the logs contradict each other: rank {rank}'s buckets differ from rank {logs[0].rank}'s"
            )
    return first


def _reduced(workload: Workload) -> Lines:
    items = [item for item in workload.items if isinstance(item, Collective) and item.kind == "allreduce"]
    return _by_name(
        (f"iteration {item.iteration}, buckets", item.nbytes) for item in sorted(items, key=lambda i: i.tag)
    )


def _worker_lines(logs: Sequence[RankLog]) -> Lines:
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
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for name, nbytes in lines:
        sizes[name].append(nbytes)
    return {name: tuple(some) for name, some in sizes.items()}


def _difference(name: str, logged: tuple[int, ...] | None, captured: tuple[int, ...] | None) -> str:
    if logged == captured:
        return ""
    return f"{name}: logged {_sizes(logged)}, in the captures {_sizes(captured)}"


def _sizes(sizes: tuple[int, ...] | None) -> str:
    if sizes is None:
        return "none"
    return f"{show_first(sizes, MOST_SIZES, ' + ')} B"

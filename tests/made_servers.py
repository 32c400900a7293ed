"""Jobs of an asynchronous parameter server: rank 0 serves, the others work."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from gradwire.traces.workload import SCHEMA, Compute, Item, Message, Start, Workload

MS = 1_000_000
NBYTES = 40_000


@dataclass(frozen=True)
class Served:
    """A worker's push with what was computed before it, the server's computing and its answer: item ids."""

    worker: int
    push: int
    answer: int


def first_come_job(
    compute_ms: Sequence[Sequence[int]], served_ms: int, nbytes: int = NBYTES, *, lock: bool = True
) -> tuple[Workload, list[Served]]:
    """Worker w computes `compute_ms[w-1][t]` before its push t, and the server `served_ms` before it answers.

    Without `lock` the server takes pushes whenever they come, as in Hogwild.
    """
    items: list[Item] = []
    served: list[Served] = []
    answer: dict[int, int] = {}
    for iteration in range(max(map(len, compute_ms))):
        for worker, times_ms in enumerate(compute_ms, start=1):
            if iteration >= len(times_ms):
                continue
            first = len(items)
            after = (answer[worker],) if worker in answer else ()
            items += _round(worker, first, after, (times_ms[iteration], served_ms), nbytes, iteration)
            for number in (first + 1, first + 3):
                items[number] = items[number].model_copy(update={"centre": 0, "unordered": not lock})
            if lock:
                items[first + 1] = items[first + 1].model_copy(update={"lock_until": first + 3})
            answer[worker] = first + 3
            served.append(Served(worker, first + 1, first + 3))
    workload = Workload(
        schema=SCHEMA, framing="none", n_ranks=len(compute_ms) + 1, source="made", items=tuple(items)
    )
    return workload, served


def _round(
    worker: int, first: int, after: tuple[int, ...], times_ms: tuple[int, int], nbytes: int, iteration: int
) -> Iterator[Item]:
    compute_ms, served_ms = times_ms
    yield Compute(start=Start(rank=worker, after=after), duration_ns=compute_ms * MS, iteration=iteration)
    yield Message(
        tag=2,
        src=worker,
        dst=0,
        nbytes=nbytes,
        iteration=iteration,
        role="push",
        start=Start(rank=worker, after=(first,)),
    )
    yield Compute(start=Start(rank=0, after=(first + 1,)), duration_ns=served_ms * MS, iteration=iteration)
    yield Message(
        tag=1,
        src=0,
        dst=worker,
        nbytes=nbytes,
        iteration=iteration,
        role="pull",
        start=Start(rank=0, after=(first + 2,)),
        ready=Start(rank=worker, after=(first + 1,)),
    )


def first_come_first_served(
    compute_s: Sequence[Sequence[float]], service_s: float, answer_s: float = 0.0
) -> list[tuple[int, float]]:
    """Who is served, and when it has its answer: one queue and one server (Lindley 1952).

    A worker has its answer `answer_s` after the server has turned to the next one, and its next push comes
    `compute_s` after that.
    """
    left = [list(times) for times in compute_s]
    comes = {worker: times.pop(0) for worker, times in enumerate(left, start=1)}
    free_s, found = 0.0, []
    for _ in range(len(list(chain.from_iterable(compute_s)))):
        worker = min(comes, key=lambda one: comes[one])
        free_s = max(free_s, comes.pop(worker)) + service_s
        found.append((worker, free_s + answer_s))
        if left[worker - 1]:
            comes[worker] = free_s + answer_s + left[worker - 1].pop(0)
    return found

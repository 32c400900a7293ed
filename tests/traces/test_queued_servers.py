"""Parameter servers captured as `capture` does today, with message indexes that say how long packets queued.

A worker hands its two pushes over one right after the other; the second leaves 6 ms later, behind three
packets of the first.  The ranks' logs have when they began to push and when they had pulled, by one clock.
"""

import json
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.analysis.analysis import analyse
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import Job, find_job
from gradwire.traces.recognition.starts import Beginning
from gradwire.traces.trace import Trace

FOLDER = Path(__file__).parents[1] / "captures" / "ps_2srv_4wk_star20M_indexed"
WORKERS = range(2, 6)
STEADY = 2  # the iteration from which on nothing is set up any more
MS = 1_000_000


@cache
def trace() -> Trace:
    return open_trace([FOLDER])


@cache
def job() -> Job:
    return find_job(trace())


def logged(kind: int) -> dict[tuple[int, int], int]:
    """By worker and iteration: 6 is when it began to push, 5 when it had pulled all."""
    return {
        (rank, event["it"]): event["t"]
        for rank in WORKERS
        for event in json.loads((FOLDER / f"log.r{rank}.json").read_bytes())["events"]
        if event["k"] == kind and event["it"] >= STEADY
    }


def pushes(of: Job) -> dict[tuple[int, int], list[tuple[int, Beginning]]]:
    """By worker and iteration: when each push left, and how it began; the first to leave first."""
    found = defaultdict(list)
    for operation, starts, iteration, role in zip(
        of.operations, of.starts, of.labels.iterations, of.labels.roles, strict=True
    ):
        if role == "push" and iteration >= STEADY:
            (own,) = (start for start in starts if start.rank == operation.src)
            found[operation.src, iteration].append((operation.begun[own.rank], own))
    return {place: sorted(some, key=lambda one: one[0]) for place, some in found.items()}


def test_both_pushes_were_written_when_the_worker_began_to_push() -> None:
    began = logged(6)
    assert pushes(job()).keys() == began.keys()
    after_ns = []
    for place, ((left_ns, first), (left_later_ns, second)) in pushes(job()).items():
        assert 0 <= left_ns - first.waited_ns - began[place] <= MS / 2
        assert left_later_ns - began[place] >= 4 * MS
        after_ns.append(left_later_ns - second.waited_ns - began[place])
    assert min(after_ns) > 0
    assert np.median(after_ns) <= MS / 2
    assert max(after_ns) <= 3 * MS  # a worker whose thread waited for a processor


def test_without_what_the_indexes_say_of_queueing_the_second_is_known_as_a_range_that_holds_it() -> None:
    plain = tuple(replace(one, queued_ns=np.full(len(one), -1)) for one in trace().captures)
    ranges = {
        place: some[1][1].readiness
        for place, some in pushes(find_job(replace(trace(), captures=plain))).items()
    }
    for place, (_, (_, second)) in pushes(job()).items():
        known, within = second.readiness, ranges[place]
        assert known is not None and within is not None
        assert known.most_ns - known.least_ns <= MS / 100 < MS / 2 <= within.most_ns - within.least_ns
        assert within.least_ns <= known.least_ns <= within.most_ns


def test_a_worker_has_pulled_when_its_log_says_so() -> None:
    pulled: defaultdict[tuple[int, int], int] = defaultdict(int)
    for operation, iteration, role in zip(
        job().operations, job().labels.iterations, job().labels.roles, strict=True
    ):
        if role == "pull" and iteration >= STEADY:
            pulled[operation.dst, iteration] = max(
                pulled[operation.dst, iteration], operation.done[operation.dst]
            )
    late_ns = [pulled[place] - ns for place, ns in logged(5).items()]
    assert np.percentile(np.abs(late_ns), 95) <= 10 * MS
    assert float(np.median(late_ns)) == pytest.approx(0, abs=MS)


def test_the_iteration_is_that_of_the_logs() -> None:
    began = logged(6)
    times = [began[rank, n + 1] - ns for (rank, n), ns in began.items() if (rank, n + 1) in began]
    found = analyse(job()).shares
    assert found is not None
    assert found.time_ns == pytest.approx(float(np.median(times)), rel=0.02)

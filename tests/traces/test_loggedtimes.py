"""How far a job's times are from its ranks' logs: counted bucket by bucket, and held on stored captures."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from gradwire.emu.project import PROJECT
from gradwire.traces.groundtruth import LoggedEvent, RankLog, read_logs
from gradwire.traces.loggedtimes import TimeError, TimeErrors, What, time_errors
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition import tagged
from gradwire.traces.recognition.iterations import Labels, Role
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.recognise import Job, find_job
from gradwire.traces.recognition.starts import Beginning
from gradwire.traces.trace import Trace

SAMPLES = PROJECT / "traces" / "samples"
MS = 1_000_000


class Bucket(NamedTuple):
    """One rank's times of one bucket, in ms: by its log ready and done; in the job begun, done and gap."""

    ready: int
    logged: int
    begun: int
    done: int
    gap: int = 0
    after: tuple[int, ...] = ()


@cache
def any_job() -> Job:
    """Times are compared without its messages."""
    return find_job(open_trace([SAMPLES / "ddp_gloo_4_resnet18_tso"]))


def job_of(operations: Sequence[Operation], iterations: Sequence[int], starts: Sequence[Beginning]) -> Job:
    roles: list[Role] = ["other"] * len(operations)
    if operations[0].kind == "message":
        roles = ["push" if one.src == 1 else "pull" for one in operations]
    return replace(
        any_job(),
        operations=tuple(operations),
        labels=Labels(tuple(iterations), tuple(roles), ()),
        starts=tuple((start,) for start in starts),
    )


def allreduce(tag: int, begun: int, done: int) -> Operation:
    return Operation("allreduce", "allreduce", tag, 40, 0, 0, {0: begun * MS}, {0: done * MS})


def made_up(*iterations: tuple[Bucket, ...]) -> TimeErrors:
    """Of one rank."""
    events: list[LoggedEvent] = []
    operations: list[Operation] = []
    starts: list[Beginning] = []
    labels: list[int] = []
    for iteration, buckets in enumerate(iterations):
        for b, bucket in enumerate(buckets):
            events.append(LoggedEvent(k="bucket_ready", it=iteration, t=bucket.ready * MS, n=40, b=b))
            events.append(LoggedEvent(k="bucket_done", it=iteration, t=bucket.logged * MS, b=b))
            operations.append(allreduce(len(operations), bucket.begun, bucket.done))
            starts.append(Beginning(rank=0, after=bucket.after, gap_ns=bucket.gap * MS))
            labels.append(iteration)
    return time_errors(job_of(operations, labels, starts), [RankLog(rank=0, events=tuple(events))])


def off(errors: TimeErrors, what: What) -> list[int]:
    """The errors of a kind in ms, in the order of the log."""
    return [error.error_ns // MS for error in errors.errors if error.what == what]


STEADY = (  # 100 ms each: 60 of compute, 40 of communication; seen 1 ms late, done 2 ms early
    (Bucket(60, 100, 61, 98),),
    (Bucket(160, 200, 161, 198, gap=63, after=(0,)),),
    (Bucket(260, 300, 261, 298, gap=63, after=(1,)),),
)


def test_times_are_compared_bucket_by_bucket() -> None:
    errors = made_up(*STEADY)
    assert (off(errors, "begun"), off(errors, "done"), off(errors, "gap")) == ([1] * 3, [2] * 3, [3] * 2)
    assert errors.iteration_ns == 100 * MS
    assert errors.limit_ns == 10 * MS
    assert errors.agrees


def test_a_dependency_on_the_iteration_before_the_last_is_a_difference() -> None:
    """The old rule's fault: an operation that was done a little late is not waited for."""
    wrong = Bucket(260, 300, 261, 298, gap=163, after=(0,))
    errors = made_up(*STEADY[:2], (wrong,))
    assert off(errors, "gap") == [3, 103]
    assert not errors.agrees
    assert (
        "gap: iteration 2, rank 0's bucket 0 is 103 ms off, of an iteration of 100 ms" in errors.differences
    )


def test_done_when_the_last_byte_left_a_slow_interface_is_a_difference() -> None:
    late = [
        (Bucket(60 + t, 100 + t, 61 + t, 112 + t, 48, (t // 100 - 1,) if t else ()),) for t in (0, 100, 200)
    ]
    assert made_up(*late).differences == (
        "done: 5 % of 3 are more than 12 ms off, at most 10 ms may be",
        "gap: 5 % of 2 are more than 12 ms off, at most 10 ms may be",
    )


def test_a_bucket_that_another_was_ahead_of_is_judged_by_its_end_alone() -> None:
    """It is ready at 70 while the first is in flight until 100, and begins when that is done."""
    two = (Bucket(60, 100, 60, 100), Bucket(70, 130, 100, 130, gap=0, after=(0,)))
    errors = made_up(two)
    assert off(errors, "begun") == [0]
    assert off(errors, "done") == [0, 0]
    assert off(errors, "gap") == []


def test_buckets_that_are_done_in_another_order_are_told_apart_by_their_index() -> None:
    assert off(made_up((Bucket(60, 120, 60, 120), Bucket(70, 110, 70, 110))), "done") == [0, 0]


def test_compute_after_what_no_log_tells_of_is_not_compared() -> None:
    broadcast = Operation("broadcast", "broadcast", 9, 8, 0, 0, {0: 150 * MS}, {0: 155 * MS})
    operations = [allreduce(0, 60, 100), broadcast, allreduce(10, 160, 200)]
    starts = [Beginning(rank=0), Beginning(rank=0), Beginning(rank=0, after=(1,), gap_ns=5 * MS)]
    ready = [LoggedEvent(k="bucket_ready", it=i, t=t * MS, n=40) for i, t in enumerate((60, 160))]
    done = [LoggedEvent(k="bucket_done", it=i, t=t * MS) for i, t in enumerate((100, 200))]
    errors = time_errors(job_of(operations, (0, 1, 1), starts), [RankLog(rank=0, events=(*ready, *done))])
    assert off(errors, "begun") == off(errors, "done") == [0, 0]
    assert off(errors, "gap") == []


def test_a_logged_bucket_without_an_operation_is_a_difference() -> None:
    [lonely] = [LoggedEvent(k="bucket_ready", it=7, t=1, n=40)]
    job = job_of([allreduce(0, 60, 100)], (0,), [Beginning(rank=0)])
    errors = time_errors(job, [RankLog(rank=0, events=(lonely,))])
    assert errors.differences == ("1 logged times have no operation",)
    assert errors.agrees is False


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        ([1] * 95 + [49] * 5, []),  # a rank waits for a processor now and then
        ([1] * 94 + [51] * 6, ["gap: 5 % of 100 are 51 ms off or more, at most 50 ms may be"]),
        ([1] * 50 + [11] * 50, []),
        ([1] * 49 + [11] * 51, ["gap: 50 % of 100 are 11 ms off or more, at most 10 ms may be"]),
    ],
)
def test_a_fault_is_what_a_busy_machine_does_not_explain(ms: list[int], said: list[str]) -> None:
    """Of iterations of 100 ms."""
    errors = tuple(TimeError("gap", 0, i, 0, each * MS) for i, each in enumerate(ms))
    assert list(TimeErrors(100 * MS, errors, 0).faults) == said


def test_without_times_nothing_is_judged() -> None:
    errors = time_errors(
        job_of([allreduce(0, 60, 100)], (0,), [Beginning(rank=0)]), [RankLog(rank=0, events=())]
    )
    assert errors.agrees is None


@pytest.mark.parametrize(("n", "p95"), [(1, 1), (19, 19), (20, 19), (21, 20), (100, 95)])
def test_95_percent_of_the_errors_are_not_larger_than_p95(n: int, p95: int) -> None:
    errors = tuple(TimeError("done", 0, i, 0, i + 1) for i in range(n))
    spread = TimeErrors(10, errors, 0).spread("done")
    assert spread is not None
    assert (spread.n, spread.p95_ns, spread.largest.error_ns) == (n, p95, n)


def test_a_workers_first_push_and_last_pull_are_compared() -> None:
    """Worker 1 of servers 0 and 2: pushes at 60 and 61, pulls that end at 90 and 94."""
    events: list[LoggedEvent] = []
    operations: list[Operation] = []
    starts: list[Beginning] = []
    labels: list[int] = []
    for iteration, t in enumerate((0, 100)):
        for server, begun, done, is_push in (
            (0, 60, 70, True),
            (2, 61, 71, True),
            (0, 80, 90, False),
            (2, 80, 94, False),
        ):
            src, dst = (1, server) if is_push else (server, 1)
            times = {src: (begun + t) * MS}, {src: (done + t) * MS, dst: (done + t) * MS}
            operations.append(Operation("message", "send", 0, 8, src, dst, *times))
            gap, after = (70, (2, 3)) if iteration and is_push else (0, ())
            starts.append(Beginning(rank=src, after=after, gap_ns=gap * MS))
            labels.append(iteration)
        events += [
            LoggedEvent(k=6, it=iteration, t=(58 + t) * MS, n=16),
            LoggedEvent(k=5, it=iteration, t=(95 + t) * MS, n=16),
        ]
    log = RankLog(rank=1, role="worker", servers=2, events=tuple(events))
    silent = RankLog(rank=0, role="server", servers=2, events=())
    errors = time_errors(job_of(operations, labels, starts), [silent, log])
    assert (off(errors, "begun"), off(errors, "done"), off(errors, "gap")) == ([2, 2], [1, 1], [7])


CAPTURES = PROJECT / "tests" / "captures"
LEAF_SPINE = SAMPLES / "slow_ddp_8_mlp_leafspine50M"
SLOW = (  # captured on links that bound the job; with how many times of each kind are compared
    (LEAF_SPINE, {"begun": 96, "done": 96, "gap": 88}),
    (SAMPLES / "slow_ddp_8_mlp_star100M", {"begun": 96, "done": 96, "gap": 88}),
    (SAMPLES / "slow_ps_2srv_4wk_star20M", {"begun": 48, "done": 48, "gap": 44}),
    (CAPTURES / "slow_ddp_8_mlp_star20M", {"begun": 40, "done": 40, "gap": 32}),
    (
        CAPTURES / "slow_ddp_4_resnet18_star200M",
        {"begun": 8, "done": 16, "gap": 0},
    ),  # a broadcast before each
)


@cache
def read(folder: Path) -> Trace:
    return open_trace([folder])


@cache
def stored(folder: Path) -> TimeErrors:
    return time_errors(find_job(read(folder)), read_logs(folder))


@pytest.mark.broad(3)
@pytest.mark.parametrize(("folder", "counts"), SLOW, ids=[folder.name for folder, _ in SLOW])
def test_times_of_jobs_that_links_bound_are_those_that_the_ranks_logged(
    folder: Path, counts: dict[What, int]
) -> None:
    errors = stored(folder)
    assert errors.differences == ()
    assert {what: sum(e.what == what for e in errors.errors) for what in counts} == counts


def test_the_end_of_a_bucket_is_late_by_the_old_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send was once done when its last byte had left the interface, not when the socket had taken it: at
    the ranks that send through the slow uplink a millisecond later.
    """

    def median_done_ns(errors: TimeErrors, rank: int) -> float:
        return median(e.error_ns for e in errors.errors if (e.what, e.rank) == ("done", rank))

    new = [median_done_ns(stored(LEAF_SPINE), rank) for rank in range(8)]
    monkeypatch.setattr(tagged, "handed_over_ns", lambda messages: messages.last_ns)
    old = [median_done_ns(stored.__wrapped__(LEAF_SPINE), rank) for rank in range(8)]
    assert max(new) < 0.7 * MS
    assert max(old) > 1.1 * MS


@pytest.mark.parametrize("name", ["ps_1srv_4wk"])
def test_a_real_jobs_times_are_compared_with_its_logs(name: str) -> None:
    logs = read_logs(SAMPLES / name)
    errors = time_errors(find_job(open_trace([SAMPLES / name])), logs)
    assert errors.n_absent == 0
    assert {error.rank for error in errors.errors} == {log.rank for log in logs if log.role == "worker"}

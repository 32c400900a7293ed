"""The check of a workload against the job's own logs: that it agrees on real jobs, and that it can fail."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emu.project import PROJECT
from traces.groundtruth import (
    BadLog,
    Event,
    RankLog,
    TimeError,
    TimeErrors,
    What,
    compare,
    read_logs,
    shares,
    time_errors,
)
from traces.opening import open_trace
from traces.recognition.iterations import Labels, Role
from traces.recognition.operation import Operation
from traces.recognition.recognise import Job, find_job, recognise
from traces.recognition.starts import Beginning
from traces.workload import SCHEMA, Collective, Item, Message, Start, Workload

SAMPLES = PROJECT / "traces" / "samples"
MLP_NBYTES = 4 * 85_002  # float32


@pytest.mark.parametrize(
    ("name", "n_compared", "nbytes"),
    [
        ("ddp_gloo_8", 3, 3 * MLP_NBYTES),
        ("ddp_gloo_8_gpt_tso", 2, 2 * 4 * 13_842_432),
        ("ps_1srv_4wk", 3 * 4 * 2, 3 * 4 * 2 * MLP_NBYTES),  # iterations, workers, a push and a pull
    ],
)
def test_a_real_jobs_capture_agrees_with_its_own_logs(name: str, n_compared: int, nbytes: int) -> None:
    check = compare(recognise(open_trace([SAMPLES / name])), read_logs(SAMPLES / name))
    assert check.differences == ()
    assert check.agrees
    assert (check.n_compared, check.nbytes) == (n_compared, nbytes)


def allreduces(*iterations: tuple[int, ...]) -> Workload:
    """Of two ranks; the buckets of each iteration."""
    items: list[Item] = []
    for number, sizes in enumerate(iterations):
        items += [
            Collective(kind="allreduce", tag=len(items) + i, nbytes=size, iteration=number)
            for i, size in enumerate(sizes)
        ]
    return Workload(schema=SCHEMA, framing="gloo", n_ranks=2, items=tuple(items))


def bucket_logs(*iterations: tuple[int, ...], n_ranks: int = 2) -> tuple[RankLog, ...]:
    events = [
        Event(k="bucket_ready", it=number, t=1000 * number + i, n=size)
        for number, sizes in enumerate(iterations)
        for i, size in enumerate(sizes)
    ]
    return tuple(RankLog(rank=rank, events=tuple(events)) for rank in range(n_ranks))


def test_equal_buckets_agree() -> None:
    check = compare(allreduces((40,), (16, 24)), bucket_logs((40,), (16, 24)))
    assert (check.agrees, check.n_compared, check.nbytes) == (True, 2, 80)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (((40,), (16, 20)), "iteration 1, buckets: logged 16 + 24 B, in the captures 16 + 20 B"),
        (((40,), (24, 16)), "iteration 1, buckets: logged 16 + 24 B, in the captures 24 + 16 B"),
        (((40,), (40,)), "iteration 1, buckets: logged 16 + 24 B, in the captures 40 B"),
        (((40,),), "iteration 1, buckets: logged 16 + 24 B, in the captures none B"),
        (((40,), (16, 24), (40,)), "iteration 2, buckets: logged none B, in the captures 40 B"),
    ],
)
def test_every_difference_is_named(found: tuple[tuple[int, ...], ...], said: str) -> None:
    check = compare(allreduces(*found), bucket_logs((40,), (16, 24)))
    assert not check.agrees
    assert check.differences == (said.replace("none B", "none"),)


def test_a_rank_that_the_captures_lack_is_a_difference() -> None:
    check = compare(allreduces((40,)), bucket_logs((40,), n_ranks=3))
    assert check.differences == ("ranks: logs up to rank 2, captures of 2 ranks",)


def exchange(worker: int, server: int, role: str, nbytes: int) -> Message:
    src, dst = (worker, server) if role == "push" else (server, worker)
    return Message.model_validate(
        {"src": src, "dst": dst, "nbytes": nbytes, "role": role, "start": Start(rank=src)}
    )


def test_a_push_that_went_to_one_server_only_is_a_difference() -> None:
    """28 bytes are 7 numbers: 3 for the first server, 4 for the second."""
    log = RankLog(
        rank=2,
        role="worker",
        servers=2,
        events=(Event(k=6, it=0, t=1, n=28), Event(k=5, it=0, t=2, n=28)),
    )
    items = [exchange(2, server, role, n) for role in ("push", "pull") for server, n in ((0, 12), (1, 16))]
    whole = Workload(schema=SCHEMA, framing="gloo", n_ranks=3, items=tuple(items))
    assert compare(whole, [log]).agrees
    lacking = whole.model_copy(update={"items": tuple(items[1:])})
    assert compare(lacking, [log]).differences == (
        "iteration 0, rank 2's push: logged 12 + 16 B, in the captures 16 B",
    )


@pytest.mark.parametrize(("n_numbers", "n_servers"), [(85_002, 2), (7, 3), (2, 5), (0, 1)])
def test_the_servers_shares_are_all_and_differ_by_one_number_at_most(n_numbers: int, n_servers: int) -> None:
    made = shares(4 * n_numbers, n_servers)
    assert sum(made) == 4 * n_numbers
    assert max(made) - min(made) in {0, 4}


def test_logs_that_contradict_each_other_are_no_ground_truth() -> None:
    logs = [bucket_logs((40,))[0], bucket_logs((36,))[1]]
    with pytest.raises(BadLog, match="rank 1's buckets are not rank 0's"):
        compare(allreduces((40,)), logs)


def test_logs_without_a_bucket_are_no_ground_truth() -> None:
    with pytest.raises(BadLog, match="nothing to compare with"):
        compare(allreduces((40,)), [RankLog(rank=0, events=())])


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"rank": 0, "events": [{"k": "bucket_ready", "it": 0, "t": 1, "n": 2**63}]},
        {"rank": -1, "events": []},
        {"rank": 0, "servers": 0, "events": []},
        {"rank": 0, "events": [{"k": "x", "it": -2, "t": 1}]},
        [],
    ],
)
def test_a_log_with_impossible_values_is_refused_by_its_name(tmp_path: Path, value: Any) -> None:
    (tmp_path / "log.r0.json").write_text(json.dumps(value))
    with pytest.raises(BadLog, match=r"log\.r0\.json"):
        read_logs(tmp_path)


def test_two_logs_of_one_rank_are_refused(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / f"log.r{number}.json").write_text(json.dumps({"rank": 0, "events": []}))
    with pytest.raises(BadLog, match="of one rank"):
        read_logs(tmp_path)


def test_a_folder_without_logs_has_none(tmp_path: Path) -> None:
    assert read_logs(tmp_path) == ()


MS = 1_000_000


class Bucket(NamedTuple):
    """One rank's times of one bucket, in ms: by its log ready and done; in the job begun, done and gap."""

    ready: int
    logged: int
    begun: int
    done: int
    gap: int = 0
    after: tuple[int, ...] = ()


def job_of(operations: Sequence[Operation], iterations: Sequence[int], starts: Sequence[Beginning]) -> Job:
    roles: list[Role] = ["other"] * len(operations)
    if operations[0].kind == "message":
        roles = ["push" if one.src == 1 else "pull" for one in operations]
    trace = open_trace([SAMPLES / "ddp_gloo_4_resnet18_tso"])  # any: times are compared without it
    return replace(
        find_job(trace),
        operations=tuple(operations),
        labels=Labels(tuple(iterations), tuple(roles), ()),
        starts=tuple((start,) for start in starts),
    )


def allreduce(tag: int, begun: int, done: int) -> Operation:
    return Operation("allreduce", "allreduce", tag, 40, 0, 0, {0: begun * MS}, {0: done * MS})


def made_up(*iterations: tuple[Bucket, ...]) -> TimeErrors:
    """Of one rank."""
    events: list[Event] = []
    operations: list[Operation] = []
    starts: list[Beginning] = []
    labels: list[int] = []
    for iteration, buckets in enumerate(iterations):
        for b, bucket in enumerate(buckets):
            events.append(Event(k="bucket_ready", it=iteration, t=bucket.ready * MS, n=40, b=b))
            events.append(Event(k="bucket_done", it=iteration, t=bucket.logged * MS, b=b))
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
    ready = [Event(k="bucket_ready", it=i, t=t * MS, n=40) for i, t in enumerate((60, 160))]
    done = [Event(k="bucket_done", it=i, t=t * MS) for i, t in enumerate((100, 200))]
    errors = time_errors(job_of(operations, (0, 1, 1), starts), [RankLog(rank=0, events=(*ready, *done))])
    assert off(errors, "begun") == off(errors, "done") == [0, 0]
    assert off(errors, "gap") == []


def test_a_logged_bucket_without_an_operation_is_a_difference() -> None:
    [lonely] = [Event(k="bucket_ready", it=7, t=1, n=40)]
    job = job_of([allreduce(0, 60, 100)], (0,), [Beginning(rank=0)])
    errors = time_errors(job, [RankLog(rank=0, events=(lonely,))])
    assert errors.differences == ("1 logged times have no operation",)
    assert errors.agrees is False


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
    events: list[Event] = []
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
            Event(k=6, it=iteration, t=(58 + t) * MS, n=16),
            Event(k=5, it=iteration, t=(95 + t) * MS, n=16),
        ]
    log = RankLog(rank=1, role="worker", servers=2, events=tuple(events))
    silent = RankLog(rank=0, role="server", servers=2, events=())
    errors = time_errors(job_of(operations, labels, starts), [silent, log])
    assert (off(errors, "begun"), off(errors, "done"), off(errors, "gap")) == ([2, 2], [1, 1], [7])


@pytest.mark.parametrize("name", ["ps_1srv_4wk"])
def test_a_real_jobs_times_are_compared_with_its_logs(name: str) -> None:
    logs = read_logs(SAMPLES / name)
    errors = time_errors(find_job(open_trace([SAMPLES / name])), logs)
    assert errors.n_absent == 0
    assert {error.rank for error in errors.errors} == {log.rank for log in logs if log.role == "worker"}

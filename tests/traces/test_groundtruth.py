"""The check of a workload against the job's own logs: that it agrees on real jobs, and that it can fail."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.project import PROJECT
from gradwire.traces.groundtruth import (
    PULL_DONE,
    PUSH_BEGINS,
    BadLog,
    LoggedEvent,
    RankLog,
    compare,
    computed_s,
    read_logs,
    shares,
)
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import SCHEMA, Collective, Item, Message, Start, Workload

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
        LoggedEvent(k="bucket_ready", it=number, t=1000 * number + i, n=size)
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
        events=(LoggedEvent(k=6, it=0, t=1, n=28), LoggedEvent(k=5, it=0, t=2, n=28)),
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


@pytest.mark.parametrize(
    ("waited", "read"), [("0.125", 0.125), ("-1", None), ('"3 ms"', None), ("[1]", None), ("null", None)]
)
def test_what_another_job_calls_waited_is_its_own_business(
    waited: str, read: float | None, tmp_path: Path
) -> None:
    (tmp_path / "log.r0.json").write_text(f'{{"rank": 0, "waited": {waited}, "events": []}}')
    (log,) = read_logs(tmp_path)
    assert log.waited == read


def test_logs_that_contradict_each_other_are_no_ground_truth() -> None:
    logs = [bucket_logs((40,))[0], bucket_logs((36,))[1]]
    with pytest.raises(BadLog, match="rank 1's buckets differ from rank 0's"):
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
    with pytest.raises(BadLog, match="name the same rank"):
        read_logs(tmp_path)


def test_a_folder_without_logs_has_none(tmp_path: Path) -> None:
    assert read_logs(tmp_path) == ()


def buckets(it: int, *moves: tuple[int, int]) -> list[LoggedEvent]:
    """Each bucket from when it is ready until it is done."""
    return [
        LoggedEvent(k=kind, it=it, t=t_ns, b=bucket)
        for bucket, move in enumerate(moves)
        for kind, t_ns in zip(("bucket_ready", "bucket_done"), move, strict=True)
    ]


def test_an_iteration_computes_until_the_last_bucket_of_its_slowest_rank_is_ready() -> None:
    """The second bucket is computed while the first moves; iterations 0 and 1 do not count."""
    logs = []
    for rank, longer_ns in ((0, 0), (1, 500)):
        events = []
        for it, computed_ns in enumerate((9_000, 9_000, 1_000, 2_000, 4_000)):
            ready_ns = it * 100_000 + computed_ns + longer_ns
            events += buckets(it, (ready_ns, it * 100_000 + 90_000), (ready_ns + 30_000, (it + 1) * 100_000))
        logs.append(RankLog(rank=rank, events=tuple(events)))
    assert computed_s(logs) == 32.5e-6


@pytest.mark.parametrize("moving_ns", [10, 20, 500])
def test_what_is_computed_does_not_depend_on_how_long_buckets_move(moving_ns: int) -> None:
    """Two buckets, ready after 15 and 60 ns: the first hides all of the second, or some, or nothing."""
    events, now_ns = [], 0
    for it in range(4):
        first, second = now_ns + 15, now_ns + 60
        done_ns = max(second, first + moving_ns) + moving_ns
        events += buckets(it, (first, first + moving_ns), (second, done_ns))
        now_ns = done_ns
    assert computed_s([RankLog(rank=0, events=tuple(events))]) == 60e-9


@pytest.mark.parametrize("kinds", [("iter0",), ("iter0", "bucket_ready")])
def test_logs_without_ends_do_not_say_what_is_computed(kinds: tuple[str, ...]) -> None:
    """A program of one's own may log no more than when its iterations begin and its buckets are ready."""
    events = [LoggedEvent(k=kind, it=it, t=it * 100 + 5, b=0) for it in range(5) for kind in kinds]
    assert computed_s([RankLog(rank=0, events=tuple(events))]) is None


@pytest.mark.parametrize(("asynchronous", "computed_ns"), [(False, 50), (True, 40)])
def test_a_worker_computes_until_it_begins_to_push(asynchronous: bool, computed_ns: int) -> None:
    """Workers take 30 and 50 ns; where they do not wait for each other, their mean counts."""
    logs = [RankLog(rank=0, role="server", events=())]
    for rank, after_ns in ((1, 30), (2, 50)):
        events = []
        for it in range(5):
            events.append(LoggedEvent(k=PUSH_BEGINS, it=it, t=it * 1_000 + after_ns))
            events.append(LoggedEvent(k=PULL_DONE, it=it, t=(it + 1) * 1_000))
        logs.append(RankLog(rank=rank, role="worker", asynchronous=asynchronous, events=tuple(events)))
    assert computed_s(logs) == computed_ns / 1e9

"""Iteration times, start to start: from logs, with the warm-up left out."""

from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from gradwire.traces.groundtruth import LoggedEvent, RankLog, read_logs
from gradwire.traces.iterationtimes import (
    FIRST_WARM,
    IterationTime,
    iteration_times_s,
    logged_starts,
    together,
)

MS = 1_000_000
SAMPLES = PROJECT / "traces" / "samples"


def log(rank: int, starts_ns: list[int], kind: str | int = "iter0") -> RankLog:
    events = [LoggedEvent(k=kind, it=number, t=t_ns) for number, t_ns in enumerate(starts_ns)]
    return RankLog(rank=rank, events=(LoggedEvent(k="ddp1", it=-1, t=0), *events))


def test_an_iteration_lasts_from_start_to_start_in_the_mean_of_the_ranks() -> None:
    logs = [log(0, [0, 50 * MS, 60 * MS, 70 * MS, 90 * MS]), log(1, [0, 50 * MS, 62 * MS, 70 * MS, 92 * MS])]
    times_s = iteration_times_s(logged_starts(logs), FIRST_WARM)
    assert times_s == pytest.approx([0.009, 0.021])  # (10 + 8) / 2 and (20 + 22) / 2 ms


def test_an_iteration_that_a_rank_never_began_is_left_out() -> None:
    logs = [log(0, [0, 10, 20, 30, 40]), log(1, [0, 10, 20, 30])]
    assert len(iteration_times_s(logged_starts(logs), FIRST_WARM)) == 1


def test_servers_log_no_iterations_and_workers_number_their_events() -> None:
    logs = [RankLog(rank=0, role="server", events=()), log(1, [0, 10, 20, 30], kind=1)]
    assert list(logged_starts(logs)) == [1]


def test_a_rank_that_goes_back_in_time_is_refused() -> None:
    with pytest.raises(ValueError, match="iteration 3 begins before iteration 2"):
        iteration_times_s(logged_starts([log(0, [0, 10, 20, 15])]), FIRST_WARM)


def test_no_logs_give_no_time() -> None:
    assert iteration_times_s({}, FIRST_WARM) == ()


def test_the_median_and_its_spread() -> None:
    time = IterationTime.of([float(value) for value in range(11)])  # percentiles of 0..10: 1 and 9
    assert (time.median, time.low, time.high, time.n) == (5.0, 1.0, 9.0, 11)
    assert time.spread == pytest.approx(0.8)


@pytest.mark.parametrize("folder", [SAMPLES / "ddp_gloo_8", SAMPLES / "ps_1srv_4wk"])
def test_a_real_jobs_logs_have_iterations(folder: Path) -> None:
    """The sum of start-to-start times is what lies between the first and the last start."""
    starts = logged_starts(read_logs(folder))
    assert starts
    times_s = iteration_times_s(starts, 0)
    spans_s = [(max(of_rank.values()) - min(of_rank.values())) / 1e9 for of_rank in starts.values()]
    assert sum(times_s) == pytest.approx(sum(spans_s) / len(spans_s))


def test_jobs_beside_each_other_count_only_while_all_of_them_train() -> None:
    """The first trains from 0 to 900 ms, the second, whose iterations take 50 ms, from 250 to 700."""
    first = {0: {number: 100 * number * MS for number in range(10)}}
    second = {0: {number: (250 + 50 * number) * MS for number in range(10)}}
    one, other = together([first, second])
    assert list(one[0].values()) == [
        400 * MS,
        500 * MS,
        600 * MS,
        700 * MS,
    ]  # from the second's iteration 2 on
    assert list(other[0].values()) == [(350 + 50 * number) * MS for number in range(8)]
    assert iteration_times_s(one, FIRST_WARM) == pytest.approx((0.1, 0.1, 0.1))


def test_a_job_alone_keeps_all_its_iterations_and_one_that_was_over_before_gives_none() -> None:
    alone = {0: {number: 100 * number * MS for number in range(10)}}
    assert together([alone]) == [alone]
    later = {0: {number: 10_000 * MS + number for number in range(10)}}
    assert [iteration_times_s(each, FIRST_WARM) for each in together([alone, later])] == [(), ()]
    assert together([alone, {}]) == [alone, {}]

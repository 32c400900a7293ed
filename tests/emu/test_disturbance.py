"""Each thing that a machine can do to a repeat is noticed, and nothing else is."""

from collections.abc import Sequence

import pytest

from gradwire.emu.disturbance import (
    Reason,
    disturbances,
    lateness,
    of_each_kind,
    on_machine,
    taken_away,
)
from gradwire.emu.otherprograms import Use

Floats = Sequence[float]
QUIET = {
    "time_s": 1.0,
    "cpu_idle": 0.5,
    "cpu_stolen": 0.02,
    "stall_s": 0.01,
    "softnet_dropped": 0,
}


def taken(
    time_s: float, lost_s: Floats, delay_s: Floats, cpu_s: Floats, stopped_s: Floats
) -> tuple[Reason, ...]:
    """The last three by rank, from 0."""
    delays, ran, stopped = (dict(enumerate(each)) for each in (delay_s, cpu_s, stopped_s))
    return taken_away(time_s, lost_s, delays, ran, stopped)


def test_a_quiet_repeat_is_not_disturbed() -> None:
    assert disturbances(**QUIET) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "value", "reason"),
    [
        ("cpu_idle", 0.1, "CPU idle only 10%"),
        ("cpu_stolen", 0.31, "31% of the CPUs went to other guests"),
        ("stall_s", 0.149, "stalled for 149 ms"),
        ("softnet_dropped", 2, "receive queues: 2"),
    ],
)
def test_each_disturbance_is_named_alone(what: str, value: float, reason: str) -> None:
    (said,) = disturbances(**{**QUIET, what: value})  # type: ignore[arg-type]
    assert reason in str(said)


def test_ranks_that_start_or_end_computing_late_are_noticed() -> None:
    assert lateness(1.0, start_skew_s=0.005, gap_lateness_s=0.001) == ()
    assert [str(each) for each in lateness(1.0, 0.03, 0.04)] == [
        "ranks started up to 30 ms late",
        "computing ended up to 40 ms late",
    ]
    assert lateness(2.0, 0.03, 0.03) == ()


def test_what_is_late_counts_in_proportion_to_the_time() -> None:
    assert disturbances(**{**QUIET, "stall_s": 0.05})  # type: ignore[arg-type]
    assert not disturbances(**{**QUIET, "stall_s": 0.05, "time_s": 5.0})  # type: ignore[arg-type]


def test_of_one_kind_of_reason_one_is_told_with_the_span_of_its_figures() -> None:
    busy = "CPU idle only {}%: use a lower rate or fewer hosts"
    late = Reason("ranks started up to {} ms late", (30,))
    idle = [Reason(busy, (share,)) for share in (12, 3, 7)]
    assert of_each_kind([idle[0], late, *idle[1:], late]) == [busy.format("3 to 12"), str(late)]


def test_words_of_a_file_are_no_format() -> None:
    hostile = Reason("{:999999999} {} {0.__class__}", (1, 2))
    assert str(hostile) == "{:999999999} 1 {0.__class__}2"
    assert of_each_kind([hostile, Reason(hostile.words, (3,))]) == ["{:999999999} 1 to 3 {0.__class__}"]


def test_what_others_took_of_a_processor_counts_beyond_what_quiet_repeats_lose() -> None:
    assert taken(1.0, (0.0, 0.0599), (0.02, 0.02), (0.1, 0.1), (0.0, 0.0)) == ()
    assert len(taken(1.0, (0.0, 0.0601), (0.02, 0.02), (0.1, 0.1), (0.0, 0.0))) == 1
    (reason,) = taken(0.4, (0.0, 0.148), (0.02, 0.02), (0.1, 0.1), (0.0, 0.0))
    assert str(reason) == "processor 1 lost 37% of the time to real-time programs or other guests"
    assert taken(0.004, (0.0009,), (), (), ()) == ()  # an interrupt


def test_a_repeat_in_which_nobody_could_watch_the_processors_is_not_believed() -> None:
    (reason,) = taken(1.0, (), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    assert "real-time priority was refused" in str(reason)


def test_ranks_keep_their_numbers_where_only_some_are_on_a_machine() -> None:
    (reason,) = taken_away(1.0, (0.0,), {3: 0.03, 9: 0.1, 11: 0.03}, {3: 0.1, 9: 0.1, 11: 0.1}, {3: 0.0})
    assert str(reason) == "rank 9 waited 70 ms longer for a processor than the others"
    assert str(on_machine("left", reason)) == f"machine left: {reason}"


def test_a_stopped_rank_is_named() -> None:
    (reason,) = taken(1.4, (0.0,), (0.0, 0.0, 0.0), (0.1, 0.1, 0.1), (0.0, 0.0, 0.104))
    assert str(reason) == "rank 2 was stopped for about 104 ms"


def test_a_rank_that_waits_for_a_processor_counts_only_if_the_others_do_not() -> None:
    assert taken(1.0, (0.0,), (0.28, 0.3, 0.27, 0.31), (0.1, 0.1, 0.1, 0.1), ()) == ()
    (reason,) = taken(1.0, (0.0,), (0.03, 0.1, 0.03, 0.04), (0.1, 0.1, 0.1, 0.1), ())
    assert str(reason) == "rank 1 waited 65 ms longer for a processor than the others"


def test_a_rank_that_runs_longer_may_wait_as_much_longer() -> None:
    """A server of four workers, with what one of eight has of both; and one that waits beyond that."""
    cpu_s = (0.03, 0.03, 0.03, 0.03, 0.15)
    assert taken(1.0, (0.0,), (0.04, 0.05, 0.04, 0.05, 0.24), cpu_s, ()) == ()
    (reason,) = taken(1.0, (0.0,), (0.04, 0.04, 0.04, 0.04, 0.3), cpu_s, ())
    assert str(reason) == "rank 4 waited 100 ms longer for a processor than the others"


def test_a_worker_that_waits_alone_is_named_beside_a_server_that_waits_longer() -> None:
    """Run on a busy machine: worker 1 was held up, and the server had five times as much to do."""
    delay_s, cpu_s = (0.34, 0.80, 0.33, 0.34, 1.2), (0.028, 0.028, 0.028, 0.028, 0.125)
    (reason,) = taken(4.0, (0.0,), delay_s, cpu_s, ())
    assert str(reason) == "rank 1 waited 460 ms longer for a processor than the others"


def test_a_rank_that_does_hardly_anything_may_wait_as_long_as_the_others() -> None:
    assert taken(1.0, (0.0,), (0.2, 0.2, 0.2, 0.2), (0.1, 0.1, 0.1, 0.0), ()) == ()


def test_figures_of_a_reason_are_not_mixed_with_each_other() -> None:
    stopped = "rank {} was stopped for about {} ms"
    assert of_each_kind([Reason(stopped, (3, 41)), Reason(stopped, (1, 100))]) == [
        stopped.format("1 to 3", "41 to 100")
    ]


def test_who_used_the_processors_beside_a_rank_that_waited_is_named() -> None:
    waited = ((0.5,), {0: 0.4, 1: 0.03, 2: 0.03}, {0: 0.1, 1: 0.1, 2: 0.1}, {0: 0.1})
    lost, late, stopped = map(str, taken_away(1.0, *waited, [Use("cc1plus", 0.2), Use("ld", 0.1)]))
    assert lost.endswith("or other guests, while other programs used 30% (cc1plus 20%, ld 10%)")
    assert late.endswith("than the others, while other programs used 30% (cc1plus 20%, ld 10%)")
    assert stopped == "rank 0 was stopped for about 100 ms"

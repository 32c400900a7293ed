"""When each packet of an injection is to leave."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.inject.options import PPS, RATE, RECORDED, TOPSPEED, Pace
from gradwire.emu.inject.timetable import JITTER_NS, deadlines, period_ns, steady

TIMES = np.array([1_000, 1_500, 4_000], np.int64)
SIZES = np.array([125, 250, 1_000], np.int64)


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        (Pace(), [0, 500, 3_000]),
        (Pace(RECORDED, Fraction(2)), [0, 250, 1_500]),
        (Pace(RECORDED, Fraction(1, 4)), [0, 2_000, 12_000]),
        (Pace(PPS, Fraction(1_000)), [0, 1_000_000, 2_000_000]),
        (Pace(RATE, Fraction(10**6)), [0, 1_000_000, 3_000_000]),  # 125 bytes at 1 Mb/s last 1 ms
        (Pace(TOPSPEED), [0, 0, 0]),
    ],
)
def test_deadlines_are_what_the_pace_says(pace: Pace, expected: list[int]) -> None:
    assert deadlines(pace, TIMES, SIZES).tolist() == expected


def test_a_loop_lasts_as_long_as_all_gaps_and_one_more_of_mean_length() -> None:
    assert period_ns(np.array([0, 100, 200, 300])) == 400


def test_what_would_last_longer_than_an_hour_is_refused() -> None:
    with pytest.raises(ValueError, match="7,200 s, and the limit is one hour"):
        deadlines(Pace(), np.array([0, 7200 * 10**9]), SIZES[:2])


def test_packets_that_change_places_wait_for_each_other() -> None:
    found = steady(np.array([0, 10, 7, 20]))
    assert (found.time_ns.tolist(), found.n_backward, found.largest_ns) == ([0, 10, 10, 20], 1, 3)


def test_after_the_clock_was_set_back_the_gaps_are_kept() -> None:
    hour = 3600 * 10**9
    found = steady(np.array([hour, hour + 50, 100, 300, hour]))
    assert found.time_ns.tolist() == [hour, hour + 50, hour + 50, hour + 250, 2 * hour - 50]
    assert found.largest_ns == hour - 50


@given(st.lists(st.integers(0, 10**12), min_size=1))
def test_deadlines_never_go_backwards_and_a_clock_that_does_not_is_left_alone(times: list[int]) -> None:
    given_ns = np.array(times, np.int64)
    found = steady(given_ns)
    assert (np.diff(found.time_ns) >= 0).all()
    if (np.diff(given_ns) >= 0).all():
        assert found.time_ns.tolist() == times
        assert found.n_backward == 0
    if (np.diff(given_ns) >= -JITTER_NS).all():
        assert found.time_ns[-1] == max(times)

"""What must have passed between two readings, and what could, on one cable and by hand."""

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.model.phases import ADDED_UP
from gradwire.planning.plan import Plan
from gradwire.results.audit.treecounts import TreeLoad
from gradwire.results.audit.windows import Moments, Readings, Window, windows
from gradwire.traces.schedules.schedule import Gate
from tests.made_plans import allreduce_plan, messages, schedule_plan

TO_H1 = Egress("switch0", 2)
# Rank 0 sends to rank 1 twice; rank 1 begins the second when the first is in, so that they are two phases.
SCHEDULE = messages(2, [(0, 1, 1000), (1, 0, 10), (0, 1, 500)], [Gate(1, 1, (0,)), Gate(2, 0, (1,))])
PLAN = schedule_plan("star:hosts=2", SCHEDULE)
FRAMING = 2 * 2 * 48 + 48  # of the two messages, and the notice that rank 0 will take rank 1's
SACK = 40 - 12  # beside timestamps a selective acknowledgement has what is left of 40 bytes (RFC 2018)
MORE = FRAMING + SACK  # one of a flow that lost nothing may come all the same


def looked_at(
    first: Moments, second: Moments, readings: Readings, resent: int = 0, plan: Plan = PLAN
) -> list[Window]:
    moments = {0: first, 1: Moments(first.arrived_ns, second.queued_ns), 2: second}
    return list(windows(plan, moments, {TO_H1: readings}, (resent, 0)))


def test_phases_with_readings_between_them_are_separated() -> None:
    made = looked_at(Moments(20, 29), Moments(60, 69), Readings([0, 10, 30, 40, 50, 70, 80], [0] * 7))
    first, second = made
    assert (first.planned_nbytes, first.least_nbytes, first.most_nbytes) == (1000, 1000, 1000 + MORE)
    assert (second.planned_nbytes, second.least_nbytes, second.most_nbytes) == (500, 500, 500 + MORE)
    assert (first.key, second.key) == ((-1, 0), (-1, 2))


def test_phases_that_share_a_window_are_bounded_by_their_sum() -> None:
    for window in looked_at(Moments(20, 29), Moments(31, 39), Readings([0, 10, 40, 50], [0, 0, 1500, 1500])):
        assert (window.least_nbytes, window.most_nbytes) == (1500, 1500 + MORE)
        assert window.agrees


def test_a_reading_is_over_only_by_the_time_of_the_next() -> None:
    """The reading begun at 15 may have been made at 25, when the send begun at 20 was on its way."""
    (first, _) = looked_at(
        Moments(20, 29), Moments(60, 69), Readings([0, 15, 30, 45, 70], [0, 7, 1000, 1000, 1500])
    )
    assert first.counted_nbytes == 1000  # from the reading at 0, which was over at 15
    assert first.agrees


@pytest.mark.parametrize(
    ("counted", "agrees"), [(999, False), (1000, True), (1000 + MORE, True), (1001 + MORE, False)]
)
def test_one_byte_beyond_what_had_to_pass_or_could_is_noticed(counted: int, agrees: bool) -> None:
    readings = Readings([0, 10, 30, 40, 50, 70, 80], [0, 0, *[counted] * 3, counted + 500, counted + 500])
    assert looked_at(Moments(20, 29), Moments(60, 69), readings)[0].agrees is agrees


def test_segments_sent_again_may_have_passed_too() -> None:
    readings = Readings([0, 10, 30, 40, 50, 70, 80], [0, 0, 2448, 2448, 2448, 2948, 2948])
    times = Moments(20, 29), Moments(60, 69)
    assert [window.agrees for window in looked_at(*times, readings)] == [False, True]
    assert all(window.agrees for window in looked_at(*times, readings, resent=1))


def test_what_is_sent_again_one_way_is_acknowledged_selectively_the_other() -> None:
    """Of 12 bytes with one block: those of five packets, when rank 1 had to send one of its own again."""
    schedule = messages(2, [(0, 1, 1000), (1, 0, 5000)], [Gate(1, 1, (0,))])
    plan = schedule_plan("star:hosts=2", schedule)
    counted = 1000 + 3 * 48 + 5 * 12
    for resent, agrees in ((0, False), (1, True)):
        moments = {0: Moments(20, 29), 1: Moments(29, 40)}
        readings = Readings([0, 10, 30, 40], [0, 0, counted, counted])
        (window,) = windows(plan, moments, {TO_H1: readings}, (0, resent))
        assert window.agrees is agrees


@pytest.mark.parametrize(("mtu", "agree"), [(9000, True), (8000, False)])
def test_a_segment_sent_again_is_no_longer_than_the_fabrics_mtu(mtu: int, agree: bool) -> None:
    counted = 1000 + 8948
    readings = Readings([0, 10, 30, 40, 50, 70, 80], [0, 0, *[counted] * 3, counted + 500, counted + 500])
    plan = schedule_plan(f"star:hosts=2,mtu={mtu}", SCHEDULE)
    found = looked_at(Moments(20, 29), Moments(60, 69), readings, resent=1, plan=plan)
    assert all(window.agrees for window in found) is agree


def test_a_link_whose_port_was_not_read_has_no_window() -> None:
    assert list(windows(PLAN, {}, {}, (0, 0))) == []


def test_a_sum_passes_each_link_of_its_tree_between_its_beginning_and_its_end() -> None:
    plan = allreduce_plan("star:hosts=2", "ina", nbytes=4096)
    for counted, agrees in ((4095, False), (4096, True), (4097, False)):
        readings = Readings([0, 10, 30, 40], [0, 0, counted, counted])
        (window,) = windows(plan, {0: Moments(20, 29)}, {TO_H1: readings}, (0, 0))
        assert (window.key, window.planned_nbytes, window.agrees) == ((0, ADDED_UP), 4096, agrees)
    again = {TO_H1: TreeLoad(4096, spare_nbytes=1024)}
    (window,) = windows(
        plan, {0: Moments(20, 29)}, {TO_H1: Readings([0, 10, 30, 40], [0, 0, 5120, 5120])}, (0, 0), again
    )
    assert window.agrees

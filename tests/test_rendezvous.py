"""Rendezvous: a receiver answers its sender's announcement, behind its own data on the same connection.

Two ranks swap n bytes over one link of capacity C.  Both at once if their announcements cross: n / C.  If
rank 1 comes while rank 0 already waits, rank 1 answers first, rank 0 sends all it has, and its answer is
behind that: 2 n / C.  A rank that computes meanwhile announces before it reads, and then they cross as well.
"""

from dataclasses import replace

import pytest

from controller.model.fluid import fluid_s
from controller.model.hosts import HostCosts
from emu.plancheck import check_schedule
from emu.replay.slots import Matching
from tests.made_plans import PAYLOAD_EFFICIENCY, schedule_plan
from traces.schedules.schedule import Gate, Op, Schedule, Send

NBYTES = 2_000_000
CAPACITY = 100e6 * PAYLOAD_EFFICIENCY / 8
ONE_WAY_S = NBYTES / CAPACITY
LATE_NS = 20_000_000
COSTS = HostCosts(0.0001, 0.0, 0.00001, 64, window_nbytes=60_000, segment_nbytes=10_000)
FEW_MESSAGES_S = 10 * (COSTS.wire_s + COSTS.message_s)


def swap(rendezvous_nbytes: int | None, *before: Op, gates: tuple[Gate, ...] = ()) -> Schedule:
    """Ranks 0 and 1 give each other the whole buffer, after operations `before`."""
    op = Op("allreduce", NBYTES, tag=1, rendezvous_nbytes=rendezvous_nbytes)
    number = len(before)
    sends = tuple(Send(number, src, 1 - src, 0, NBYTES, reduce=True) for src in (0, 1))
    return Schedule(2, (*before, op), sends, gates)


def time_s(schedule: Schedule) -> float:
    check_schedule(schedule)
    plan = schedule_plan("star:hosts=2,rate=100M", schedule)
    return fluid_s(plan.fabric, plan.flows, schedule, hosts=COSTS)[0]


def waiting(rendezvous_nbytes: int | None) -> Schedule:
    """Rank 1 is late at the swap because data from rank 0 are still coming in, so that it reads."""
    schedule = swap(rendezvous_nbytes, Op("message", NBYTES, tag=7))
    first = Send(0, 0, 1, 0, NBYTES, reduce=False)
    back = replace(schedule.sends[1], needs=(0,))
    forth = replace(schedule.sends[0], ready=(0,))
    return replace(schedule, sends=(first, forth, back))


def test_two_ranks_that_begin_together_send_both_ways_at_once() -> None:
    assert time_s(swap(0)) == pytest.approx(ONE_WAY_S, abs=FEW_MESSAGES_S)


def test_after_a_rank_that_waits_already_the_two_ways_take_turns() -> None:
    """The announcement itself stands behind the message's data: one, then the two ways in turn."""
    assert time_s(waiting(None)) == pytest.approx(2 * ONE_WAY_S, abs=FEW_MESSAGES_S)
    assert time_s(waiting(0)) == pytest.approx(3 * ONE_WAY_S, abs=FEW_MESSAGES_S)


def test_a_rank_that_computes_announces_before_it_reads() -> None:
    late = swap(0, Op("compute", 0, root=1), gates=(Gate(0, 1, (), LATE_NS), Gate(1, 1, (0,))))
    assert time_s(late) == pytest.approx(LATE_NS / 1e9 + ONE_WAY_S, abs=FEW_MESSAGES_S)


def test_messages_below_the_limit_wait_for_no_announcement() -> None:
    assert time_s(waiting(NBYTES + 4)) == pytest.approx(time_s(waiting(None)))


def test_a_replaying_rank_answers_when_it_is_ready_and_asked_whichever_is_last() -> None:
    schedule = swap(0)
    key = (1, Matching(schedule, 0, 0).slots[0])
    posted_first = Matching(schedule, 0, 0)
    assert posted_first.is_rendezvous(key, NBYTES)
    assert not posted_first.post(key, 1)
    assert posted_first.ask(key) == 1
    asked_first = Matching(schedule, 0, 0)
    assert asked_first.ask(key) is None
    assert asked_first.post(key, 1)
    assert not asked_first.post(key, 1)  # each announcement is answered once
    plain = Matching(swap(None), 0, 0)
    assert plain.post(key, 1)
    assert not plain.is_rendezvous(key, NBYTES)


def test_a_plan_with_a_rendezvous_that_makes_no_sense_is_refused() -> None:
    message = Schedule(2, (Op("message", 8, rendezvous_nbytes=4),), (Send(0, 0, 1, 0, 8, reduce=False),))
    for schedule in (swap(-1), message):
        with pytest.raises(ValueError, match="rendezvous"):
            check_schedule(schedule)

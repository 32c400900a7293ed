"""Slots: a capture of a replay reads like one of gloo."""

from gradwire.emu.replay.slots import Matching, in_order, slots_of
from gradwire.traces.framing.gloo import unpack_slot
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.pacing import ANNOUNCED_AHEAD
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send


def test_a_collectives_tag_is_never_used_twice_in_all_repeats() -> None:
    schedule = expand(made_allreduce(4, 4000, count=3), "ring")
    slots = [slot for repeat in range(4) for slot in slots_of(schedule, repeat)]
    assert len(set(slots)) == 12
    assert {unpack_slot(slot).prefix for slot in slots} == {4}  # gloo's prefix of an allreduce


def test_a_message_keeps_its_tag_as_the_slot() -> None:
    schedule = Schedule.of(2, (Op("message", 10, tag=2),), (Send(0, 0, 1, 0, 10, reduce=False),))
    assert slots_of(schedule, repeat=5) == [2]


def test_both_ends_of_a_slot_see_its_sends_in_the_same_order() -> None:
    schedule = expand(made_allreduce(8, 340_008, count=2), "as-captured")
    slots = slots_of(schedule, 0)
    for rank in range(8):
        sends, _ = in_order(schedule, rank, slots)
        for (peer, slot), numbers in sends.items():
            assert in_order(schedule, peer, slots)[1][rank, slot] == numbers == sorted(numbers)


TWO_AND_ONE_BACK = Schedule.of(
    2,
    (Op("message", 10, tag=2),),
    (
        Send(0, 0, 1, 0, 4, reduce=False),
        Send(0, 0, 1, 4, 6, reduce=False),
        Send(0, 1, 0, 0, 10, reduce=False),
    ),
)


def test_a_send_leaves_when_it_is_its_turn_its_data_are_there_and_its_receiver_has_announced_it() -> None:
    matching = Matching(TWO_AND_ONE_BACK, 0, repeat=0)
    matching.announced((1, 2))
    matching.has_data(1)
    assert list(matching.leaving((1, 2))) == []  # the first one has no data yet
    matching.has_data(0)
    assert list(matching.leaving((1, 2))) == [0]  # one is announced
    matching.announced((1, 2))
    assert list(matching.leaving((1, 2))) == [1]
    matching.announced((1, 2))
    assert list(matching.leaving((1, 2))) == []
    assert list(matching.leaving((1, 3))) == []


def test_what_comes_in_is_the_next_send_of_its_slot_with_its_length_or_none() -> None:
    matching = Matching(TWO_AND_ONE_BACK, 1, repeat=0)
    assert matching.arriving((0, 3), 4) is None
    assert matching.arriving((0, 2), 6) is None  # that is the second
    assert matching.arriving((0, 2), 4) == 0
    assert matching.arriving((0, 2), 6) == 1
    assert matching.arriving((0, 2), 6) is None


def test_receives_are_announced_in_the_order_of_their_sends_whichever_is_ready_first() -> None:
    """So the first notice in a slot is the first send's, and the checker may rely on `ready`."""
    matching = Matching(TWO_AND_ONE_BACK, 1, repeat=0)
    matching.posted(1)
    assert list(matching.answering((0, 2))) == []
    matching.posted(0)
    assert list(matching.answering((0, 2))) == [0, 1]


def test_many_receives_are_announced_ahead_and_more_when_half_of_them_have_come() -> None:
    n, half = 3 * ANNOUNCED_AHEAD, ANNOUNCED_AHEAD // 2
    sends = tuple(Send(0, 0, 1, 4 * i, 4, reduce=False) for i in range(n))
    matching = Matching(Schedule.of(2, (Op("message", 4 * n, tag=2),), sends), 1, repeat=0)
    for number in range(n):
        matching.posted(number)
    assert list(matching.answering((0, 2))) == list(range(2 * half))
    for number in range(n - 2 * half):
        assert matching.arriving((0, 2), 4) == number
        more = range(number + 1 + half, number + 1 + 2 * half) if (number + 1) % half == 0 else ()
        assert list(matching.answering((0, 2))) == list(more)


def test_where_data_go_both_ways_all_receives_are_announced_at_once() -> None:
    """Later notices would wait behind what the rank has queued to send there."""
    n = 3 * ANNOUNCED_AHEAD
    sends = tuple(Send(0, i % 2, 1 - i % 2, 4 * i, 4, reduce=False) for i in range(2 * n))
    matching = Matching(Schedule.of(2, (Op("message", 8 * n, tag=2),), sends), 1, repeat=0)
    for number in range(0, 2 * n, 2):
        matching.posted(number)
    assert list(matching.answering((0, 2))) == list(range(0, 2 * n, 2))

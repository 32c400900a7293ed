"""How far ahead receivers announce, in the model as in the agents."""

import itertools

from gradwire.planning.model.notices import Notices
from gradwire.traces.schedules.pacing import ANNOUNCED_AHEAD


def test_a_lane_announces_ahead_and_catches_up_when_half_have_come() -> None:
    n, half = 3 * ANNOUNCED_AHEAD, ANNOUNCED_AHEAD // 2
    notices = Notices()
    announced = [item for number in range(n) for item in notices.ready("lane", number)]
    assert announced == list(range(half + 1))
    came = [notices.came("lane") for _ in range(n)]
    times = [number for number, each in enumerate(came, start=1) if each]
    assert times == [1 + half * k for k in range(5)]
    assert [*announced, *itertools.chain(*came)] == list(range(n))


def test_what_is_ready_only_later_is_announced_at_once_and_lanes_do_not_mind_each_other() -> None:
    notices = Notices()
    for number in range(5):
        assert notices.ready("lane", number) == [number]
        assert notices.came("lane") == []
    for number in range(ANNOUNCED_AHEAD):
        notices.ready("lane", number)
    assert notices.ready("lane", 99) == []
    assert notices.ready("other", 100) == [100]


def test_where_data_go_both_ways_all_is_announced_as_soon_as_it_may_be() -> None:
    notices = Notices(both_ways={"both"})
    for number in range(3 * ANNOUNCED_AHEAD):
        assert notices.ready("both", number) == [number]
    assert notices.came("both") == []
    assert notices.ready("one", 0) == [0]
    assert [notices.ready("one", 1 + number) for number in range(ANNOUNCED_AHEAD)][-1] == []

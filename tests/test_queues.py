"""What a notice waits behind, against closed forms and against packets sent one by one through two links."""

from dataclasses import replace

import pytest

from controller.model.fluid import fluid_s
from controller.model.hosts import HostCosts
from tests.made_plans import PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan
from traces.schedules.schedule import Gate

SEGMENT, WINDOW = 10_000, 60_000
COSTS = HostCosts(0.0, 0.0, 0.0, 64, window_nbytes=WINDOW, segment_nbytes=SEGMENT)
FAST, SLOW = (rate_bps * PAYLOAD_EFFICIENCY / 8 for rate_bps in (100e6, 25e6))
OVERSUBSCRIBED = "leaf-spine:leaves=2,spines=1,hosts=2,rate=100M,uplink_rate=25M"
LARGE, SMALL = 2_000_000, 100


def notice_s(spec: str, pairs: list[tuple[int, int, int]], rank: int, at_s: float) -> float:
    """How long the notice of the last of the messages waits, whose receiver `rank` is ready at `at_s`."""
    plan = schedule_plan(spec, messages(4, pairs, [Gate(len(pairs) - 1, rank, (), round(at_s * 1e9))]))
    _, waiting = fluid_s(plan.fabric, plan.flows, plan.schedule, hosts=COSTS)
    _, free = fluid_s(
        plan.fabric,
        plan.flows,
        plan.schedule,
        hosts=HostCosts(COSTS.wire_s, COSTS.start_s, COSTS.message_s, COSTS.n_cpus),
    )
    return waiting[-1] - free[-1]


def test_at_its_own_hosts_port_a_notice_waits_behind_two_segments_of_another_connection() -> None:
    waits_s = notice_s("star:hosts=4", [(0, 1, LARGE), (2, 0, SMALL)], 0, 0.02)
    assert waits_s == pytest.approx(2 * SEGMENT / FAST)


def test_at_its_own_hosts_port_a_notice_waits_for_what_is_left() -> None:
    """A millisecond before the end of the data there is less than two segments of it."""
    end_s = LARGE / FAST
    waits_s = notice_s("star:hosts=4", [(0, 1, LARGE), (2, 0, SMALL)], 0, end_s - 0.001)
    assert waits_s == pytest.approx(0.001, rel=1e-3)


def test_a_notice_stays_behind_the_data_of_its_own_connection() -> None:
    waits_s = notice_s("star:hosts=4", [(0, 1, LARGE), (1, 0, SMALL)], 0, 0.02)
    assert waits_s == pytest.approx(LARGE / FAST - 0.02)


def test_no_notice_waits_where_nothing_is_sent_on_its_path() -> None:
    assert notice_s("star:hosts=4", [(0, 1, LARGE), (3, 2, SMALL)], 2, 0.02) == pytest.approx(0.0)


def packets_wait_s(nbytes: int, at_s: float, packet: int = 100) -> float:
    """How long the queue is at `at_s` before a link of SLOW that a link of FAST fills, packet by packet.

    A sender has at most WINDOW bytes under way; it hears of each packet when the slow link has sent it.
    """
    done_s: list[float] = []  # when the slow link is done with each packet
    port_s = 0.0
    in_window = WINDOW // packet
    arrived = 0
    for number in range(nbytes // packet):
        may_s = done_s[number - in_window] if number >= in_window else 0.0
        port_s = max(port_s, may_s) + packet / FAST
        if port_s <= at_s:
            arrived = number + 1
        done_s.append(max(port_s, done_s[-1] if done_s else 0.0) + packet / SLOW)
    return max(0.0, done_s[arrived - 1] - at_s) if arrived else 0.0


@pytest.mark.parametrize("nbytes", [30_000, 200_000, LARGE])
@pytest.mark.parametrize("at_s", [0.0005, 0.002, 0.004, 0.008, 0.03, 0.2])
def test_before_a_slower_link_a_notice_waits_as_long_as_packets_queue_there(nbytes: int, at_s: float) -> None:
    """Rank 0's data and rank 1's notice leave the leaf by the same uplink."""
    waits_s = notice_s(OVERSUBSCRIBED, [(0, 2, nbytes), (3, 1, SMALL)], 1, at_s)
    assert waits_s == pytest.approx(packets_wait_s(nbytes, at_s), rel=0.02, abs=2e-4)


def test_the_window_bounds_what_a_notice_waits_for() -> None:
    waits_s = notice_s(OVERSUBSCRIBED, [(0, 2, LARGE), (3, 1, SMALL)], 1, 0.2)
    assert waits_s == pytest.approx(WINDOW / SLOW)


def test_a_notice_is_ahead_of_data_that_its_rank_sends_at_the_same_instant() -> None:
    """Halving-doubling without any link that two share: a step's partners announce and send at once, so that
    the whole takes no longer than where no notice waits.
    """
    plan = allreduce_plan("bigraph:n=4,m=2,rate=50M", "halving-doubling", "hdrm", "direct", nbytes=340_008)
    made = (plan.fabric, plan.flows, plan.schedule)
    costs = HostCosts(20e-6, 1e-3, 90e-6, 2, window_nbytes=131_072, segment_nbytes=12_500)
    waiting_s, _ = fluid_s(*made, hosts=costs)
    free_s, _ = fluid_s(*made, hosts=replace(costs, window_nbytes=0))
    assert waiting_s == pytest.approx(free_s, rel=1e-6)

"""Bytes in order: when TCP has taken a send, when it has left, and who waits behind whom in a FIFO."""

from heapq import heappop, heappush

import pytest

from controller.model.fluid import carry
from controller.model.hosts import HostCosts
from tests.made_plans import PAYLOAD_EFFICIENCY, messages, schedule_plan
from traces.schedules.schedule import Gate, Schedule

BUFFER, WINDOW, SEGMENT = 100_000, 60_000, 1_000
COSTS = HostCosts(0.0, 0.0, 0.0, 64, WINDOW, SEGMENT, BUFFER)
FAST, SLOW = (rate_bps * PAYLOAD_EFFICIENCY / 8 for rate_bps in (100e6, 25e6))
STAR = "star:hosts=4"
OVERSUBSCRIBED = "leaf-spine:leaves=2,spines=1,hosts=3,rate=100M,uplink_rate=25M"


def carried(spec: str, schedule: Schedule, costs: HostCosts = COSTS) -> tuple[tuple[float, ...], ...]:
    """(when each send had ended, when each gate opened)"""
    plan = schedule_plan(spec, schedule)
    made = carry(plan.fabric, plan.flows, plan.schedule, hosts=costs)
    return made.ends_s, made.opened_s


@pytest.mark.parametrize("nbytes", [40_000, BUFFER, 150_000, 1_000_000])
def test_a_source_goes_on_when_tcp_has_taken_its_send(nbytes: int) -> None:
    """Rank 0's second operation waits for its first: until all but a buffer of it has left."""
    made = messages(4, [(0, 1, nbytes), (2, 0, 100)], [Gate(1, 0, (0,))])
    _, (opened_s,) = carried(STAR, made)
    assert opened_s == pytest.approx(max(0, nbytes - BUFFER) / FAST)


def test_sends_of_one_connection_share_its_buffer() -> None:
    """Three of 60 KB at once: TCP takes the first, 20 KB later the second, then another 60 KB the third."""
    sizes = [(0, 1, 60_000)] * 3
    gates = [Gate(number, 0, (number - 3,)) for number in (3, 4, 5)]
    made = messages(4, [*sizes, *[(2, 0, 100)] * 3], gates)
    _, opened_s = carried(STAR, made)
    assert opened_s == pytest.approx((0.0, 20_000 / FAST, 80_000 / FAST))


def test_a_destination_has_a_send_only_when_all_of_it_has_left() -> None:
    (end_s,), _ = carried(STAR, messages(4, [(0, 1, 40_000)]))
    assert end_s == pytest.approx(40_000 / FAST)


def fifo_s(sends: list[tuple[float, int]], packet: int = 250) -> list[float]:
    """When sends that begin at given times, from ports of FAST of their own, have left a FIFO link of SLOW.

    Packet by packet.  A sender has at most WINDOW bytes under way, and hears at once what the link has sent.
    """
    left = [nbytes // packet for _, nbytes in sends]
    under_way, port_s, ends_s = [0] * len(sends), [begin_s for begin_s, _ in sends], [0.0] * len(sends)
    link_s = 0.0
    events: list[tuple[float, int, int]] = []  # (when, 0: has left the link, 1: reaches it, sender)

    def send(number: int, now_s: float) -> None:
        while left[number] and (under_way[number] + 1) * packet <= WINDOW:
            left[number] -= 1
            under_way[number] += 1
            port_s[number] = max(port_s[number], now_s) + packet / FAST
            heappush(events, (port_s[number], 1, number))

    for number, (begin_s, _) in enumerate(sends):
        send(number, begin_s)
    while events:
        now_s, reaches, number = heappop(events)
        if reaches:
            link_s = max(link_s, now_s) + packet / SLOW
            heappush(events, (link_s, 0, number))
        else:
            under_way[number] -= 1
            ends_s[number] = now_s
            send(number, now_s)
    return ends_s


@pytest.mark.parametrize("nbytes", [30_000, 60_000, 120_000])
@pytest.mark.parametrize("at_s", [0.01, 0.02, 0.05])
def test_who_comes_later_waits_behind_what_stands_in_the_fifo(nbytes: int, at_s: float) -> None:
    """Two hosts behind one uplink: 500 KB from the start on, and less that begins later."""
    made = messages(6, [(0, 3, 500_000), (1, 4, nbytes)], [Gate(1, 1, (), round(at_s * 1e9))])
    ends_s, _ = carried(OVERSUBSCRIBED, made)
    expected = fifo_s([(0.0, 500_000), (at_s, nbytes)])
    assert ends_s[1] - at_s == pytest.approx(expected[1] - at_s, rel=0.12)
    assert ends_s[0] == pytest.approx(expected[0], rel=0.02)

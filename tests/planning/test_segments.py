"""Segments through queues: closed forms of token buckets, and packets through two links one by one."""

from dataclasses import replace
from heapq import heappop, heappush
from math import ceil, inf

import pytest

from gradwire.planning.model.hosts import LATE_S, POLLED_S, RELEASE_S, HostCosts
from gradwire.planning.model.network import EventKind, NetworkEvent
from gradwire.planning.model.segments import (
    Delays,
    SegmentNetwork,
    n_steps,
)
from gradwire.planning.model.simulation import simulate
from gradwire.planning.transport import BURST_FRAMES, HEADROOM_NBYTES
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from gradwire.traces.tcpmemory import SEGMENT_OVERHEAD_NBYTES
from tests.made_plans import PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan, unchecked_plan

S = 1_000  # bytes of a segment
FAST, SLOW = 100_000.0, 25_000.0  # bytes per second
LONE_NBYTES = 120  # what a packet of little takes


def network(
    paths: list[list[int]],
    capacity: list[float],
    *,
    burst: float = 0.0,
    buffer: float = 0.0,
    late_s: float = 0.0,
    release_s: float = RELEASE_S,
) -> SegmentNetwork:
    return SegmentNetwork(
        paths,
        capacity,
        segment_nbytes=S,
        bursts_s=[burst / each for each in capacity],
        buffer_nbytes=buffer,
        lone_nbytes=LONE_NBYTES,
        delays=Delays(release_s, (late_s, late_s)),
    )


def times_s(made: SegmentNetwork, handed: list[tuple[float, int, int, int]]) -> dict[NetworkEvent, float]:
    """When everything happens; (when, flow, item, bytes) is handed over, of a notice 0 bytes.

    The bytes of an item are with what gloo writes ahead of it.
    """
    found: dict[NetworkEvent, float] = {}
    todo = sorted(handed)
    now_s = 0.0
    while True:
        now_s, events = made.advance(now_s, todo[0][0] if todo else inf)
        if now_s == inf:
            return found
        while todo and todo[0][0] <= now_s:
            _, flow, item, nbytes = todo.pop(0)
            if nbytes:
                events += made.add(flow, item, nbytes - PREAMBLE_NBYTES, now_s)
            else:
                made.receiver_ready(flow, item)
        found.update((event, now_s) for event in events)


def arrived(item: int) -> NetworkEvent:
    return NetworkEvent(EventKind.ARRIVED, item)


def test_a_lone_segment_crosses_idle_links_at_once_and_the_next_waits_for_the_slowest() -> None:
    made = network([[0, 1, 2]], [FAST, SLOW, FAST])
    found = times_s(made, [(0.0, 0, 0, S), (0.0, 0, 1, S), (0.0, 0, 2, S)])
    assert [found[arrived(item)] for item in range(3)] == pytest.approx([0.0, S / SLOW, 2 * S / SLOW])


def test_an_item_has_arrived_with_its_last_segment() -> None:
    found = times_s(network([[0]], [FAST]), [(0.0, 0, 0, 10 * S), (0.0, 0, 1, 10 * S + 1)])
    assert found[arrived(0)] == pytest.approx(9 * S / FAST)
    assert found[arrived(1)] == pytest.approx(20 * S / FAST)


def test_a_port_that_was_idle_has_saved_a_burst() -> None:
    """After a segment it owes what the burst did not pay; what it saves again is a burst at most."""
    made = network([[0]], [FAST], burst=400)
    found = times_s(made, [(1.0, 0, 0, S), (1.0, 0, 1, S), (1.0 + 2 * S / FAST, 0, 2, S), (2.0, 0, 3, S)])
    assert found[arrived(0)] == pytest.approx(1.0)
    assert found[arrived(1)] == pytest.approx(1.0 + (S - 400) / FAST)
    assert found[arrived(2)] == pytest.approx(1.0 + 2 * S / FAST)  # nothing is owed any more
    assert found[arrived(3)] == pytest.approx(2.0)


def test_over_long_a_port_keeps_its_rate_but_for_one_burst() -> None:
    found = times_s(network([[0]], [FAST], burst=400), [(1.0, 0, 0, 1000 * S)])
    assert found[arrived(0)] == pytest.approx(1.0 + (999 * S - 400) / FAST)


@pytest.mark.parametrize(("after_s", "is_busy"), [(POLLED_S / 2, True), (2 * POLLED_S, False), (None, False)])
def test_where_processors_rest_a_port_is_late_and_sends_at_once_what_is_due_by_then(
    after_s: float | None, is_busy: bool
) -> None:
    """A segment of flow 0, a notice of flow 1, two segments of flow 2 through port 0.  Elsewhere flow 3 sends
    so long before port 0 is due, or nothing does.  (Port 2, by which flow 2 comes, is late as well.)
    """
    late_s = 0.01
    due_s = (S - 400) / SLOW
    made = network([[0], [1, 0], [2, 0], [3]], [SLOW, FAST, FAST, FAST], burst=400, late_s=late_s)
    handed = [(0.0, 0, 0, S), (0.001, 1, 7, 0), (0.002, 2, 1, S), (0.002, 2, 2, S)]
    found = times_s(made, handed if after_s is None else [*handed, (due_s - after_s, 3, 3, S)])
    notice_s, data_s = found[NetworkEvent(EventKind.NOTICE, 7)], found[arrived(1)]
    after_notice_s = due_s + LONE_NBYTES / SLOW
    if is_busy:
        assert (notice_s, data_s) == pytest.approx((due_s, after_notice_s + late_s))
    else:
        assert after_notice_s < due_s + late_s
        assert (notice_s, data_s) == pytest.approx((due_s + late_s, due_s + late_s))
    assert found[arrived(2)] == pytest.approx(after_notice_s + S / SLOW + late_s)  # the rate is kept


def test_what_happens_while_a_port_is_late_wakes_it() -> None:
    late_s = 0.01
    due_s = (S - 400) / SLOW
    made = network([[0], [1, 0], [2]], [SLOW, FAST, FAST], burst=400, late_s=late_s)
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 1, 7, 0), (due_s + late_s / 4, 2, 3, S)])
    assert found[NetworkEvent(EventKind.NOTICE, 7)] == pytest.approx(due_s + late_s / 4)


@pytest.mark.parametrize("late_s", [0.0, 0.01])
def test_a_notice_waits_for_more_data_where_ports_are_late(late_s: float) -> None:
    """Port 0 is full; flow 1's notice waits there ahead of four segments of flow 2, of which TCP holds one
    back, and so does a second notice, until the first has arrived.  Late, all that waits for these arrivals
    is let go at once, data first.
    """
    made = network([[0], [1, 0], [2, 0]], [SLOW, FAST, FAST], burst=400, late_s=late_s, release_s=1e-5)
    handed = [(0.0, 0, 0, S), (0.001, 1, 7, 0), (0.002, 1, 8, 0), (0.002, 2, 0, 4 * S)]
    found = times_s(made, handed)
    assert (found[NetworkEvent(EventKind.NOTICE, 8)] >= found[arrived(0)]) == (late_s > 0)


def test_a_port_that_is_late_keeps_its_rate() -> None:
    found = times_s(network([[0]], [FAST], burst=400, late_s=400 / FAST), [(1.0, 0, 0, 1000 * S)])
    assert found[arrived(0)] == pytest.approx(1.0 + 999 * S / FAST)  # the last one is late


TWO_FRAMES_S = 2 * 1514 * 8 / 100e6


@pytest.mark.parametrize(
    ("rates", "slowest_bps", "burst_s"),
    [
        ("rate=100M,uplink_rate=1G", 100e6, TWO_FRAMES_S),
        ("rate=1G,uplink_rate=100M", 100e6, TWO_FRAMES_S),
        ("rate=1G,uplink_rate=1G", 1e9, 100e-6),
    ],
)
def test_ports_of_a_fabric_have_saved_100_us_or_two_frames(
    rates: str, slowest_bps: float, burst_s: float
) -> None:
    """The first of four segments goes at once after its announcement of 114 bytes, the last when its port
    has sent what no burst paid for.
    """
    message = 0, 1, 4 * 14_480 - PREAMBLE_NBYTES  # a segment is ten packets
    plan = schedule_plan(f"leaf-spine:leaves=2,spines=1,hosts=1,{rates}", messages(2, [message]))
    hosts = HostCosts(0.0, 0.0, 0.0, 64, 14_480 + HEADROOM_NBYTES, 0, release_s=0.0, late_s=(0.0, 0.0))
    found = simulate(plan.fabric, plan.flows, plan.schedule, eta=PAYLOAD_EFFICIENCY, hosts=hosts)
    sent_s = (114 + 3 * 14_480 / PAYLOAD_EFFICIENCY) * 8 / slowest_bps
    assert found.ends_s[0] == pytest.approx(sent_s - burst_s)


def test_a_notice_waits_at_each_port_for_what_that_owes() -> None:
    """Flow 0's segment keeps port 1, flow 1's port 2; the notice of flow 2 comes by both at 1 ms."""
    made = network([[0, 1], [3, 2], [4, 1, 2]], [FAST] * 5)
    found = times_s(made, [(0.0, 0, 0, S), (0.004, 1, 1, S), (0.001, 2, 7, 0)])
    assert found[NetworkEvent(EventKind.NOTICE, 7)] == pytest.approx(0.014)


def test_what_waited_at_one_port_does_not_wait_for_the_same_segment_at_the_next() -> None:
    made = network([[0, 1, 2], [3, 1, 2]], [FAST] * 4)
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 1, 7, 0)])
    assert found[NetworkEvent(EventKind.NOTICE, 7)] == pytest.approx(S / FAST)


def test_a_notice_is_behind_all_data_of_its_own_connection() -> None:
    found = times_s(network([[0, 1]], [FAST, FAST]), [(0.0, 0, 0, 20 * S), (0.001, 0, 7, 0)])
    assert found[NetworkEvent(EventKind.NOTICE, 7)] == pytest.approx(20 * S / FAST)


@pytest.mark.parametrize("rate_bps", [10e9, 25e9, 40e9, 100e9, 400e9])
def test_a_lone_connection_reaches_its_links_rate_however_fast_that_is(rate_bps: float) -> None:
    """A segment is 64 KiB, a thousand of them are under way one after the other."""
    capacity, segment_nbytes = rate_bps / 8, 1 << 16
    made = SegmentNetwork(
        [[0, 1]],
        [capacity, capacity],
        segment_nbytes=segment_nbytes,
        bursts_s=[BURST_FRAMES * 1514 / capacity] * 2,
        buffer_nbytes=0.0,
        lone_nbytes=LONE_NBYTES,
        delays=Delays(RELEASE_S, LATE_S),
    )
    found = times_s(made, [(0.0, 0, 0, 1000 * segment_nbytes)])
    assert found[arrived(0)] == pytest.approx(1000 * segment_nbytes / capacity, rel=0.01)


def test_halving_doubling_that_shares_no_link_takes_its_bound() -> None:
    """A step's partners announce and send at once: 2 (p-1)/p of the bytes at the hosts' rate."""
    nbytes = 8 << 20
    plan = allreduce_plan("bigraph:n=4,m=2,rate=50M", "halving-doubling", "hdrm", "direct", nbytes=nbytes)
    costs = HostCosts(20e-6, 1e-3, 90e-6, 2, 12_500, 109_000)
    time_s = simulate(plan.fabric, plan.flows, plan.schedule, hosts=costs).time_s
    assert time_s == pytest.approx(2 * 7 / 8 * nbytes * 8 / (50e6 * PAYLOAD_EFFICIENCY), rel=0.02)


def test_at_its_own_hosts_port_a_notice_is_behind_three_segments_of_another_connection() -> None:
    """The port owes half a segment at that moment, and three wait."""
    made = network([[0, 1], [0, 2]], [FAST] * 3)
    found = times_s(made, [(0.0, 0, 0, 20 * S), (0.5 * S / FAST, 1, 7, 0)])
    assert found[NetworkEvent(EventKind.NOTICE, 7)] == pytest.approx(4 * S / FAST)


def test_three_segments_of_a_connection_wait_before_a_slow_link() -> None:
    """The link owes half a segment when the notice of another host comes."""
    made = network([[0, 1], [2, 1]], [FAST, SLOW, FAST])
    at_s = 100.5 * S / SLOW
    found = times_s(made, [(0.0, 0, 0, 1000 * S), (at_s, 1, 7, 0)])
    assert found[NetworkEvent(EventKind.NOTICE, 7)] - at_s == pytest.approx(3.5 * S / SLOW)


def test_a_sender_that_filled_its_socket_goes_on_when_a_third_of_that_is_free() -> None:
    """Six segments fill the socket; the first leaves at once, so it is full with the seventh.  Two have to
    leave for the next two, and two more for the tenth.
    """
    made = network([[0]], [FAST], buffer=6 * (S + SEGMENT_OVERHEAD_NBYTES))
    found = times_s(made, [(0.0, 0, 0, 3 * S), (0.0, 0, 1, 7 * S)])
    assert found[NetworkEvent(EventKind.TAKEN, 0)] == 0.0
    assert found[NetworkEvent(EventKind.TAKEN, 1)] == pytest.approx(4 * S / FAST + RELEASE_S)


def test_the_first_segment_makes_room_for_one_more_while_its_sender_still_copies() -> None:
    """Of a message of seven segments, of which a socket holds six, where nothing is in its way."""
    made = network([[0]], [FAST], buffer=6 * (S + SEGMENT_OVERHEAD_NBYTES))
    found = times_s(made, [(1.0, 0, 0, 7 * S), (2.0, 0, 1, 8 * S)])
    assert found[NetworkEvent(EventKind.TAKEN, 0)] == 1.0
    assert found[NetworkEvent(EventKind.TAKEN, 1)] - 2.0 == pytest.approx(2 * S / FAST + RELEASE_S)


def test_a_segment_that_waits_for_its_port_makes_no_room() -> None:
    made = network([[0]], [FAST], buffer=6 * (S + SEGMENT_OVERHEAD_NBYTES))
    handed = [(at_s, 0, 2 * n + k, (S, 7 * S)[k]) for n in range(100) for k, at_s in enumerate((n, n + 1e-6))]
    found = times_s(made, handed)
    assert all(found[NetworkEvent(EventKind.TAKEN, 2 * n + 1)] > n + S / FAST for n in range(100))


def test_a_socket_that_holds_nothing_gives_up_each_item_as_it_arrives() -> None:
    found = times_s(network([[0]], [FAST]), [(0.0, 0, 0, 3 * S)])
    assert found[NetworkEvent(EventKind.TAKEN, 0)] == pytest.approx(found[arrived(0)] + RELEASE_S)


def test_170_kb_at_20_mbps_are_in_the_socket_when_a_replay_had_them_there() -> None:
    """300 answers of parameter servers took 35.2 to 35.8 ms from being handed over to being taken (the
    middle 80 %), with SO_SNDBUF = 65536 and segments of three packets.
    """
    made = SegmentNetwork(
        [[0]],
        [20e6 * 0.9538 / 8],
        segment_nbytes=3 * 1448,
        bursts_s=[BURST_FRAMES * 1514 * 8 / 20e6],
        buffer_nbytes=2 * 65536,
        lone_nbytes=LONE_NBYTES,
        delays=Delays(RELEASE_S, LATE_S),
    )
    found = times_s(made, [(1.0, 0, 0, 170_004 + PREAMBLE_NBYTES)])
    assert found[NetworkEvent(EventKind.TAKEN, 0)] - 1.0 == pytest.approx(35.4e-3, abs=0.3e-3)


def test_steps_are_segments_times_links() -> None:
    """With two notices for each send."""
    assert n_steps(S, [(10.0 * S, 4), (1.0, 2), (0.0, 3)]) == 12 * 4 + 3 * 2 + 2 * 3


@pytest.mark.parametrize("at_s", [0.0, 1.0])
def test_a_port_that_has_sent_nothing_yet_has_saved_a_burst(at_s: float) -> None:
    found = times_s(network([[0]], [FAST], burst=2 * S), [(at_s, 0, item, S) for item in range(4)])
    late_s = [found[arrived(item)] - at_s for item in range(4)]
    assert late_s == pytest.approx([0.0, 0.0, 0.0, S / FAST])


def test_a_thousand_small_sends_at_one_instant_arrive() -> None:
    """Those that the burst pays for go alone, and the others join in segments."""
    handed = [(1.0, 0, item, 52) for item in range(1000)]
    found = times_s(network([[0, 1]], [FAST, FAST], burst=3000), handed)
    assert found[arrived(0)] == 1.0
    n_alone = 3000 // LONE_NBYTES
    more = n_alone * (LONE_NBYTES - 52)
    assert found[arrived(999)] == pytest.approx(1.0 + (1000 * 52 + more - 3000) / FAST, abs=S / FAST)


def test_notices_written_behind_one_that_waits_arrive_together_right_after_it() -> None:
    """Port 1 owes a segment at first: the second and third notice wait for the first, and arrive together."""
    made = network([[0, 1], [2, 1]], [FAST] * 3)
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 1, 7, 0), (0.002, 1, 8, 0), (0.003, 1, 9, 0)])
    late_s = [found[NetworkEvent(EventKind.NOTICE, item)] - S / FAST for item in (7, 8, 9)]
    assert late_s == pytest.approx([0.0, LONE_NBYTES / FAST, LONE_NBYTES / FAST])


def test_of_two_connections_that_are_released_together_the_last_goes_first() -> None:
    """Flow 2 keeps the port for 10 µs; then a notice and data cross it, and a second of each waits.  What is
    released leaves after a segment's time, which is less than RELEASE_S here.
    """
    quick, nbytes = 1e8, 900
    made = network([[0], [0], [0]], [quick])
    handed = [(0.0, 2, 0, S), (1e-6, 0, 1, 0), (1e-6, 1, 2, nbytes), (2e-6, 0, 3, 0), (2e-6, 1, 4, nbytes)]
    found = times_s(made, handed)
    first, second = (found[NetworkEvent(EventKind.NOTICE, item)] for item in (1, 3))
    assert S / quick < RELEASE_S
    assert found[arrived(4)] == pytest.approx(first + (LONE_NBYTES + nbytes) / quick)
    assert second == pytest.approx(found[arrived(4)] + nbytes / quick)


def test_a_full_segment_does_not_wait_for_a_notice_under_way() -> None:
    made = network([[0, 1], [2, 1]], [FAST] * 3)
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 1, 7, 0), (0.002, 1, 1, S)])
    assert found[arrived(1)] == pytest.approx((S + LONE_NBYTES) / FAST)


def test_a_notice_waits_until_what_is_heavier_has_arrived() -> None:
    """Flow 2's segment comes to port 1 after the notice was written, and goes ahead of it."""
    made = network([[0, 1], [2, 1], [3, 1]], [FAST] * 4)
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 1, 1, S), (0.002, 1, 7, 0), (0.005, 2, 2, S)])
    assert (found[arrived(1)], found[arrived(2)]) == pytest.approx((S / FAST, 2 * S / FAST))
    assert found[NetworkEvent(EventKind.NOTICE, 7)] == pytest.approx(3 * S / FAST)


def test_a_path_may_be_longer_than_pythons_stack_is_deep() -> None:
    n_links = 5_000
    made = network([list(range(n_links))], [FAST] * n_links)
    found = times_s(made, [(0.0, 0, 0, S), (0.0, 0, 1, S)])
    assert found[arrived(1)] == pytest.approx(S / FAST)


def test_what_is_offered_first_keeps_its_place() -> None:
    made = network([[0, 1]], [FAST, FAST])
    made.sender_ready(0, 3)
    assert made.advance(0.0, inf) == (0.0, [NetworkEvent(EventKind.ASKED, 3)])
    made.add(0, 3, S - PREAMBLE_NBYTES, 0.0)
    assert made.advance(0.0, 0.0) == (0.0, [])
    at_s = LONE_NBYTES / FAST
    assert made.advance(0.0, inf) == (at_s, [arrived(3)])
    assert made.advance(at_s, inf) == (at_s + RELEASE_S, [NetworkEvent(EventKind.TAKEN, 3)])
    assert made.advance(1.0, inf) == (inf, [])


def test_a_network_goes_on_until_a_given_time_at_most() -> None:
    made = network([[0, 1]], [FAST, FAST])
    made.add(0, 3, 10 * S - PREAMBLE_NBYTES, 0.0)
    assert made.advance(0.0, 2.5 * S / FAST) == (2.5 * S / FAST, [])


def test_what_is_written_while_a_notice_is_under_way_leaves_once_it_is_heavier() -> None:
    """The third notice makes two that wait: together they weigh more than the one in the fabric."""
    made = network([[0, 1], [2, 1]], [FAST] * 3)
    found = times_s(
        made, [(0.0, 0, 0, S), (0.001, 1, 7, 0), (0.002, 1, 8, 0), (0.003, 1, 9, 0), (0.004, 0, 1, S)]
    )
    assert found[NetworkEvent(EventKind.NOTICE, 9)] < found[arrived(1)]
    made = network([[0, 1], [2, 1]], [FAST] * 3)
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 1, 7, 0), (0.002, 1, 8, 0), (0.004, 0, 1, S)])
    assert found[NetworkEvent(EventKind.NOTICE, 8)] > found[arrived(1)]


def test_what_is_longer_than_a_segment_does_not_wait() -> None:
    made = network([[0, 1]], [FAST, SLOW])
    found = times_s(made, [(0.0, 0, 0, S), (0.001, 0, 1, S), (0.002, 0, 2, 2 * S)])
    assert [found[arrived(item)] for item in range(3)] == pytest.approx([0.0, S / SLOW, 3 * S / SLOW])


BUFFER, SEGMENT = 100_000, 10_000
COSTS = HostCosts(0.0, 0.0, 0.0, 64, SEGMENT, BUFFER)
WINDOW = 4 * SEGMENT  # three wait, one is on its way out
QUICK, BUSY = (rate_bps * PAYLOAD_EFFICIENCY / 8 for rate_bps in (100e6, 25e6))
STAR = "star:hosts=4"
OVERSUBSCRIBED = "leaf-spine:leaves=2,spines=1,hosts=3,rate=100M,uplink_rate=25M"
AHEAD = SEGMENT + BURST_FRAMES * 1538  # bytes by which a port may be ahead of its rate


def carried(spec: str, schedule: Schedule) -> tuple[tuple[float, ...], ...]:
    """(when each send had ended, when each gate opened)"""
    plan = schedule_plan(spec, schedule)
    made = simulate(plan.fabric, plan.flows, plan.schedule, hosts=COSTS)
    return tuple(made.ends_s.tolist()), tuple(made.opened_s.tolist())


# A segment is six packets of 1,448 bytes.  Eleven of them, each with what the kernel needs for it, fill the
# memory of a socket, with the first one acknowledged meanwhile; six are at most two thirds of it.
HELD, FREED = 12 * 6 * 1448, 5 * 6 * 1448


@pytest.mark.parametrize(
    ("nbytes", "n_waits"), [(40_000, 0), (BUFFER, 0), (110_000, 1), (150_000, 2), (1_000_000, 21)]
)
def test_a_source_goes_on_when_tcp_has_taken_its_send(nbytes: int, n_waits: int) -> None:
    """Rank 0's second operation waits for its first: until the last of it is in the socket."""
    made = messages(4, [(0, 1, nbytes), (2, 0, 100)], [Gate(1, 0, (0,))])
    assert n_waits == max(0, ceil((nbytes + PREAMBLE_NBYTES - HELD) / FREED))
    _, (opened_s,) = carried(STAR, made)
    assert opened_s == pytest.approx(n_waits * FREED / QUICK, abs=AHEAD / QUICK)


def test_sends_of_one_connection_share_its_buffer() -> None:
    """Three of 60 KB at once: TCP takes the first, when it has waited once the second, and the third the next
    time.
    """
    sizes = [(0, 1, 60_000)] * 3
    gates = [Gate(number, 0, (number - 3,)) for number in (3, 4, 5)]
    made = messages(4, [*sizes, *[(2, 0, 100)] * 3], gates)
    _, opened_s = carried(STAR, made)
    assert opened_s == pytest.approx((0.0, FREED / QUICK, 2 * FREED / QUICK), abs=AHEAD / QUICK)


def fifo_s(sends: list[tuple[float, int]], packet: int = 250) -> list[float]:
    """When sends that begin at given times, from ports of QUICK of their own, have left a FIFO link of BUSY.

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
            port_s[number] = max(port_s[number], now_s) + packet / QUICK
            heappush(events, (port_s[number], 1, number))

    for number, (begin_s, _) in enumerate(sends):
        send(number, begin_s)
    while events:
        now_s, reaches, number = heappop(events)
        if reaches:
            link_s = max(link_s, now_s) + packet / BUSY
            heappush(events, (link_s, 0, number))
        else:
            under_way[number] -= 1
            ends_s[number] = now_s
            send(number, now_s)
    return ends_s


@pytest.mark.parametrize("nbytes", [30_000, 60_000, 120_000])
@pytest.mark.parametrize("at_s", [0.01, 0.02, 0.05])
def test_who_comes_later_waits_for_what_is_queued(nbytes: int, at_s: float) -> None:
    """Two hosts behind one uplink: 500 KB from the start on, and less that begins later."""
    made = messages(6, [(0, 3, 500_000), (1, 4, nbytes)], [Gate(1, 1, (), round(at_s * 1e9))])
    ends_s, _ = carried(OVERSUBSCRIBED, made)
    expected = fifo_s([(0.0, 500_000), (at_s, nbytes)])
    assert ends_s[1] - at_s == pytest.approx(expected[1] - at_s, rel=0.12)
    assert ends_s[0] == pytest.approx(expected[0], rel=0.02)


def test_a_notice_goes_the_other_way_and_waits_behind_what_its_own_rank_sends() -> None:
    """Rank 0 sends 1 MB, and is ready for rank 1's message after 5 ms."""
    made = messages(4, [(0, 1, 1_000_000), (1, 0, 100)], [Gate(1, 0, (), 5_000_000)])
    ends_s, _ = carried(STAR, made)
    assert ends_s[1] - 0.005 > SEGMENT / QUICK


@pytest.mark.parametrize(("later_op", "waits"), [(0, False), (1, True)])
def test_a_rank_says_that_it_is_ready_before_it_sends_in_the_same_operation(
    later_op: int, waits: bool
) -> None:
    """Rank 3 lets rank 0 send 1 MB to rank 1, whose notice is there, and receive from rank 2."""
    sends = (
        Send(0, 3, 0, 0, 100_000, False),
        Send(0, 0, 1, 0, 1_000_000, False, needs=(0,)),
        Send(later_op, 2, 0, 0, 100, False, ready=(0,)),
    )
    ops = (Op("allreduce", 1_000_000), Op("allreduce", 100))
    plan = unchecked_plan(STAR, Schedule.of(4, ops, sends))
    large = replace(COSTS, segment_nbytes=100_000)  # many bursts of a port
    ends_s = simulate(plan.fabric, plan.flows, plan.schedule, hosts=large).ends_s
    assert (ends_s[2] - ends_s[0] > 50_000 / QUICK) == waits


def test_notices_of_senders_are_bytes_of_their_connections() -> None:
    """1000 sends at one instant: gloo writes 48 bytes before each, and 48 more to say that it is ready."""
    ends_s, _ = carried(STAR, messages(4, [(0, 1, 52)] * 1000))
    assert max(ends_s) == pytest.approx(1000 * (52 + 2 * PREAMBLE_NBYTES) / QUICK, rel=0.1)


def test_too_many_segments_are_shared_as_fluids_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone segment crosses idle links at once; a fluid takes its time."""
    made = messages(4, [(0, 1, SEGMENT // 2)])
    assert carried(STAR, made)[0][0] < 0.1 * SEGMENT / QUICK
    monkeypatch.setattr("gradwire.planning.model.simulation.MOST_STEPS", 0)
    assert carried(STAR, made)[0][0] == pytest.approx(SEGMENT // 2 / QUICK)

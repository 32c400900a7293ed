"""What an operation waited for, in small made-up jobs of two or three ranks."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.recognition.computing import with_computing
from gradwire.traces.recognition.departures import Answers, Departures, Sent, when_come_ns
from gradwire.traces.recognition.entered import Entry
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.ports import TIMER_LATE_NS, HostPort, port_of
from gradwire.traces.recognition.starts import starts
from gradwire.traces.workload import Collective, Compute


def reduce(tag: int, begun: dict[int, int], done: dict[int, int]) -> Operation:
    return Operation("allreduce", "allreduce", tag, 100, 0, 0, begun, done)


def send(src: int, dst: int, begun: int, sent: int, arrived: int) -> Operation:
    return Operation("message", "send", 1, 10, src, dst, {src: begun}, {src: sent, dst: arrived})


def afters(operations: list[Operation]) -> list[dict[int, tuple[int, ...]]]:
    return [{start.rank: start.after for start in some} for some in starts(operations)]


def gaps(operations: list[Operation]) -> list[dict[int, int]]:
    return [{start.rank: start.gap_ns for start in some} for some in starts(operations)]


def test_the_next_begins_after_the_last_and_its_gap_is_the_compute_between() -> None:
    both = [reduce(1, {0: 0, 1: 3}, {0: 10, 1: 12}), reduce(2, {0: 15, 1: 40}, {0: 50, 1: 50})]
    assert afters(both)[1] == {0: (0,), 1: (0,)}
    assert gaps(both) == [{0: 0, 1: 0}, {0: 5, 1: 28}]


def test_overlapping_buckets_do_not_wait_for_each_other() -> None:
    world = [reduce(1, {0: 0}, {0: 10}), reduce(2, {0: 20}, {0: 60}), reduce(3, {0: 30}, {0: 50})]
    assert afters(world)[2] == {0: (0,)}
    assert gaps(world)[2] == {0: 20}


def test_after_overlapping_buckets_all_of_them_are_waited_for_and_nothing_older() -> None:
    world = [
        reduce(1, {0: 0}, {0: 10}),
        reduce(2, {0: 20}, {0: 60}),
        reduce(3, {0: 30}, {0: 50}),
        reduce(4, {0: 75}, {0: 80}),
    ]
    assert afters(world)[3] == {0: (1, 2)}
    assert gaps(world)[3] == {0: 15}


def test_what_begins_before_anything_is_complete_keeps_its_distance_from_the_first() -> None:
    world = [reduce(1, {0: 100}, {0: 900}), reduce(2, {0: 130}, {0: 910})]
    assert afters(world)[1] == {0: ()}
    assert gaps(world)[1] == {0: 30}


def test_a_server_waits_for_what_it_received() -> None:
    world = [send(1, 0, 0, 5, 9), send(2, 0, 1, 6, 8), send(0, 1, 20, 25, 30)]
    assert afters(world)[2] == {0: (0, 1)}
    assert gaps(world)[2] == {0: 11}


def test_an_answer_implies_the_question_at_the_one_who_asked() -> None:
    world = [send(1, 0, 0, 5, 9), send(0, 1, 20, 25, 30), send(1, 0, 47, 50, 60)]
    assert afters(world)[2] == {1: (1,)}
    assert gaps(world)[2] == {1: 17}


def test_sends_that_overlap_at_their_source_wait_for_the_same() -> None:
    world = [send(1, 0, 0, 5, 9), send(0, 1, 20, 40, 45), send(0, 2, 21, 41, 46)]
    assert afters(world)[2] == {0: (0,)}
    assert gaps(world)[2] == {0: 12}


MS = 1_000_000
PULL_NBYTES = 170_004
SEGMENT_NBYTES, SEGMENT_MS = 25_000, 2  # at 100 Mb/s


def message(src: int, dst: int, nbytes: int, begun_ms: float, data_ms: float, sent_ms: float) -> Operation:
    begun_ns, data_ns, sent_ns = (round(ms * MS) for ms in (begun_ms, data_ms, sent_ms))
    begun, done = {src: begun_ns}, {src: sent_ns, dst: sent_ns}
    return Operation("message", "send", 1, nbytes, src, dst, begun, done, data_ns=data_ns)


def port(*left_ms: float) -> HostPort:
    """One out of which a full segment left at each of these times."""
    left_ns = np.array([round(ms * MS) for ms in left_ms], np.int64)
    made = port_of(left_ns, np.full(len(left_ns), SEGMENT_NBYTES, np.int64))
    assert made is not None
    return made


def busy(begin_ms: float, end_ms: float) -> HostPort:
    return port(*np.arange(begin_ms, end_ms, SEGMENT_MS))


def ready_ms(
    operations: list[Operation], of: HostPort, entered_ms: Mapping[int, float] | None = None
) -> list[tuple[float, float] | None]:
    """The range of each operation's only rank, since all that it waited for was complete; rank 0 has `of`."""
    entered = {number: Entry(round(ms * MS), 0) for number, ms in (entered_ms or {}).items()}
    (found,) = zip(*starts(operations, ports={0: of}, entered=entered), strict=True)
    return [
        None if one.readiness is None else (one.readiness.least_ns / MS, one.readiness.most_ns / MS)
        for one in found
    ]


def one_packet(src: int, dst: int, at_ms: float) -> Operation:
    """Which arrives a tenth of a millisecond after it left."""
    begun_ns = round(at_ms * MS)
    done = {src: begun_ns, dst: begun_ns + MS // 10}
    return Operation("message", "send", 0, 1000, src, dst, {src: begun_ns}, done, data_ns=begun_ns)


def test_messages_of_one_packet_wait_for_the_latest_alone() -> None:
    """They are complete at their source as soon as they begin: each says that the one before was."""
    to_and_fro = [one_packet(n % 2, 1 - n % 2, n) for n in range(100)]
    assert [one.after for (one,) in starts(to_and_fro)][1:] == [(n,) for n in range(99)]
    one_way = [one_packet(0, 1, n) for n in range(100)]
    assert [one.after for (one,) in starts(one_way)][1:] == [(n,) for n in range(99)]


def test_pulls_written_at_once_leave_one_behind_the_other() -> None:
    """A server on a 100 Mb/s link: each connection may queue two segments before the next one's turn."""
    push = message(1, 0, PULL_NBYTES, 0, 0, 50)
    begun_ms = [50.5 + 2 * SEGMENT_MS * k for k in range(4)]
    pulls = [message(0, k + 1, PULL_NBYTES, at, at, 104 + k) for k, at in enumerate(begun_ms)]
    world, of = [push, *pulls], busy(50.5, 110)
    assert ready_ms(world, of) == [None, None, (0.5, 4.5), (0.5, 8.5), (0.5, 12.5)]
    found = [one for (one,) in starts(world, ports={0: of})]
    assert [one.gap_ns for one in found] == [0, MS // 2, 0, 0, 0]
    assert [one.computed_ns for one in found] == [0, *[MS // 2] * 4]
    assert [one.waited_ns for one in found] == [0, 0, 4 * MS, 8 * MS, 12 * MS]


@pytest.mark.parametrize(
    ("n_rounds", "between_ms", "apart_ms"),
    [(2, (), 0.06), (1, (), 0.0), (2, (0.03, 0.09, 10.03, 10.09), 0.0)],
)
def test_what_a_library_takes_between_messages_is_seen_where_none_queued(
    n_rounds: int, between_ms: tuple[float, ...], apart_ms: float
) -> None:
    """In each round notices to three others leave an idle port; at 40 ms data queue.  Two times are few, and
    where data of other messages leave in between, nothing is seen.
    """
    notices = [
        message(0, 1 + k, 100, at_ms, at_ms, at_ms)
        for number in range(n_rounds)
        for k, at_ms in enumerate((10 * number, 10 * number + 0.06, 10 * number + 0.12))
    ]
    pulls = [message(0, 1 + k, PULL_NBYTES, 40 + 4 * k, 40 + 4 * k, 90 + k) for k in range(3)]
    idle_ms = 40 - notices[-1].done[0] / MS
    *_, first, second, third = ready_ms([*notices, *pulls], port(*between_ms, *range(40, 94, 2)))
    assert first is None
    assert second == pytest.approx((idle_ms + apart_ms, idle_ms + 4))
    assert third == pytest.approx((idle_ms + 2 * apart_ms, idle_ms + 8))


def test_answers_of_one_packet_queue_too() -> None:
    """Each is handed over as it leaves, so the next waits for it, and for nothing else at the earliest."""
    world = [message(0, k + 1, 24_616, 2 * k, 2 * k, 2 * k) for k in range(4)]
    assert ready_ms(world, busy(0, 8)) == [None, (0, 2), (0, 2), (0, 2)]


def test_a_message_was_not_written_before_what_its_source_waited_for() -> None:
    world = [
        message(0, 1, PULL_NBYTES, 0, 0, 50),
        message(2, 0, 10, 1, 1, 3),
        message(0, 2, PULL_NBYTES, 6, 6, 56),
    ]
    assert ready_ms(world, busy(0, 60)) == [None, None, (0, 3)]


def test_nor_longer_ago_than_a_hosts_queue_lasts() -> None:
    """A layer's gradients are ready while those of the one before still leave: 128 KiB take 10.5 ms."""
    world = [message(0, 1, 100_000_000, 0, 0, 8000), message(0, 2, PULL_NBYTES, 4000, 4000, 8010)]
    (_, found) = ready_ms(world, busy(0, 8010))
    assert found is not None
    assert found == pytest.approx((4000 - 2 * 64 * 1024 / 12_500, 4000))


def test_behind_a_message_on_the_same_connection_it_may_have_waited_since_that_was_written() -> None:
    world = [message(0, 1, 100_000_000, 0, 0, 8000), message(0, 1, PULL_NBYTES, 4000, 4000, 8010)]
    assert ready_ms(world, busy(0, 8010)) == [None, (0, 4000)]


def test_layers_that_wait_for_their_receivers_links_were_computed_one_by_one() -> None:
    """Three are under way at a third of the port's rate: what leaves it is idle before did not queue."""
    layers = [message(0, k + 1, 125_000, 30 * k, 30 * k, 30 * k + 100) for k in range(4)]
    left_ms = sorted(30.0 * k + 20 * n for k in range(4) for n in range(5))
    of = port(*left_ms, 300, 302, 304, 306, 308)  # and once it was seen at its rate
    assert ready_ms(layers, of) == [None] * 4
    assert [one.gap_ns for (one,) in starts(layers, ports={0: of})] == [0, 30 * MS, 60 * MS, 90 * MS]


def test_what_is_announced_and_not_sent_yet_holds_nothing_up() -> None:
    world = [message(0, 1, PULL_NBYTES, 0, 200, 210), message(0, 2, PULL_NBYTES, 100, 100, 114)]
    assert ready_ms(world, busy(0, 300)) == [None, None]


def test_what_leaves_after_all_before_has_left_was_computed() -> None:
    world = [message(0, 1, PULL_NBYTES, 0, 0, 14), message(0, 2, PULL_NBYTES, 18, 18, 32)]
    of = port(*range(0, 15, 2), *range(18, 33, 2))
    assert ready_ms(world, of) == [None, None]
    assert gaps(world) == [{0: 0}, {0: 4 * MS}]


def test_without_the_hosts_own_capture_nothing_is_said_of_its_queue() -> None:
    world = [message(0, 1, PULL_NBYTES, 0, 0, 50), message(0, 2, PULL_NBYTES, 4, 4, 54)]
    assert [one.readiness for (one,) in starts(world)] == [None, None]


def test_where_it_is_known_when_it_entered_the_port_it_was_written_then() -> None:
    push = message(1, 0, PULL_NBYTES, 0, 0, 50)
    begun_ms = [50.5 + 2 * SEGMENT_MS * k for k in range(3)]
    pulls = [message(0, k + 1, PULL_NBYTES, at, at, 104 + k) for k, at in enumerate(begun_ms)]
    world, of = [push, *pulls], busy(50.5, 110)
    assert ready_ms(world, of, {2: 50.625}) == [None, None, (0.625, 0.625), (0.625, 8.5)]
    found = [one for (one,) in starts(world, ports={0: of}, entered={2: Entry(50_625_000, 0)})]
    assert [one.computed_ns / MS for one in found[1:]] == [0.5, 0.625, 0.625]
    assert [one.waited_ns / MS for one in found[1:]] == [0, 54.5 - 50.625, 58.5 - 50.625]
    (one,) = starts(world, entered={2: Entry(50_625_000, 0)})[2]  # of a port that shows no rate
    assert one.computed_ns == 625_000


def test_a_delay_that_is_hardly_one_is_no_computing_either() -> None:
    world = [message(1, 0, PULL_NBYTES, 0, 0, 50), message(0, 1, PULL_NBYTES, 50.9, 50.9, 64)]
    (one,) = starts(world, ports={0: busy(50, 70)}, entered={1: Entry(50_250_000, 0)})[1]
    assert (one.readiness, one.gap_ns) == (None, MS // 4)


def test_it_did_not_wait_for_what_came_in_while_it_queued() -> None:
    world = [
        message(1, 0, PULL_NBYTES, 0, 0, 40),
        message(2, 0, PULL_NBYTES, 30, 30, 46),
        message(0, 1, PULL_NBYTES, 42, 42, 90),
        message(0, 2, PULL_NBYTES, 50, 50, 98),
    ]
    of = busy(42, 100)

    def last_after(entered_ms: float | None) -> tuple[int, ...]:
        entered = {} if entered_ms is None else {3: Entry(round(entered_ms * MS), 0)}
        (one,) = starts(world, ports={0: of}, entered=entered)[3]
        return one.after

    assert last_after(None) == (0, 1)
    assert last_after(47) == (0, 1)
    assert last_after(45) == (0,)
    assert ready_ms(world, of, {3: 45})[3] == (5, 5)


@pytest.mark.parametrize("n_between", [0, 20])
def test_what_tcp_held_in_its_socket_may_have_been_written_before(n_between: int) -> None:
    """Until the one before to the same rank had arrived, or that rank's window had room; what others are sent
    holds nothing, and hides nothing.
    """

    def last_written_ms(dst: int, arrived_ms: float, offered_ms: float = 0) -> tuple[float, float]:
        first = Operation(
            "message", "send", 1, 10**8, 0, dst, {0: 2 * MS}, {0: 3000 * MS, dst: round(arrived_ms * MS)}
        )
        others = [message(0, 3 + n, 10, 3100 + n, 3100 + n, 3100 + n) for n in range(n_between)]
        last = message(0, 1, PULL_NBYTES, 4000, 4000, 8010)
        world = [message(0, 3, 10, 0, 0, 0), first, *others, last]
        entered = {1: Entry(MS, 0), len(world) - 1: Entry(3980 * MS, round(offered_ms * MS))}
        (one,) = starts(world, entered=entered)[-1]
        assert one.readiness is not None
        since_ns = max(world[other].done[0] for other in one.after)
        return (since_ns + one.readiness.least_ns) / MS, (since_ns + one.readiness.most_ns) / MS

    since_ms = 3100 + n_between - 1 if n_between else 3000
    exactly, held = (3980, 3980), (since_ms, 3980)
    found = [last_written_ms(*each) for each in ((2, 4001), (1, 3978), (1, 3978, 3978))]
    assert found == [exactly] * 3
    found = [last_written_ms(*each) for each in ((1, 4001), (1, 3979.95), (1, 3978, 3979.95))]
    assert found == [held] * 3


def left_by_tcp(
    written_ms: list[float], n_segments: list[int], queued: int, held_ms: float
) -> list[tuple[float, int]]:
    """When each segment leaves a port and for which rank, message k being for rank k + 1.

    Linux: of each connection so many segments are in queues, and the next one comes when one has arrived,
    `held_ms` after it began to leave (`tcp_small_queue_check`, net/ipv4/tcp_output.c; on a veth); the port
    sends what came first.
    """
    todo = dict(enumerate(n_segments, 1))
    events = [(at, 0, k) for k, at in enumerate(written_ms, 1)]  # then those that have arrived
    heapify(events)
    queue: deque[int] = deque()
    left: list[tuple[float, int]] = []
    now_ms = 0.0
    while events or queue:
        while events and (not queue or events[0][0] <= now_ms):
            at, has_arrived, k = heappop(events)
            now_ms = max(now_ms, at)
            n = min(1 if has_arrived else queued, todo[k])
            queue.extend([k] * n)
            todo[k] -= n
        if queue:
            k = queue.popleft()
            left.append((now_ms, k))
            heappush(events, (now_ms + held_ms, 1, k))
            now_ms += SEGMENT_MS
    return left


def answers(
    written_ms: list[float], n_segments: list[int], queued: int = 2, held_ms: float = 0.0
) -> tuple[list[Operation], HostPort]:
    """Messages of rank 0 written at such times, each to another rank, and the port that they left by."""
    left = left_by_tcp(written_ms, n_segments, queued, held_ms)
    of = [[at for at, peer in left if peer == k] for k in range(1, len(n_segments) + 1)]
    world = [
        message(0, k, len(times) * SEGMENT_NBYTES, times[0], times[0], times[-1])
        for k, times in enumerate(of, 1)
    ]
    made = port(*(at for at, _ in left), 1000, 1002, 1004, 1006, 1008)  # and once it was seen at its rate
    data = {k: arriving(times, queued, held_ms) for k, times in enumerate(of, 1)}
    return world, replace(made, data=data)


def arriving(left_ms: Sequence[float], queued: int, held_ms: float) -> Departures:
    """What left at these times, each acknowledged `held_ms` later, in windows that bound nothing."""
    left_ns = np.array([round(at * MS) for at in left_ms], np.int64)
    end = np.arange(1, len(left_ns) + 1, dtype=np.int64) * SEGMENT_NBYTES
    came_ns = np.append(-1, left_ns + round(held_ms * MS))
    acked = np.append(0, end)
    found = when_come_ns(
        Sent(left_ns, end - SEGMENT_NBYTES, end),
        Answers(came_ns, acked, acked + 10**9),
        n_queued=queued,
        cwnd_bounds=False,
    )
    return Departures(left_ns, found)


def unknown(*left_ms: float) -> Departures:
    """What left at these times, and nothing shows when it had come."""
    left_ns = np.array([round(at * MS) for at in left_ms], np.int64)
    return Departures(left_ns, left_ns)


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=6, unique=True),
    st.integers(2, 3),
    st.sampled_from([0.0, 0.3, 2.0, 3.1, 7.5, 25.0]),
    st.data(),
)
def test_when_it_was_written_is_in_the_range(
    written: list[int], queued: int, held_ms: float, data: st.DataObject
) -> None:
    """Or before something else of its source had left, which it seems to have waited for."""
    written_ms = [0.3 * at for at in sorted(written)]
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=len(written), max_size=len(written)))
    world, of = answers(written_ms, sizes, queued, held_ms)
    for at_ms, (one,) in zip(written_ms, starts(world, ports={0: of}), strict=True):
        since_ns = max((world[other].done[0] for other in one.after), default=world[0].begun[0])
        if one.readiness is not None:
            ready_ns = max(round(at_ms * MS) - since_ns, 0)
            assert one.readiness.least_ns <= ready_ns <= one.readiness.most_ns


def test_an_answer_was_written_before_the_next_segment_of_another_came_to_the_port() -> None:
    """The fourth segment of the first message came at 2 ms, when its second had arrived.  Where nothing shows
    that, the second message's decides for the third: its third came at 6 ms.
    """
    world, of = answers([0, 0.5, 0.6], [6, 6, 6])
    assert [one.begun[0] / MS for one in world] == [0, 6, 10]
    assert ready_ms(world, of) == [None, (0, 2), (0, 2)]
    assert [one.waited_ns / MS for (one,) in starts(world, ports={0: of})] == [0, 6, 10]
    first = unknown(*(of.data[1].left_ns / MS))
    assert ready_ms(world, replace(of, data={**of.data, 1: first})) == [None, (0, 6), (0, 6)]


def test_a_segment_that_waits_elsewhere_in_the_fabric_keeps_its_place() -> None:
    """It arrives 7 ms after it left: so the third of the first message comes at 7 ms, the second's at 11."""
    world, of = answers([0, 0.5, 0.6], [6, 6, 6], held_ms=7)
    assert [one.begun[0] / MS for one in world] == [0, 4, 8]
    assert ready_ms(world, of) == [None, (0, 4), (0, 7)]


def test_one_that_has_left_does_not_tell_when_the_next_came() -> None:
    world, of = answers([0, 2.9], [2, 6])
    assert ready_ms(world, of)[1] == (0, 2)  # since 2 ms, when the first had left


def test_a_connection_whose_next_segment_follows_a_pause_of_the_port_tells_nothing() -> None:
    """Its receiver may have held it up."""
    world = [message(0, 1, PULL_NBYTES, 0, 0, 40), message(0, 2, 2 * SEGMENT_NBYTES, 4, 4, 6)]
    of = port(0, 2, 4, 6, 20, 22, 24, 26)
    of = replace(of, data={1: arriving((0, 2, 20, 22, 24, 26), 2, 0)})
    assert ready_ms(world, of) == [None, (0, 4)]


def test_nor_does_one_to_the_same_destination() -> None:
    """What waited in its socket is not a sign of when the next message came there."""
    world = [message(0, 1, 4 * SEGMENT_NBYTES, 0, 0, 8), message(0, 1, 2 * SEGMENT_NBYTES, 4, 4, 10)]
    of = replace(busy(0, 12), data={1: arriving(range(0, 12, 2), 2, 0)})
    assert ready_ms(world, of) == [None, (0, 4)]


def test_bounds_that_cross_by_less_than_a_timers_lateness_leave_that_open() -> None:
    world = [message(0, 1, PULL_NBYTES, 0, 0, 60), message(0, 2, PULL_NBYTES, 20, 20, 70)]
    least_ns = 20 * MS - round(2 * 64 * 1024 / 12_500 * MS)
    for came_ns, latest_ns in ((least_ns - 200_000, least_ns + TIMER_LATE_NS), (least_ns - MS, 20 * MS)):
        data = {1: Departures(*np.array([[0, 22 * MS], [0, came_ns]], np.int64))}
        (_, found) = ready_ms(world, replace(busy(0, 80), data=data))
        assert found == pytest.approx((least_ns / MS, latest_ns / MS), abs=0.001)


def test_bounds_that_contradict_each_other_are_none() -> None:
    """A segment of the first left 20 ms before; what the queue holds takes 10.5 ms."""
    world = [message(0, 1, PULL_NBYTES, 0, 0, 60), message(0, 2, PULL_NBYTES, 20, 20, 70)]
    of = replace(busy(0, 80), data={1: Departures(*np.array([[0, 22], [0, 0]], np.int64) * MS)})
    least_ms = 20 - 2 * 64 * 1024 / 12_500
    (_, found) = ready_ms(world, of)
    assert found == pytest.approx((least_ms, 20))


def test_what_a_host_takes_between_two_collectives_is_no_computing_and_is_told_beside_it() -> None:
    """Iterations of 100, of which each rank computes for 30 and its host takes 4, or all there is."""
    world = [reduce(n, {0: n * 100, 1: n * 100}, {0: n * 100 + 66, 1: n * 100 + 100}) for n in range(1, 6)]
    found = starts(world, [0, 1, 2, 3, 4], {0: 4, 1: 4})
    assert [(one.gap_ns, one.host_ns) for one in found[0]] == [(0, 0)] * 2
    for some in found[1:]:
        assert [(one.gap_ns, one.host_ns) for one in some] == [(30, 4), (0, 0)]


@pytest.mark.parametrize("host_us", [500, 2000])
def test_no_rank_computes_twice_at_once_where_buckets_queue_and_hosts_take_time(host_us: int) -> None:
    """gloo's two threads: the third bucket begins 1 ms after one of two in flight is complete."""
    ms = 1_000_000
    made = []
    for number in range(8):
        ends = (300, 320) if number % 2 else (320, 300)
        for place, (begin, end) in enumerate(((10, ends[0]), (20, ends[1]), (301, 390))):
            begun = dict.fromkeys(range(2), (number * 400 + begin) * ms)
            done = dict.fromkeys(range(2), (number * 400 + end) * ms)
            made.append(replace(reduce(3 * number + place, begun, done), nbytes=1000 * (place + 1)))
    found = starts(made, [number // 3 for number in range(24)], dict.fromkeys(range(2), host_us * 1000))
    assert all(some[0].readiness for some in found[5::3])
    items = [
        Collective(kind="allreduce", tag=n, nbytes=one.nbytes, iteration=n // 3) for n, one in enumerate(made)
    ]
    computing = [item for item in with_computing(items, found, {}) if isinstance(item, Compute)]
    after = Counter((item.rank, item.start.after) for item in computing)
    assert set(after.values()) == {1}

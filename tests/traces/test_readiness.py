"""What a message's destination did before it asked for the data, and schedules in which it does so again."""

import pytest
from pydantic import ValidationError

from gradwire.planning.model.simulation import simulate
from gradwire.planning.plancheck import check_schedule
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.readiness import MAX_AFTER, readiness, without_circles
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.gates import prepared
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.pushes import summed_pushes
from gradwire.traces.schedules.selection import in_order
from gradwire.traces.workload import Collective, Item, Message, Start, Workload
from tests.made_plans import schedule_plan

S = 1_000_000_000


def message(src: int, dst: int, offered: int, ready: int | None, data: int, done: int) -> Operation:
    """Times in ns: offered by its source, asked for by its destination, first byte, whole."""
    return Operation(
        "message",
        "send",
        0,
        1000,
        src,
        dst,
        {src: offered},
        {src: done, dst: done},
        data_ns=data,
        ready_ns=ready,
    )


def after(operations: list[Operation]) -> list[tuple[int, ...] | None]:
    return [None if each is None else each.start.after for each in readiness(operations)]


def together_with(operations: list[Operation]) -> list[int | None]:
    return [each and each.together_with for each in readiness(operations)]


def test_a_server_that_serves_one_after_the_other_asks_when_it_has_answered() -> None:
    """Both pushes are offered at once; the second is asked for while the first one's answer leaves."""
    operations = [
        message(1, 0, 0, 1, 2, 100),
        message(2, 0, 0, 140, 141, 240),
        message(0, 1, 100, 3, 101, 201),
    ]
    assert after(operations) == [(), (2,), ()]


def test_a_server_that_asks_all_at_once_waits_for_what_it_had_done_before() -> None:
    """A round: both pushes asked for at 10, both answers; then the next round's at 130."""
    operations = [
        message(1, 0, 5, 10, 12, 60),
        message(2, 0, 6, 10, 12, 70),
        message(0, 1, 71, 15, 71, 150),
        message(0, 2, 71, 16, 72, 150),
        message(1, 0, 155, 130, 156, 200),
        message(2, 0, 155, 130, 156, 210),
    ]
    assert after(operations)[:2] == [(), ()]
    assert after(operations)[4:] == [(2, 3), (2, 3)]


def test_an_exchange_is_asked_for_together_with_its_own_send() -> None:
    """Rank 0 asks for the other's data when its own has just begun to leave, and again when half has left."""
    at_once = [message(0, 1, 0, 1, 2, 102), message(1, 0, 0, 3, 4, 104)]
    assert after(at_once)[1] == ()
    assert together_with(at_once)[1] == 0
    waited = [message(0, 1, 0, 1, 2, 102), message(1, 0, 0, 52, 53, 153)]
    assert after(waited)[1] == (0,)
    assert together_with(waited)[1] is None


@pytest.mark.parametrize(("asked", "with_push"), [(125, None), (130, 1), (140, 2)])
def test_a_worker_asks_for_answers_together_with_the_pushes_that_it_announced(
    asked: int, with_push: int | None
) -> None:
    """It has an answer whole at 100, computes, and announces pushes to two servers at 130 and 131, which take
    them at 200 and 300: what it asks for by then waits for what it computed before the push announced last.
    """
    operations = [
        message(0, 2, 0, 1, 2, 100),
        message(2, 0, 130, 199, 200, 299),
        message(2, 1, 131, 299, 300, 399),
        message(0, 2, 310, asked, 311, 410),
    ]
    assert after(operations)[3] == (0,)
    assert together_with(operations)[3] == with_push


def test_a_notice_that_waited_behind_data_was_written_with_the_first_of_its_kind() -> None:
    """A server answers two workers, then asks both.  Its notice to the second waits behind 300 ms of data, in
    which the first one's push comes: the second push does not wait for that.
    """
    ms = 1_000_000
    answers = [message(0, 1, 0, 0, 100 * ms, 150 * ms), message(0, 2, 0, 0, 101 * ms, 400 * ms)]
    pushes = [
        message(1, 0, 155 * ms, 150 * ms, 156 * ms, 200 * ms),
        message(2, 0, 405 * ms, 400 * ms, 406 * ms, 450 * ms),
    ]
    assert after([*answers, *pushes])[2:] == [(0,), (0,)]
    later = [pushes[0], message(2, 0, 405 * ms, 402 * ms, 406 * ms, 450 * ms)]
    assert after([*answers, *later])[2:] == [(0,), (2,)]  # the interface was free when it was written


def test_a_rank_that_only_receives_asks_for_the_next_when_the_last_is_whole() -> None:
    operations = [message(1, 0, 0, 1, 2, 100), message(2, 0, 0, 101, 102, 200)]
    assert after(operations) == [(), (0,)]


def test_nothing_is_said_where_no_notice_was_seen_or_of_collectives() -> None:
    silent = message(1, 0, 0, None, 2, 100)
    ring = Operation("allreduce", "allreduce", 1, 8, 0, -1, {0: 0, 1: 0}, {0: 50, 1: 60})
    assert after([silent, ring]) == [None, None]
    assert after([ring, message(1, 0, 55, 58, 59, 90)]) == [None, (0,)]


def test_many_answers_are_stood_for_by_the_last() -> None:
    answers = [message(0, 1 + number, number, None, number, 600) for number in range(40)]
    (*_, asked) = after([*answers, message(1, 0, 2, 500, 501, 900)])
    assert asked == tuple(range(40 - MAX_AFTER, 40))


def item(src: int, dst: int, begin: tuple[int, ...] = (), ready: tuple[int, ...] | None = None) -> Message:
    prepared_at = None if ready is None else Start(rank=dst, after=ready)
    return Message(src=src, dst=dst, nbytes=1_000_000, start=Start(rank=src, after=begin), ready=prepared_at)


SERVED = (item(1, 0), item(2, 0, ready=(2,)), item(0, 1, (0,)), item(0, 2, (1,)))
"""Two pushes offered at once to rank 0, which takes the second when it has answered the first."""


def workload(items: tuple[Item, ...]) -> Workload:
    return Workload(schema="gradwire.workload/2", framing="gloo", n_ranks=3, items=items)


def test_a_message_is_sent_after_what_its_destination_does_first() -> None:
    schedule = expand(workload(SERVED))
    check_schedule(schedule)
    assert [(send.src, send.dst) for send in schedule.sends] == [(1, 0), (0, 1), (2, 0), (0, 2)]
    gates = {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    assert gates[2, 0] == (1,)  # the second push at its destination


def test_a_server_that_serves_one_after_the_other_ends_the_first_one_first() -> None:
    """Messages of 1 MB over links of 50 Mb/s: alone each takes 168 ms, two that share a link twice that."""
    each_s = 1e6 * 8 / (50e6 * 1448 / 1514)

    def first_answer_s(items: tuple[Message, ...]) -> float:
        plan = schedule_plan("star:hosts=3,rate=50M", expand(workload(items)))
        ends_s = simulate(plan.fabric, plan.flows, plan.schedule).ends_s.tolist()
        (number,) = (n for n, send in enumerate(plan.schedule.sends) if (send.src, send.dst) == (0, 1))
        return float(ends_s[number])

    free = tuple(each.model_copy(update={"ready": None}) for each in SERVED)
    assert first_answer_s(SERVED) == pytest.approx(2 * each_s, rel=0.01)
    assert first_answer_s(free) == pytest.approx(4 * each_s, rel=0.01)


CIRCLE = (item(1, 2), item(0, 1, ready=(2,)), item(1, 0, (1,), ready=(0, 1)), item(2, 0, ready=(2,)))
"""Rank 1 takes message 1 after message 2, which it sends when it has message 1."""


def test_messages_that_wait_for_each_other_are_refused_by_their_numbers() -> None:
    with pytest.raises(ValidationError, match="items 1, 2 wait for each other: item 1 is `ready` only after"):
        workload(CIRCLE)
    with pytest.raises(ValueError, match="items 1, 2 wait for each other"):
        in_order(dict(enumerate(CIRCLE)))
    longer = (item(0, 1, ready=(2,)), item(1, 2, (0,)), item(2, 1, (1,)))
    with pytest.raises(ValueError, match=r"items 0, 2, 1 wait .* item 0 is `ready` only after item 2"):
        summed_pushes(longer, dict(enumerate(longer)))


def test_of_messages_that_wait_for_each_other_by_the_clocks_only_what_comes_later_is_left_out() -> None:
    items, n_changed = without_circles(CIRCLE)
    assert n_changed == 1
    ready = [each.ready and each.ready.after for each in items if isinstance(each, Message)]
    assert ready == [None, (), (0, 1), (2,)]
    assert without_circles(SERVED) == (list(SERVED), 0)


@pytest.mark.parametrize("algorithm", ["ina", "ina:leaf"])
def test_with_switches_that_add_a_message_comes_after_what_its_destination_does_first(algorithm: str) -> None:
    """An allreduce, and after it a message that is listed before the one that its destination waits for."""
    allreduce = Collective(kind="allreduce", tag=0, nbytes=8, starts=tuple(Start(rank=r) for r in range(3)))
    items = (allreduce, item(2, 0, (0,), ready=(2,)), item(0, 1, (0,)))
    schedule = expand(workload(items), algorithm, hints=Hints(leaves=((0, 1), (2,))))
    check_schedule(schedule)
    gates = {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    assert schedule.ops[2].members == (0, 2)
    assert gates[2, 0] == (1,)


def test_nothing_is_prepared_for_what_is_left_out() -> None:
    chosen = {1: SERVED[1], 3: SERVED[3]}
    assert in_order(chosen) == [1, 3]
    assert list(prepared(chosen, ((1,), (3,)))) == []


def test_what_a_destination_waits_for_stays_where_switches_add_up_other_messages() -> None:
    """A pull that its worker takes after another message, beside pushes that are one operation."""
    pushes, pull = {0: item(1, 0), 1: item(2, 0)}, {2: item(0, 1)}
    chosen = {**pushes, **pull, 3: item(0, 2, ready=(0, 1)), 4: item(0, 1, ready=(2,))}
    gates = list(prepared(chosen, ((0, 1), (2,), (3,), (4,))))
    assert [(gate.op, gate.rank, gate.after) for gate in gates] == [(2, 2, (0,)), (3, 1, (1,))]
    assert not list(prepared({0: item(1, 0), 1: item(2, 0), 2: item(1, 0, ready=(0,))}, ((0, 1), (2,))))

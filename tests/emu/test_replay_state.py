"""A rank's state lets everything happen that may, and nothing else."""

import random

import pytest

from gradwire.emu.replay.state import Possible, RankState
from gradwire.planning.fabrics.hints import hints_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.names import ALGORITHMS, FAMILIES
from gradwire.traces.schedules.schedule import Aggregation, Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send

FABRIC = parse_fabric("leaf-spine:leaves=4,spines=1,hosts=2")
HINTS = hints_of(FABRIC, FABRIC.hosts)
ONE_NAME = [name for name in ALGORITHMS if name not in FAMILIES.values()]


def play(schedule: Schedule, seed: int) -> list[int]:
    """Let all ranks go on in a random order; the sends in the order in which they arrived.

    An aggregation ends at a rank some time after all its members have begun it.
    """
    pick = random.Random(seed)
    states = [RankState(schedule, rank) for rank in range(schedule.n_ranks)]
    sendable: set[int] = set()
    ready: set[int] = set()
    order: list[int] = []
    begun: list[set[int]] = [set() for _ in schedule.aggregations]
    to_hear: set[tuple[int, int]] = set()  # (aggregation, rank)

    def learn(rank: int, possible: Possible) -> None:
        sendable.update(possible.sends)
        ready.update(possible.receives)
        assert not possible.gaps
        for number in possible.aggregations:
            aggregation = schedule.aggregations[number]
            same = [n for n, each in enumerate(schedule.aggregations) if each.givers == aggregation.givers]
            assert all(rank in begun[earlier] for earlier in same[: same.index(number)])
            begun[number].add(rank)
            if len(begun[number]) == len(aggregation.members):
                to_hear.update((number, member) for member in aggregation.members)

    for rank, state in enumerate(states):
        learn(rank, state.begin())
    while (both := sorted(sendable & ready)) or to_hear:
        chosen = pick.randrange(len(both) + len(to_hear))
        if chosen >= len(both):
            number, rank = sorted(to_hear)[chosen - len(both)]
            to_hear.remove((number, rank))
            learn(rank, states[rank].aggregated(number))
            continue
        number = both[chosen]
        sendable.remove(number)
        order.append(number)
        send = schedule.sends[number]
        learn(send.src, states[send.src].finished(number))
        learn(send.dst, states[send.dst].finished(number))
    assert all(state.is_done for state in states)
    return order


@pytest.mark.broad(8)
@pytest.mark.parametrize("algorithm", [*ONE_NAME, "ps:central", "ps:servers=3,overlap=off", "ps:colocated"])
@pytest.mark.parametrize("seed", range(5))
def test_every_order_that_is_possible_ends_and_respects_what_sends_need(algorithm: str, seed: int) -> None:
    schedule = expand(made_allreduce(8, 340_008, count=3), algorithm, hints=HINTS)
    order = play(schedule, seed)
    place = {number: i for i, number in enumerate(order)}
    assert len(order) == len(schedule.sends)
    for number, send in enumerate(schedule.sends):
        assert all(place[other] < place[number] for other in (*send.needs, *send.ready))


def test_an_operation_waits_for_the_one_before_it_on_the_same_rank() -> None:
    schedule = expand(made_allreduce(4, 4000, count=2), "ring")
    order = play(schedule, seed=3)
    last_of_first = {
        rank: max(
            order.index(n) for n, s in enumerate(schedule.sends) if s.op == 0 and rank in (s.src, s.dst)
        )
        for rank in range(4)
    }
    for number, send in enumerate(schedule.sends):
        if send.op == 1:
            assert order.index(number) > last_of_first[send.src]


def test_a_compute_gap_is_waited_for_after_what_it_follows() -> None:
    schedule = Schedule.of(
        2,
        (Op("message", 10), Op("message", 10, root=1)),
        (Send(0, 0, 1, 0, 10, False), Send(1, 1, 0, 0, 10, False)),
        (Gate(1, 1, (0,), 500),),
    )
    state = RankState(schedule, 1)
    assert state.begin().receives == [0]
    assert state.finished(0).gaps == [(1, 500)]
    assert state.opened(1).sends == [1]


def two_sums(gap_ns: int = 0) -> Schedule:
    """Two allreduces of one group; the second has a send, from rank 0 to rank 1, who is not of the group."""
    group = (0, 2)
    return Schedule.of(
        3,
        (Op("allreduce", 40), Op("allreduce", 40)),
        (Send(1, 0, 1, 0, 40, False),),
        (Gate(0, 2, (), gap_ns),) if gap_ns else (),
        (Aggregation(0, group, group), Aggregation(1, group, group)),
    )


def test_an_aggregation_is_held_back_until_the_earlier_ones_of_its_group_have_begun() -> None:
    state = RankState(two_sums(gap_ns=500), 2)
    first = state.begin()
    assert (first.aggregations, first.gaps) == ([], [(0, 500)])
    assert state.opened(0).aggregations == [0, 1]


def test_a_rank_of_an_aggregation_sends_only_what_it_has_the_sum_of_and_others_at_once() -> None:
    sender, receiver = RankState(two_sums(), 0), RankState(two_sums(), 1)
    assert receiver.begin().receives == [0]
    assert sender.begin().sends == []
    assert sender.aggregated(0).sends == []
    assert sender.aggregated(1).sends == [0]
    assert not sender.is_done
    sender.finished(0)
    assert sender.is_done


def test_an_operation_without_sends_lets_the_next_one_begin_when_its_sum_is_there() -> None:
    schedule = Schedule.of(
        2,
        (Op("allreduce", 40), Op("message", 4, root=0)),
        (Send(1, 0, 1, 0, 4, False),),
        (Gate(1, 0, (0,)), Gate(1, 1, (0,), 70)),
        (Aggregation(0, (0, 1), (0, 1)),),
    )
    sender, receiver = RankState(schedule, 0), RankState(schedule, 1)
    assert (sender.begin().sends, sender.aggregated(0).sends) == ([], [0])
    assert (receiver.begin().gaps, receiver.aggregated(0).gaps) == ([], [(1, 70)])

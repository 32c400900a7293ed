"""A rank's state lets everything happen that may, and nothing else."""

import random

import pytest

from emu.replay.state import Possible, RankState
from traces.schedules.expand import ALGORITHMS, expand
from traces.schedules.schedule import Gate, Op, Schedule, Send
from traces.workload import made_allreduce


def play(schedule: Schedule, seed: int) -> list[int]:
    """Let all ranks go on in a random order; the sends in the order in which they arrived."""
    pick = random.Random(seed)
    states = [RankState(schedule, rank) for rank in range(schedule.n_ranks)]
    sendable: set[int] = set()
    ready: set[int] = set()
    order: list[int] = []

    def learn(possible: Possible) -> None:
        sendable.update(possible.sends)
        ready.update(possible.receives)
        assert not possible.gaps

    for state in states:
        learn(state.begin())
    while both := sorted(sendable & ready):
        number = pick.choice(both)
        sendable.remove(number)
        order.append(number)
        send = schedule.sends[number]
        learn(states[send.src].finished(number))
        learn(states[send.dst].finished(number))
    assert not any(state.unfinished for state in states)
    return order


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(5))
def test_every_order_that_is_possible_ends_and_respects_what_sends_need(algorithm: str, seed: int) -> None:
    schedule = expand(made_allreduce(8, 340_008, count=3), algorithm)
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
    schedule = Schedule(
        2,
        (Op("message", 10), Op("message", 10, root=1)),
        (Send(0, 0, 1, 0, 10, False), Send(1, 1, 0, 0, 10, False)),
        (Gate(1, 1, (0,), 500),),
    )
    state = RankState(schedule, 1)
    assert state.begin().receives == [0]
    assert state.finished(0).gaps == [(1, 500)]
    assert state.opened(1).sends == [1]

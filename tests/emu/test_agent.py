"""What a rank's agent hands to TCP first."""

import os
import select
import socket
import time

import pytest

from gradwire.emu.replay.aggregating import Aggregating
from gradwire.emu.replay.connection import RankConnection
from gradwire.emu.replay.loop import Loop
from gradwire.emu.replay.polling import events_within
from gradwire.emu.replay.rankrepeat import RankRepeat
from gradwire.traces.schedules.algorithms.gloo import gloo_ring
from gradwire.traces.schedules.schedule import Op, Schedule
from tests.made_plans import messages, schedule_plan


class Recorded(RankConnection):
    """Notes who was written to, in order."""

    def __init__(self, sock: socket.socket, peer: int, order: list[int]) -> None:
        super().__init__(sock, peer)
        self._order = order

    def flush(self) -> list[int]:
        if self.wants_to_send:
            self._order.append(self.peer)
        return super().flush()


def written_to(schedule: Schedule, rank: int, peers: tuple[int, ...]) -> list[int]:
    """The peers of a rank's connections in the order in which it writes to them at the common start."""
    order: list[int] = []
    pairs = [socket.socketpair() for _ in peers]
    try:
        ends = [Recorded(mine, peer, order) for (mine, _), peer in zip(pairs, peers, strict=True)]
        plan = schedule_plan(f"star:hosts={schedule.n_ranks}", schedule)
        own = RankRepeat.of(plan, rank, 0, list[RankConnection](ends), None)
        loop = Loop(own, Aggregating(plan, rank, ()))
        loop._do(loop._state.begin())
    finally:
        for pair in pairs:
            for end in pair:
                end.close()
    return order


@pytest.mark.parametrize("rank", range(3))
def test_at_an_instant_notices_leave_before_data_on_the_hosts_one_link(rank: int) -> None:
    """gloo posts its receives first (gloo/allreduce.cc): else its predecessor's data wait for its own."""
    schedule = Schedule.of(3, (Op("allreduce", 3000),), tuple(gloo_ring(3, 3000)))
    successor, predecessor = (rank - 1) % 3, (rank + 1) % 3
    assert written_to(schedule, rank, (successor, predecessor)) == [predecessor, successor]


@pytest.mark.parametrize("peers", [(1, 2), (2, 1)])
def test_an_earlier_operation_of_the_same_instant_goes_first(peers: tuple[int, int]) -> None:
    schedule = messages(3, [(0, 1, 1000), (2, 0, 1000)])
    assert written_to(schedule, 0, peers) == [1, 2]


def test_a_wait_of_a_part_of_a_millisecond_ends_when_it_should() -> None:
    """epoll alone rounds up: 0.2 ms would take 1 ms at least, however often one tries."""

    def waited_s() -> float:
        begin_s = time.monotonic()
        assert events_within(poll, 0.2e-3) == []
        return time.monotonic() - begin_s

    with select.epoll() as poll:
        assert 0.2e-3 <= min(waited_s() for _ in range(50)) < 0.9e-3


def test_a_wait_ends_with_what_happens() -> None:
    reading, writing = os.pipe()
    try:
        with select.epoll() as poll:
            poll.register(reading, select.EPOLLIN)
            os.write(writing, b"x")
            for timeout_s in (0.0, 0.5e-3, 60.0):
                assert events_within(poll, timeout_s) == [(reading, select.EPOLLIN)]
    finally:
        os.close(reading)
        os.close(writing)

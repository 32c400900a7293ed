"""What a rank's agent hands to TCP first."""

import socket

import pytest

from gradwire.emu.replay.aggregating import Aggregating
from gradwire.emu.replay.connection import RankConnection
from gradwire.emu.replay.loop import Loop
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

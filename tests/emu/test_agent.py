"""What a rank's agent hands to TCP first."""

import socket

import pytest

from gradwire.emu.replay.agent import RankAgent
from gradwire.emu.replay.connection import RankConnection
from gradwire.traces.schedules.collectives import gloo_ring
from gradwire.traces.schedules.schedule import Op, Schedule
from tests.made_plans import schedule_plan


class Recorded(RankConnection):
    """Notes who was written to, in order."""

    def __init__(self, sock: socket.socket, peer: int, order: list[int]) -> None:
        super().__init__(sock, peer)
        self._order = order

    def flush(self) -> list[int]:
        if self.wants_to_send:
            self._order.append(self.peer)
        return super().flush()


@pytest.mark.parametrize("rank", range(3))
def test_at_an_instant_notices_leave_before_data_on_the_hosts_one_link(rank: int) -> None:
    """gloo posts its receives first (gloo/allreduce.cc): else its predecessor's data wait for its own."""
    schedule = Schedule(3, (Op("allreduce", 3000),), tuple(gloo_ring(3, 3000)))
    order: list[int] = []
    pairs = [socket.socketpair() for _ in range(2)]
    try:
        successor, predecessor = (rank - 1) % 3, (rank + 1) % 3
        ends = [
            Recorded(mine, peer, order)
            for (mine, _), peer in zip(pairs, (successor, predecessor), strict=True)
        ]
        agent = RankAgent(schedule_plan("star:hosts=3", schedule), rank, list[RankConnection](ends), (), 0)
        agent._do(agent._state.begin())
    finally:
        for pair in pairs:
            for end in pair:
                end.close()
    assert order == [predecessor, successor]

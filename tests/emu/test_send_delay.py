"""Agents hold sends back for their delay, those of a rank side by side, and are not taken for stalled."""

import socket
import threading
import time
from dataclasses import replace

import pytest

from gradwire.emu.replay import rankrepeat
from gradwire.emu.replay.agent import RankAgent
from gradwire.emu.replay.connection import RankConnection
from gradwire.emu.replay.outcome import Outcome
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import allreduce_plan, schedule_plan

MS = 1_000_000


def with_delay(plan: Plan, delay_ns: int) -> Plan:
    depth_s = delay_ns * len(plan.schedule.sends) / 1e9
    return replace(
        plan,
        schedule=replace(plan.schedule, send_delay_ns=delay_ns),
        prediction=replace(plan.prediction, fluid_s=plan.prediction.fluid_s + depth_s),
    )


def carried_out(plan: Plan) -> list[Outcome]:
    """What the plan's agents report, each a thread, on connections of this machine with itself."""
    connections: dict[int, list[RankConnection]] = {rank: [] for rank in range(plan.n_ranks)}
    for low, high in sorted({(min(pair), max(pair)) for pair in plan.schedule.sends.pairs()}):
        with socket.create_server(("127.0.0.1", 0)) as server:
            one = socket.create_connection(server.getsockname())
            other, _ = server.accept()
        for sock, rank, peer in ((one, low, high), (other, high, low)):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connections[rank].append(RankConnection(sock, peer))
    agents = [RankAgent(plan, rank, connections[rank], (), 0) for rank in range(plan.n_ranks)]
    start_ns = time.monotonic_ns() + 10 * MS
    threads = [threading.Thread(target=each.run, args=(start_ns,)) for each in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = [each.outcome() for each in agents]
    for connection in (each for some in connections.values() for each in some):
        connection.sock.close()
    return outcomes


def test_each_send_leaves_its_delay_after_it_may_and_those_of_a_step_together() -> None:
    plan = with_delay(allreduce_plan("star:hosts=4", "all-pairs", nbytes=4000), 150 * MS)
    for outcome in carried_out(plan):
        assert outcome.wrong == 0
        queued_ns, handed_ns = outcome.times.queued_ns, outcome.times.handed_ns
        assert len(handed_ns) == 6
        assert all(handed_ns[number] - queued_ns[number] >= 150 * MS for number in handed_ns)
        for step in (0, 1):
            mine = [number for number in handed_ns if plan.schedule.sends[number].step == step]
            assert max(queued_ns[number] for number in mine) < min(handed_ns[number] for number in mine)


def test_a_rank_that_waits_for_the_delays_of_others_is_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 3 hears nothing while two messages are delayed elsewhere, for longer than silence may last."""
    monkeypatch.setattr(rankrepeat, "STALL_S", 0.1)
    hops = [(0, 1), (1, 0), (0, 3)]
    sends = [Send(i, a, b, 0, 40, reduce=False, needs=(i - 1,) if i else ()) for i, (a, b) in enumerate(hops)]
    ops = [Op("message", 40, tag=i, root=a) for i, (a, _) in enumerate(hops)]
    plan = with_delay(schedule_plan("star:hosts=4", Schedule.of(4, ops, sends)), 150 * MS)
    outcomes = carried_out(plan)
    assert outcomes[3].times.arrived_ns[2] - outcomes[0].times.queued_ns[0] >= 450 * MS

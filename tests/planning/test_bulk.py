"""The fluid model in columns gives the times of the one that goes from event to event."""

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

import numpy as np
import pytest

from gradwire.planning.model import bulk, loops, simulation
from gradwire.planning.model.simulation import Simulated, simulate
from gradwire.planning.plan import Plan
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan

ALPHA_S = 0.001


@pytest.fixture
def in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules of all sizes are simulated in columns, by loops that numba does not compile for that."""
    monkeypatch.setattr(simulation, "COLUMNS_ABOVE", -1)
    monkeypatch.setattr(loops, "compile_loops", lambda: None)
    for name in loops.LOOPS:
        monkeypatch.setattr(loops, name, loops.plain(getattr(loops, name)))


def simulated(plan: Plan, alpha_s: float = 0.0) -> Simulated:
    return simulate(plan.fabric, plan.flows, plan.schedule, alpha_s=alpha_s)


def event_by_event(plan: Plan, alpha_s: float = 0.0) -> Simulated:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulation, "COLUMNS_ABOVE", 10**9)
        return simulated(plan, alpha_s)


def assert_same(a: Simulated, b: Simulated) -> None:
    for one, other in ((a.ready_s, b.ready_s), (a.ends_s, b.ends_s), (a.opened_s, b.opened_s)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert a.time_s == pytest.approx(b.time_s, rel=1e-9)


@pytest.mark.broad(8)
@pytest.mark.usefixtures("in_columns")
@pytest.mark.parametrize(
    "spec",
    ["star:hosts=13", "fat-tree:k=4,levels=2", "leaf-spine:leaves=7,spines=1,hosts=2", "torus:x=4,y=4"],
)
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "all-pairs", "tree:binary"])
@pytest.mark.parametrize("alpha_s", [0.0, ALPHA_S])
def test_collectives_take_the_same_times(spec: str, algorithm: str, alpha_s: float) -> None:
    """With flows that share links and flows that do not, on 7 or more ranks."""
    n_ranks = 7 if "fat-tree" in spec else 13
    schedule = expand(made_allreduce(n_ranks, n_ranks * 40_000, count=2), algorithm)
    for gates in (schedule.gates, ()):
        plan = schedule_plan(spec, replace(schedule, gates=gates))
        assert_same(simulated(plan, alpha_s), event_by_event(plan, alpha_s))


@pytest.mark.usefixtures("in_columns")
def test_computing_and_gates_that_wait_for_several_take_the_same_times() -> None:
    """Each rank computes for another time between two rings, and a message waits for both and is empty."""
    ring = expand(made_allreduce(3, 120_000, count=2), "ring")
    first, rest = ring.sends.op == 0, np.int32(4)
    ops = (
        ring.ops[0],
        *(Op("compute", 0, root=rank) for rank in range(3)),
        ring.ops[1],
        Op("message", 0, root=1),
    )
    computing = (Gate(1 + rank, rank, (0,), (rank + 1) * 10**7) for rank in range(3))
    begins = (Gate(4, rank, (0, 1 + rank)) for rank in range(3))
    ends = (Gate(5, 1, (0, 4), 3), Gate(5, 2, (4,)))
    sends = [*replace(ring.sends, op=np.where(first, np.int32(0), rest)), Send(5, 1, 2, 0, 0, reduce=False)]
    plan = schedule_plan("star:hosts=3", Schedule.of(3, ops, sends, (*computing, *begins, *ends)))
    assert_same(simulated(plan), event_by_event(plan))


@pytest.mark.usefixtures("in_columns")
def test_sends_of_one_connection_leave_one_after_the_other_in_the_order_of_their_numbers() -> None:
    plan = schedule_plan("star:hosts=2,rate=80M", messages(2, [(0, 1, 10_000), (0, 1, 20_000)]))
    byte_s = 1 / (10e6 * PAYLOAD_EFFICIENCY)
    assert simulated(plan).ends_s == pytest.approx([10_000 * byte_s, 30_000 * byte_s])


@pytest.mark.usefixtures("in_columns")
def test_a_latency_lies_between_getting_ready_and_leaving() -> None:
    plan = schedule_plan(
        "star:hosts=3,rate=80M", messages(3, [(0, 1, 10_000), (1, 2, 10_000)], [Gate(1, 1, (0,))])
    )
    sent_s = 10_000 / (10e6 * PAYLOAD_EFFICIENCY)
    late = replace(plan, schedule=replace(plan.schedule, send_delay_ns=2_000_000))
    found = simulated(late, ALPHA_S)
    assert found.ready_s == pytest.approx([0.0, 0.003 + sent_s])
    assert found.ends_s == pytest.approx([0.003 + sent_s, 2 * (0.003 + sent_s)])


@pytest.mark.usefixtures("in_columns")
@pytest.mark.parametrize(
    ("gates", "said"),
    [
        (
            [Gate(1, 1, (0,)), Gate(0, 0, (1,))],
            "2 sends or sums wait for each other and never begin, among them send 0",
        ),
    ],
)
def test_what_never_begins_is_named(gates: Sequence[Gate], said: str) -> None:
    plan = schedule_plan("star:hosts=3", messages(3, [(0, 1, 8), (1, 0, 8)]))
    stuck = replace(plan, schedule=replace(plan.schedule, gates=tuple(gates)))
    with pytest.raises(ValueError, match=said):
        simulated(stuck)


@pytest.mark.usefixtures("in_columns")
@pytest.mark.parametrize("seed", range(20))
def test_timers_are_taken_in_the_order_of_a_heap(seed: int) -> None:
    """Many are due at the same time, and there are none in between."""
    random = Random(seed)
    timers, expected = loops.no_timers(200), list[tuple[float, int]]()
    for what in random.sample(range(200), 200):
        due_s = random.randrange(8) / 8
        loops._set_timer(timers, due_s, what)
        heappush(expected, (due_s, what))
        while expected and random.random() < 0.52:
            assert timers.due_s[0] == expected[0][0]
            assert loops._take_timer(timers) == heappop(expected)[1]
        assert timers.n[0] == len(expected)
    while expected:
        assert loops._take_timer(timers) == heappop(expected)[1]
    assert timers.due_s[0] == np.inf


def test_compiled_loops_do_the_same() -> None:
    plan = allreduce_plan("leaf-spine:leaves=4,spines=2,hosts=8", "all-pairs", nbytes=32 * 4000)
    schedule = plan.schedule
    assert len(schedule.sends) < simulation.COLUMNS_ABOVE
    numbers = {egress: number for number, egress in enumerate(plan.fabric.rates)}
    paths = [[numbers[egress] for egress in flow.path] for flow in plan.flows]
    capacity = [rate_bps * PAYLOAD_EFFICIENCY / 8 for rate_bps in plan.fabric.rates.values()]
    times = bulk.run(schedule, plan.flows, paths, capacity, 0.0)
    np.testing.assert_allclose(times.ends_s, event_by_event(plan).ends_s, rtol=1e-9)

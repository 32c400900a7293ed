"""Iterations from start to start: what the model says of them is what their closed forms say."""

from fractions import Fraction

import pytest

from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.periods import Period, periods
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Start, Workload
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY, schedule_plan

S = 1_000_000_000
SPEC = "star:hosts=4,rate=100M"
RING_S = 2 * 3 / 4 * MIB * 8 / (100e6 * PAYLOAD_EFFICIENCY)


def training(n_iterations: int, before_ms: int, after_ms: int) -> Workload:
    """Each rank computes, all reduce a MiB, each computes again: as DDP does, the optimizer's step last."""
    items: list[Item] = []

    def compute(ms: int, after: list[int], iteration: int) -> list[int]:
        first = len(items)
        for rank in range(4):
            start = Start(rank=rank, after=(after[rank],) if after else ())
            items.append(Compute(start=start, duration_ns=ms * 1_000_000, iteration=iteration))
        return list(range(first, first + 4))

    last: list[int] = []
    for iteration in range(n_iterations):
        last = compute(before_ms, last, iteration)
        starts = tuple(Start(rank=rank, after=(last[rank],)) for rank in range(4))
        items.append(
            Collective(kind="allreduce", tag=iteration, nbytes=MIB, iteration=iteration, starts=starts)
        )
        last = compute(after_ms, [len(items) - 1] * 4, iteration)
    return Workload(schema=SCHEMA, framing="none", n_ranks=4, items=tuple(items))


@pytest.mark.parametrize("n_iterations", [1, 2, 5])
def test_computing_before_and_after_makes_an_iteration_as_long_as_all_three(n_iterations: int) -> None:
    made = schedule_plan(SPEC, expand(training(n_iterations, 30, 20), "ring")).prediction
    assert made.fluid_s == pytest.approx(n_iterations * (0.050 + RING_S), rel=1e-3)
    assert made.iteration_s == pytest.approx(0.050 + RING_S, rel=1e-3)
    assert made.exposed_s == pytest.approx(RING_S, rel=1e-3)


def test_a_slow_rank_holds_all_up_by_what_it_computes_longer_also_after_the_last_message() -> None:
    slowed = straggling(training(4, 30, 20), {2: Fraction(2)})
    made = schedule_plan(SPEC, expand(slowed, "ring")).prediction
    assert made.iteration_s == pytest.approx(0.100 + RING_S, rel=1e-3)
    assert made.fluid_s == pytest.approx(4 * (0.100 + RING_S), rel=1e-3)
    # Ranks 0, 1 and 3 do not compute for 50 ms of it, in which they wait for rank 2.
    assert made.exposed_s == pytest.approx(RING_S + 0.75 * 0.050, rel=1e-3)


def test_without_computing_all_is_exposed() -> None:
    made = schedule_plan(SPEC, expand(training(3, 30, 20), "ring", compute=Fraction(0))).prediction
    assert made.iteration_s == pytest.approx(RING_S, rel=1e-3)
    assert made.exposed_s == pytest.approx(RING_S, rel=1e-3)


def test_computing_behind_data_in_flight_hides_them() -> None:
    """Data leave at 0 and 4 s; both ranks compute from 1 to 2 s, and rank 0 from 1.5 to 4 s as well."""
    ops = (Op("allreduce", 8), *(Op("compute", 0, root=rank) for rank in (0, 1, 0)))
    ops = (*ops, Op("allreduce", 8, iteration=1))
    sends = tuple(Send(op, rank, 1 - rank, 0, 8, reduce=True) for op in (0, 4) for rank in (0, 1))
    times = {(op, rank): (ns, ns) for op, ns in ((0, 0), (4, 4 * S)) for rank in (0, 1)}
    times |= {(1, 0): (S, 2 * S), (2, 1): (S, 2 * S), (3, 0): (3 * S // 2, 4 * S)}
    assert periods(Schedule.of(2, ops, sends), times) == (Period(0, 4.0, 4.0 - (3.0 + 1.0) / 2),)


def test_an_iteration_that_sends_something_else_does_not_count() -> None:
    """DDP's first has one bucket for all, its others two."""
    ops = (Op("message", 9), *(Op("message", 8, iteration=i) for i in (1, 2, 3)))
    sends = tuple(Send(op, 0, 1, 0, each.nbytes, reduce=False) for op, each in enumerate(ops))
    times = {(0, 0): (0, 0), (1, 0): (7 * S, 0), (2, 0): (8 * S, 0), (3, 0): (9 * S, 0)}
    found = periods(Schedule.of(2, ops, sends), times)
    assert [(one.iteration, one.time_s) for one in found] == [(1, 1.0), (2, 1.0)]


def test_a_second_job_beside_does_not_count() -> None:
    sends = [Send(0, 0, 1, 0, 8, reduce=False), Send(1, 0, 1, 0, 8, reduce=False)]
    sends += [Send(2, 2, 3, 0, 8, reduce=False), Send(3, 2, 3, 0, 8, reduce=False)]
    ops = tuple(Op("message", 8, iteration=iteration) for iteration in (0, 1, 0, 1))
    times = {(0, 0): (0, 0), (1, 0): (S, S), (2, 2): (0, 0), (3, 2): (9 * S, 9 * S)}
    assert periods(Schedule.of(4, ops, tuple(sends)), times) == (Period(0, 1.0, 1.0),)


def test_nothing_repeats_in_what_sends_nothing() -> None:
    assert periods(Schedule.of(2, (), ()), {}) == ()

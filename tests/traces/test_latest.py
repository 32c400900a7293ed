"""A rank that was ready at some time in a range: schedules say the earliest, the latest is a schedule too."""

from fractions import Fraction
from pathlib import Path

import pytest

from gradwire.planning import plan as plans
from gradwire.planning.plan import BadPlan
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.latest import at_the_latest
from gradwire.traces.schedules.schedule import Gate, Op, Schedule, together
from gradwire.traces.schedules.sends import Send
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Start, Workload
from tests.made_plans import schedule_plan

MS = 1_000_000


def queued(*, ready_ms: tuple[int, int] = (30, 50)) -> Workload:
    """Of 2 ranks: each computes for 30 to 50 ms before an allreduce."""
    least_ms, most_ms = ready_ms
    items: list[Item] = [
        Compute(
            start=Start(rank=rank),
            duration_ns=least_ms * MS,
            least_ns=least_ms * MS,
            most_ns=most_ms * MS,
        )
        for rank in range(2)
    ]
    starts = tuple(Start(rank=rank, after=(rank,)) for rank in range(2))
    items.append(Collective(kind="allreduce", tag=0, nbytes=4096, starts=starts))
    return Workload(schema=SCHEMA, framing="none", n_ranks=2, items=tuple(items))


def gaps(schedule: Schedule) -> list[tuple[int, int | None]]:
    return [(gate.gap_ns, gate.most_ns) for gate in schedule.gates if schedule.ops[gate.op].kind == "compute"]


def test_a_schedule_computes_the_least_and_knows_the_most() -> None:
    schedule = expand(queued())
    assert gaps(schedule) == [(30 * MS, 50 * MS)] * 2
    latest = at_the_latest(schedule)
    assert latest is not None
    assert gaps(latest) == [(50 * MS, None)] * 2
    assert at_the_latest(latest) is None
    assert gaps(together([schedule, schedule])) == [(30 * MS, 50 * MS)] * 4


def test_the_range_grows_and_shrinks_with_the_computing() -> None:
    assert gaps(expand(queued(), compute=Fraction(1, 2))) == [(15 * MS, 25 * MS)] * 2
    assert gaps(expand(queued(), compute=Fraction(0))) == [(0, None)] * 2
    slowed = expand(straggling(queued(), {1: Fraction(2)}))
    assert gaps(slowed) == [(30 * MS, 50 * MS), (60 * MS, 100 * MS)]


def test_what_is_known_to_be_no_range_is_none() -> None:
    schedule = expand(queued(ready_ms=(30, 30)))
    assert gaps(schedule) == [(30 * MS, None)] * 2
    assert at_the_latest(schedule) is None


@pytest.mark.parametrize(
    ("ranges_ms", "latest_ms"),
    [
        # Ready after 10 to 20 ms, 25 to 40 ms, and 60 ms: the second is at 40 ms, not at 50.
        ([(10, 20), (25, 40), (60, None)], [20, 40, 60]),
        # The last is known to be ready after 30 ms; the second, from 15 ms on, cannot make that earlier.
        ([(10, 20), (15, 50), (30, None)], [20, 50, 50]),
        ([(10, None), (25, 40)], [10, 40]),
    ],
)
def test_each_has_its_own_latest_end_in_a_chain_of_computing(
    ranges_ms: list[tuple[int, int | None]], latest_ms: list[int]
) -> None:
    """One after the other, each ends this many ms after the beginning at the least, and at the most."""
    gates, before_ms = [], 0
    for op, (least_ms, most_ms) in enumerate(ranges_ms):
        gap_ms = least_ms - before_ms
        most = None if most_ms is None else (gap_ms + most_ms - least_ms) * MS
        gates.append(Gate(op, 0, (op - 1,) if op else (), gap_ms * MS, most))
        before_ms = least_ms
    ops = (*(Op("compute", 0) for _ in ranges_ms), Op("message", 8))
    schedule = Schedule.of(2, ops, (Send(len(ranges_ms), 0, 1, 0, 8, reduce=False),), tuple(gates))
    latest = at_the_latest(schedule)
    assert latest is not None
    ends_ms = [sum(gate.gap_ns for gate in latest.gates[: op + 1]) / MS for op in range(len(gates))]
    assert ends_ms == latest_ms


def test_a_plan_keeps_the_range_and_refuses_one_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plans.save(schedule_plan("star:hosts=2,rate=100M", expand(queued())), path)
    assert gaps(plans.load(path).schedule) == [(30 * MS, 50 * MS)] * 2
    path.write_text(path.read_text().replace(f'"most_ns": {50 * MS}', f'"most_ns": {20 * MS}'))
    with pytest.raises(BadPlan, match=f"a gap of {30 * MS} to {20 * MS} ns"):
        plans.load(path)

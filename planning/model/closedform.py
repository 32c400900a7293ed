"""How long a plan takes by the closed forms of its algorithms, to compare its predicted time with.

A closed form is of one operation (docs/collectives.md).  Where a job has several, and each waits for the one
before, theirs add up; of jobs beside each other, on hosts of their own, the slowest counts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gradwire.planning.fabrics.hints import hints_of
from gradwire.planning.fabrics.paths import host_port
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.plan import Plan
from gradwire.planning.transport import payload_efficiency
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.schedules.hints import as_float32
from gradwire.traces.schedules.kinds import CollectiveKind, narrowing
from gradwire.traces.schedules.names import BY_COLLECTIVE, EARLY
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.units import show_count, show_ns

DIRECT = ("torus", "mesh")  # families in which a host's cable is faster than those between nodes
NOMINAL = "the nominal rate; a message costs nothing"
TWO_RANKS = "two ranks alone"


_Part = tuple[int, int]  # (operation, rank)


@dataclass(frozen=True, slots=True)
class Costs:
    """What a message and a byte of payload cost, in seconds; `source` says where that comes from."""

    alpha_s: float
    beta_s_per_byte: float
    source: str


@dataclass(frozen=True, slots=True)
class ClosedTime:
    """The formula for a person and its time; both None, and why, where there is none.

    With `is_bound` the algorithm takes at most that time.
    """

    text: str | None
    time_s: float | None
    missing: str | None = None
    is_bound: bool = False


def nominal_costs(plan: Plan) -> Costs:
    """As the bound and the fluid time have them."""
    beta_s_per_byte = 8 / (_link_bps(plan) * payload_efficiency(plan.fabric.mtu_nbytes))
    return _delayed(plan, Costs(0.0, beta_s_per_byte, NOMINAL))


def measured_costs(plan: Plan, calibrated: Calibration) -> Costs:
    """Those of all ranks that send at once; in runs from before that was measured, of two alone."""
    shift = calibrated.shift
    if shift is None:
        costs = Costs(calibrated.per_send_s, 8 / (_link_bps(plan) * calibrated.eta), TWO_RANKS)
        return _delayed(plan, costs)
    source = f"a shift of {show_count(shift.n_ranks, 'rank')}, all at once"
    return _delayed(plan, Costs(shift.alpha_s, 8 / (_link_bps(plan) * shift.eta), source))


def _delayed(plan: Plan, costs: Costs) -> Costs:
    """With the delay of each send as a part of alpha."""
    delay_ns = plan.schedule.send_delay_ns
    if not delay_ns:
        return costs
    source = f"{costs.source}; {show_ns(delay_ns)} more, by which each send is delayed"
    return replace(costs, alpha_s=costs.alpha_s + delay_ns / 1e9, source=source)


def _link_bps(plan: Plan) -> int:
    """The rate of the slowest host's link, servers left out; where each host is the node of a grid, that of
    the slowest link between nodes.
    """
    fabric, schedule = plan.fabric, plan.schedule
    if fabric.family in DIRECT:
        return min(fabric.inner_rates_bps)
    giving = {
        rank for op in range(len(schedule.ops)) for each in schedule.parties(op) for rank in each.givers
    }
    return min(fabric.rates[host_port(plan.placement[rank])] for rank in giving or range(plan.n_ranks))


def closed_time(plan: Plan, costs: Costs) -> ClosedTime:
    """Of the plan's slowest job."""
    if not plan.schedule.jobs:
        return ClosedTime(None, None, "nothing is sent")
    found = [_of_job(plan, ranks, costs) for ranks in plan.schedule.jobs]
    missing = next((each for each in found if each.time_s is None), None)
    return missing or max(found, key=lambda each: each.time_s or 0.0)


def _of_job(plan: Plan, ranks: Sequence[int], costs: Costs) -> ClosedTime:
    schedule, inside = plan.schedule, frozenset(ranks)
    gaps = [gate for gate in schedule.gates if gate.gap_ns and gate.rank in inside]
    if gaps:
        is_late = all(not gate.after and schedule.ops[gate.op].kind != "compute" for gate in gaps)
        return ClosedTime(None, None, "ranks begin apart" if is_late else "ranks compute")
    ops = [
        number
        for number, (op, members) in enumerate(zip(schedule.ops, schedule.members, strict=True))
        if op.kind != "compute" and members and members[0] in inside
    ]
    # Operations that are alike take as long; hints and multitree's trees are made once for them.
    alike = Counter(
        (replace(schedule.ops[op], tag=0, iteration=0), schedule.members[op], op in schedule.stages)
        for op in ops
        if schedule.ops[op].source is None  # the formula of what is done in stages is of all of them
    )
    times = {key: _of_op(plan, *key, costs) for key in alike}
    for missing in times.values():
        if missing.time_s is None:
            return missing
    if not _is_chain(schedule, ops):
        return ClosedTime(None, None, "not every operation waits for the one before")
    texts: Counter[str] = Counter()
    for key, count in alike.items():
        texts[times[key].text or ""] += count
    total_s = sum((times[key].time_s or 0.0) * count for key, count in alike.items())
    is_bound = any(each.is_bound for each in times.values())
    return ClosedTime(" + ".join(_texts(texts)), total_s, is_bound=is_bound)


def _is_chain(schedule: Schedule, ops: Sequence[int]) -> bool:
    """Whether each of these operations begins, at every rank, when the one before is complete there."""
    after = {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    return all(_follows(schedule, after, *each) for each in pairwise(ops))


def _follows(schedule: Schedule, after: Mapping[_Part, Sequence[int]], before: int, op: int) -> bool:
    shared = set(schedule.members[before]) & set(schedule.members[op])
    return bool(shared) and all(_waits(schedule, after, before, (op, rank)) for rank in shared)


def _waits(schedule: Schedule, after: Mapping[_Part, Sequence[int]], before: int, part: _Part) -> bool:
    """Whether a part waits for `before` at its rank, directly or through what that computes."""
    todo, seen = list(after.get(part, ())), set[int]()
    while todo:
        other = todo.pop()
        if other == before:
            return True
        if other not in seen and schedule.ops[other].kind == "compute":
            seen.add(other)
            todo += after.get((other, part[1]), ())
    return False


def _of_op(plan: Plan, op: Op, members: Sequence[int], is_stage: bool, costs: Costs) -> ClosedTime:
    """Of one operation by itself, or of all stages of the allreduce of which it is the first."""
    if not op.contract.is_collective:
        return ClosedTime(None, None, "there is no formula for messages that belong to no collective")
    how = f"by {op.algorithm}" if op.algorithm else "as it was captured"
    missing = ClosedTime(None, None, f"there is no formula for {op.kind} {how}")
    hints = replace(
        hints_of(plan.fabric, [plan.placement[rank] for rank in members]),
        keys=plan.keys,
        sizes=op.sizes,
        send_delay_s=plan.schedule.send_delay_ns / 1e9,
    )
    n_ranks = len(op.givers or members)
    own: CollectiveKind = next((each for each in BY_COLLECTIVE if each == op.kind), "allreduce")
    kind = "allreduce" if is_stage else own
    nbytes, hints = as_float32(op.asked_nbytes, hints, op.dtype)
    beta = costs.beta_s_per_byte / narrowing(op.dtype)
    try:
        does = algorithm(op.algorithm, kind)
        time_s = does.time_s(n_ranks, nbytes, costs.alpha_s, beta, hints)
    except ValueError:  # gloo's own, sums by switches, or a plan file that says another algorithm
        return missing
    if time_s is None:
        return missing
    if not does.has_time_at(plan.pace):
        pace = plan.pace or does.pace or EARLY
        return ClosedTime(None, None, f"there is no formula for {op.kind} {how} at the pace {pace}")
    is_bound = not does.is_exact(n_ranks, hints)
    text = does.closed_form or f"that of {does.name}"
    return ClosedTime(f"at most {text}" if is_bound else text, time_s, is_bound=is_bound)


def _texts(counts: Mapping[str, int]) -> Iterator[str]:
    for text, count in counts.items():
        yield text if count == 1 else f"the sum over {count} operations of {text}"

"""The shortest possible time of a schedule, and its time on a plan's own paths.

Rates are nominal, alpha is the delay that the schedule gives each send and else 0, and the payload's share of
a link is that of TCP in full frames, so the two figures can be worked out from the plan alone.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import host_port
from gradwire.planning.model.addedup import as_tcp_nbytes, trees_of
from gradwire.planning.model.simulation import Seconds, Simulated, simulate
from gradwire.planning.plan import Flow, Prediction
from gradwire.planning.transport import payload_efficiency
from gradwire.planning.trees.tree import Tree
from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.periods import periods
from gradwire.traces.schedules.schedule import Gate, Schedule
from gradwire.traces.schedules.sends import Numbers, totals


def predict(
    fabric: Fabric,
    placement: Sequence[str],
    flows: Sequence[Flow],
    schedule: Schedule,
    trees: Sequence[Tree] = (),
) -> Prediction:
    """All figures; `flows` have their paths, and the bound is `least_s`."""
    simulated = simulate(fabric, flows, schedule, trees=trees)
    times = times_of(schedule, simulated)
    bound_s = least_s(fabric, placement, schedule, trees)
    return Prediction(bound_s, times.time_s, times.iteration_s, times.exposed_s, _jobs_s(schedule, simulated))


def _jobs_s(schedule: Schedule, simulated: Simulated) -> tuple[float, ...]:
    """When each job is over, if there are several."""
    if len(schedule.jobs) < 2:
        return ()
    job_of = np.array([schedule.job_of.get(rank, -1) for rank in range(schedule.n_ranks)])
    ranks = np.concatenate(
        [
            schedule.sends.src,
            np.array([each.members[0] for each in schedule.aggregations], np.int64),
            np.array([gate.rank for gate in schedule.gates], np.int64),
        ]
    )
    ends_s = np.zeros(len(schedule.jobs) + 1)  # the last is of ranks that are in no job
    np.maximum.at(ends_s, job_of[ranks], np.concatenate((simulated.ends_s, simulated.opened_s)))
    return tuple(ends_s[:-1].tolist())


class PredictedTimes(NamedTuple):
    """The whole time of a schedule in the model, and its iterations' as in `Prediction`."""

    time_s: float
    iteration_s: float | None
    exposed_s: float | None


def times_of(schedule: Schedule, simulated: Simulated) -> PredictedTimes:
    found = periods(schedule, begun_and_ended(schedule, simulated))
    if not found:
        return PredictedTimes(simulated.time_s, None, None)
    return PredictedTimes(
        simulated.time_s, median(one.time_s for one in found), median(one.exposed_s for one in found)
    )


def begun_and_ended(schedule: Schedule, simulated: Simulated) -> dict[tuple[int, int], tuple[int, int]]:
    """By operation and rank when the first of its data left, or when it was computed, in ns."""
    sends = schedule.sends
    first = _first_ready(sends.op, sends.src, simulated.ready_s, schedule.n_ranks)
    parts = zip(sends.op[first].tolist(), sends.src[first].tolist(), strict=True)
    first_ns = np.rint(simulated.ready_s[first] * 1e9).astype(np.int64).tolist()
    found = {part: (ns, ns) for part, ns in zip(parts, first_ns, strict=True)}
    for each, ready_s in zip(schedule.aggregations, simulated.ready_s[len(sends) :].tolist(), strict=True):
        ns = round(ready_s * 1e9)
        for rank in each.members:
            found[each.op, rank] = min(found.get((each.op, rank), (ns, ns)), (ns, ns))
    for gate, opened_s in zip(schedule.gates, simulated.opened_s.tolist(), strict=True):
        if schedule.ops[gate.op].kind == "compute":
            ns = round(opened_s * 1e9)
            found[gate.op, gate.rank] = (ns - gate.gap_ns, ns)
    return found


@compiled
def _first_ready(op: Numbers, src: Numbers, ready_s: Seconds, n_ranks: int) -> Any:
    """The send of each operation at each rank that is ready first; sends are in the order of operations."""
    found = np.empty(len(op), np.int32)
    place_of = np.full(n_ranks, -1, np.int64)
    n = begin = 0
    for send in range(len(op)):
        if send == 0 or op[send] != op[send - 1]:
            begin = n
        place = place_of[src[send]]
        if place < begin:
            found[n], place_of[src[send]] = send, n
            n += 1
        elif ready_s[send] < ready_s[found[place]]:
            found[place] = send
    return found[:n]


def least_s(
    fabric: Fabric, placement: Sequence[str], schedule: Schedule, trees: Sequence[Tree] = ()
) -> float:
    """The larger of what the hosts' links need and the longest chain of computing."""
    return max(bound_s(fabric, placement, schedule, trees), compute_s(schedule))


def bound_s(
    fabric: Fabric, placement: Sequence[str], schedule: Schedule, trees: Sequence[Tree] = ()
) -> float:
    """The least time in which hosts with these links could communicate, however good the fabric.

    An allreduce of S bytes on p ranks counts 2(p-1)/p S in and out of every host, the least that any
    algorithm without help of the switches can do (`Contract.least`), so every algorithm is
    measured against the same figure.  Where parameter servers on hosts of their own help, S is enough, in and
    out of every worker; where switches do, out of a giver and into a taker, in the frames of its tree
    (`trees[i]` is that of the schedule's i-th group; without trees it counts nothing), and what such an
    operation sends besides.  Of a compressed allreduce the pairs count that each rank must get from others,
    and the halves of a dense one beside them.  Everything else counts the bytes that the schedule itself
    sends and receives.
    Communication only: computing is not in it (see `compute_s`).
    """
    eta = payload_efficiency(fabric.mtu_nbytes)
    sent, received = [0.0] * schedule.n_ranks, [0.0] * schedule.n_ranks
    aggregated = {each.op for each in schedule.aggregations}
    at_least: set[int] = set()
    for op, made in enumerate(schedule.ops):
        least = made.contract.least
        if least is None or op in aggregated:
            continue
        at_least.add(op)
        for parties in schedule.parties(op):
            for rank in parties.members:
                out, into = least(parties, rank)
                sent[rank] += out
                received[rank] += into
    sends = schedule.sends
    others = ~np.isin(sends.op, np.fromiter(at_least, np.int32, len(at_least)))
    for ends, counted in ((sends.src, sent), (sends.dst, received)):
        for rank, nbytes in enumerate(totals(ends[others], sends.nbytes[others], schedule.n_ranks).tolist()):
            counted[rank] += nbytes
    for each, (_, tree) in zip(schedule.aggregations, trees_of(schedule, trees), strict=bool(trees)):
        nbytes = as_tcp_nbytes(schedule.ops[each.op].nbytes, tree, eta)
        for rank in each.givers:
            sent[rank] += nbytes
        for rank in each.takers:
            received[rank] += nbytes
    return max(
        max(sent[rank], received[rank]) * 8 / (fabric.rates[host_port(host)] * eta)
        for rank, host in enumerate(placement)
    )


def compute_s(schedule: Schedule) -> float:
    """The longest chain of computing, the last included: the time of the schedule if communication took none.
    A rank that begins late is at it until then.

    It goes from rank to rank wherever one waits for what others computed before they sent.  A run cannot take
    less than the larger of this and `bound_s`; how far they overlap is the job's own.
    """
    if not any(gate.gap_ns for gate in schedule.gates):
        return 0.0
    gates: defaultdict[int, list[Gate]] = defaultdict(list)
    for gate in schedule.gates:
        gates[gate.op].append(gate)
    complete_ns: dict[tuple[int, int], int] = {}  # by operation and rank
    for op, members in enumerate(schedule.members):
        begun_ns = dict.fromkeys(members, 0)
        for gate in gates[op]:
            after_ns = max((complete_ns.get((other, gate.rank), 0) for other in gate.after), default=0)
            begun_ns[gate.rank] = max(begun_ns.get(gate.rank, 0), after_ns + gate.gap_ns)
        for rank, waits_for_ns in _waits_for_ns(schedule, op, begun_ns).items():
            complete_ns[op, rank] = max(begun_ns[rank], waits_for_ns, 0)
    return max(complete_ns.values(), default=0) / 1e9


def _waits_for_ns(schedule: Schedule, op: int, begun_ns: Mapping[int, int]) -> dict[int, int]:
    """When the last of those has begun whose data a rank has in the end; of each that has begun."""
    made, found = schedule.ops[op], dict.fromkeys(begun_ns, 0)
    latest: dict[int, tuple[object, int]] = {}  # by id, for many members have the same object as givers
    for parties in schedule.parties(op):
        for rank in parties.members:
            for held in made.contract.after(parties, rank):
                if held.nbytes or not made.nbytes:
                    if id(held.givers) not in latest:
                        latest[id(held.givers)] = held.givers, max(begun_ns[giver] for giver in held.givers)
                    found[rank] = max(found[rank], latest[id(held.givers)][1])
    return found

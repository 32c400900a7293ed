"""Divides a schedule into phases (sends that may be under way together) and into jobs.

A phase is one step of a collective, what switches add up of one, or the messages that are equally deep in
the order of the operations (so that the pushes of all workers are one phase).  A job is a set of ranks that
send to each other and to nobody else.  Jobs begin together and none waits for another, so the first phases of
all jobs are one phase, their second ones another, and so on; a job with fewer phases than the longest is over
earlier.  Of jobs that are alike, as those of `bench --jobs`, that is what happens unless one is held up; then
its phases may meet any others, which is not looked at here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gradwire.traces.schedules.schedule import Schedule

ADDED_UP = -1  # comes before the steps of the operation's sends
PhaseKey = tuple[int, int]
"""(operation, step) of a collective, with step ADDED_UP for what switches do of it; (-1, depth) of messages.

A phase of several jobs has the key that it has in the job with the most phases, the first of them.
"""

Pair = tuple[int, int]
"""(source rank, destination rank)."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The bytes of a phase: that each pair sends, and that switches add up of each group.

    Groups are named by their position in `Schedule.groups`, which is that of their tree in a plan.
    """

    pairs: dict[Pair, int] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)


def sizes_by_phase(schedule: Schedule) -> dict[PhaseKey, Sizes]:
    """What is sent in every phase."""
    phases: defaultdict[PhaseKey, Sizes] = defaultdict(Sizes)
    keys = phase_keys(schedule)
    number = {group: i for i, group in enumerate(schedule.groups)}
    sends = schedule.sends
    ends = zip(sends.src.tolist(), sends.dst.tolist(), strict=True)
    for pair, nbytes, key in zip(ends, sends.nbytes.tolist(), keys, strict=False):
        pairs = phases[key].pairs
        pairs[pair] = pairs.get(pair, 0) + nbytes
    for each, key in zip(schedule.aggregations, keys[len(schedule.sends) :], strict=True):
        groups, group = phases[key].groups, number[each.givers, each.takers]
        groups[group] = groups.get(group, 0) + schedule.ops[each.op].nbytes
    return dict(phases)


def nbytes_by_phase(schedule: Schedule) -> dict[PhaseKey, dict[Pair, int]]:
    """The bytes of every pair of ranks in every phase in which any sends."""
    return {key: sizes.pairs for key, sizes in sizes_by_phase(schedule).items() if sizes.pairs}


def phase_keys(schedule: Schedule) -> list[PhaseKey]:
    """The phase of each send, then of each aggregation."""
    depths = _depths(schedule)
    ops = schedule.ops
    is_collective = [op.contract.is_collective for op in ops]
    sends = schedule.sends
    own = [
        (op, step) if is_collective[op] else (-1, depths[op])
        for op, step in zip(sends.op.tolist(), sends.step.tolist(), strict=True)
    ]
    own += [(each.op, ADDED_UP) for each in schedule.aggregations]
    job_of = schedule.job_of
    jobs = [job_of[src] for src in sends.src.tolist()]
    jobs += [job_of[each.members[0]] for each in schedule.aggregations]
    shared = _shared_keys(zip(jobs, own, strict=True))
    return [shared[job, key] for job, key in zip(jobs, own, strict=True)]


def _shared_keys(own: Iterable[tuple[int, PhaseKey]]) -> dict[tuple[int, PhaseKey], PhaseKey]:
    """(job, its key of a phase) -> the key of the phases of all jobs that are as far from the first."""
    keys: defaultdict[int, set[PhaseKey]] = defaultdict(set)
    for job, key in own:
        keys[job].add(key)
    ordered = {job: sorted(keys[job]) for job in sorted(keys)}
    longest = max(ordered.values(), key=len, default=[])
    return {
        (job, key): longest[position] for job, some in ordered.items() for position, key in enumerate(some)
    }


def same_phases(sizes: Mapping[PhaseKey, Sizes]) -> list[tuple[PhaseKey, ...]]:
    """The keys of the phases, those together in which all pairs and groups have the same bytes."""
    same: defaultdict[tuple[frozenset[tuple[Pair, int]], frozenset[tuple[int, int]]], list[PhaseKey]]
    same = defaultdict(list)
    for key, one in sizes.items():
        same[frozenset(one.pairs.items()), frozenset(one.groups.items())].append(key)
    return [tuple(keys) for keys in same.values()]


def by_job(
    phases: Mapping[PhaseKey, Mapping[Pair, int]], job_of: Mapping[int, int]
) -> dict[tuple[int, PhaseKey], dict[Pair, int]]:
    """The same phases, those that several jobs have part in cut in one for each job."""
    parts: defaultdict[tuple[int, PhaseKey], dict[Pair, int]] = defaultdict(dict)
    for key, nbytes in phases.items():
        for pair, number in nbytes.items():
            parts[job_of[pair[0]], key][pair] = number
    return dict(parts)


def _depths(schedule: Schedule) -> list[int]:
    """How often, at least, something had to arrive somewhere before each operation could begin.

    Only arrivals count: what a rank sends one after the other, it could as well send together, so the
    pushes of all workers are equally deep, and so are a server's answers to them.
    """
    depths = [0] * len(schedule.ops)
    for gate in sorted(schedule.gates, key=lambda gate: gate.op):
        for other in gate.after:
            op = schedule.ops[other]
            only_sent = (op.kind == "message" and op.root == gate.rank) or (
                op.kind == "reduce" and op.root != gate.rank
            )
            is_arrival = not only_sent and op.kind != "compute"
            depths[gate.op] = max(depths[gate.op], depths[other] + is_arrival)
    return depths

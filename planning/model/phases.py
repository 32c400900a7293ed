"""Divides a schedule into phases (sends that may be under way together) and into jobs.

A phase is one step of a collective, what switches add up of one, or messages that wait for as much (so that
the pushes of all workers are one phase).  Operations of which neither waits for the other may be under way
together: their first phases are one phase, their second ones another, and so on.  How many phases an
operation has to wait for is its *depth*; the computing between them counts nothing.  A job is a set of ranks
that send to each other and to nobody else.  Jobs begin together and none waits for another, so the first
phases of all jobs are one phase, too; a job with fewer phases than the longest is over earlier.  Of
operations and jobs that are alike, as DDP's buckets and those of `bench --jobs`, that is what happens unless
one is held up; then its phases may meet any others, which is not looked at here.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Sends, totals

ADDED_UP = -1  # comes before the steps of the operation's sends
PhaseKey = tuple[int, int]
"""(operation, step) of a collective, with step ADDED_UP for what switches do of it; (-1, depth) of messages.

A phase of several operations has the key of the first collective among them.  One of several jobs has the key
that it has in the job with the most phases, the first of them.
"""

Pair = tuple[int, int]
"""(source rank, destination rank)."""


@dataclass(slots=True)
class Sizes:
    """The bytes of a phase: that each pair sends, and that switches add up of each group.

    Groups are named by their position in `Schedule.groups`, which is that of their tree in a plan.
    """

    pairs: dict[Pair, int] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)


def sizes_by_phase(schedule: Schedule) -> dict[PhaseKey, Sizes]:
    """What is sent in every phase."""
    keys, of_sends, of_aggregations = _phases(schedule)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    number_of = np.array([numbers[key] for key in keys], np.int64)
    phases = {key: Sizes() for key in numbers}
    by_number = list(phases.values())
    for phase, pairs in _pair_totals(schedule, number_of[of_sends]):
        by_number[phase].pairs = pairs
    group_of = {group: i for i, group in enumerate(schedule.groups)}
    for each, number in zip(schedule.aggregations, of_aggregations, strict=True):
        groups, group = phases[keys[number]].groups, group_of[each.givers, each.takers]
        groups[group] = groups.get(group, 0) + schedule.ops[each.op].nbytes
    return phases


def _pair_totals(schedule: Schedule, phase: NDArray[np.int64]) -> Iterator[tuple[int, dict[Pair, int]]]:
    """Each phase in which any pair sends, and the bytes of each pair there; each send has its `phase`.

    Of phases that are alike it is the same object, as a hundred rings have 25,400 phases of one kind.
    """
    sends, n_ranks = schedule.sends, schedule.n_ranks
    codes = (phase * n_ranks + sends.src) * n_ranks + sends.dst
    found, which = np.unique(codes, return_inverse=True)
    nbytes = totals(which, sends.nbytes, len(found))
    phases, pairs = np.divmod(found, n_ranks * n_ranks)
    starts = np.flatnonzero(np.diff(phases, prepend=-1))
    known: dict[tuple[bytes, bytes], dict[Pair, int]] = {}
    for first, end in pairwise([*starts.tolist(), len(phases)]):
        key = pairs[first:end].tobytes(), nbytes[first:end].tobytes()
        if key not in known:
            src, dst = (ranks.tolist() for ranks in np.divmod(pairs[first:end], n_ranks))
            known[key] = dict(zip(zip(src, dst, strict=True), nbytes[first:end].tolist(), strict=True))
        yield int(phases[first]), known[key]


def nbytes_by_phase(schedule: Schedule) -> dict[PhaseKey, dict[Pair, int]]:
    """The bytes of every pair of ranks in every phase in which any sends."""
    return {key: sizes.pairs for key, sizes in sizes_by_phase(schedule).items() if sizes.pairs}


def phase_keys(schedule: Schedule) -> list[PhaseKey]:
    """The phase of each send, then of each aggregation."""
    keys, of_sends, of_aggregations = _phases(schedule)
    return [keys[number] for number in (*of_sends.tolist(), *of_aggregations)]


class _Steps(NamedTuple):
    """Every step of every operation that has sends: its operation, its number there, and its place among
    the operation's; and the position of each send's step here.
    """

    op: NDArray[np.int64]
    step: NDArray[np.int64]
    place: NDArray[np.int64]
    of_send: NDArray[np.intp]


def _steps(sends: Sends) -> _Steps:
    most = int(sends.step.max(initial=0)) + 1
    codes, of_send = np.unique(sends.op * np.int64(most) + sends.step, return_inverse=True)
    op, step = np.divmod(codes, most)
    return _Steps(op, step, np.arange(len(op)) - np.searchsorted(op, op), of_send)


def _phases(schedule: Schedule) -> tuple[list[PhaseKey], NDArray[np.intp], list[int]]:
    """The key of each step, then of what switches add up of each operation; for each send, and then for each
    aggregation, the position of its key.
    """
    steps = _steps(schedule.sends)
    added = sorted({each.op for each in schedule.aggregations})
    n_phases = np.bincount(steps.op, minlength=len(schedule.ops))
    n_phases[added] += 1
    depths = np.array(_depths(schedule, n_phases.tolist()), np.int64)
    depth = depths[steps.op] + steps.place + np.isin(steps.op, added)
    parts = [*zip(steps.op.tolist(), steps.step.tolist(), depth.tolist(), strict=True)]
    parts += [(op, ADDED_UP, int(depths[op])) for op in added]
    keys = _shared_keys(schedule, parts)
    place = {op: len(steps.op) + number for number, op in enumerate(added)}
    return keys, steps.of_send, [place[each.op] for each in schedule.aggregations]


def _shared_keys(schedule: Schedule, parts: Sequence[tuple[int, int, int]]) -> list[PhaseKey]:
    """The key of the phase of each part (operation, step, depth): in its job, and then in all jobs.

    Phases of jobs are one that are as far from the first of their job.
    """
    ops, job_of, members = schedule.ops, schedule.job_of, schedule.members
    jobs = [job_of[members[op][0]] for op, _, _ in parts]
    first: defaultdict[int, dict[int, PhaseKey]] = defaultdict(dict)
    for job, (op, step, depth) in zip(jobs, parts, strict=True):
        own = (op, step) if ops[op].contract.is_collective else (-1, depth)
        known = first[job].get(depth)
        if known is None or (known[0] < 0, known) > (own[0] < 0, own):
            first[job][depth] = own
    depths = {job: sorted(first[job]) for job in sorted(first)}
    longest = max(depths, key=lambda job: len(depths[job]), default=0)
    keys = [first[longest][depth] for depth in depths.get(longest, ())]
    shared = {(job, depth): keys[place] for job, some in depths.items() for place, depth in enumerate(some)}
    return [shared[job, depth] for job, (_, _, depth) in zip(jobs, parts, strict=True)]


def same_phases(sizes: Mapping[PhaseKey, Sizes]) -> list[tuple[PhaseKey, ...]]:
    """The keys of the phases, those together in which all pairs and groups have the same bytes."""
    same: defaultdict[tuple[frozenset[tuple[Pair, int]], frozenset[tuple[int, int]]], list[PhaseKey]]
    same = defaultdict(list)
    sets: dict[int, frozenset[tuple[Pair, int]]] = {}  # by id, as phases that are alike have the same object
    for key, one in sizes.items():
        if id(one.pairs) not in sets:
            sets[id(one.pairs)] = frozenset(one.pairs.items())
        same[sets[id(one.pairs)], frozenset(one.groups.items())].append(key)
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


def _depths(schedule: Schedule, n_phases: Sequence[int]) -> list[int]:
    """How many phases, at least, come before each operation, which itself has `n_phases`.

    Only what arrives counts: what a rank sends one after the other, it could as well send together, so the
    pushes of all workers have the same depth, and so have a server's answers to them.
    """
    depths = [0] * len(schedule.ops)
    for gate in sorted(schedule.gates, key=lambda gate: gate.op):
        for other in gate.after:
            op = schedule.ops[other]
            only_sent = (op.kind == "message" and op.root == gate.rank) or (
                op.kind == "reduce" and op.root != gate.rank
            )
            depths[gate.op] = max(depths[gate.op], depths[other] + (0 if only_sent else n_phases[other]))
    return depths

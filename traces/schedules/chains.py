"""Which operations of a schedule wait for which, through what ranks compute between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gradwire.traces.schedules.schedule import Schedule

Part = tuple[int, int]
"""(operation, rank)."""


def is_chain(schedule: Schedule, ops: Sequence[int]) -> bool:
    """Whether each of these operations begins, at every rank, when the one before is complete there."""
    after = {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    return all(_follows(schedule, after, *each) for each in pairwise(ops))


def _follows(schedule: Schedule, after: Mapping[Part, Sequence[int]], before: int, op: int) -> bool:
    shared = set(schedule.members[before]) & set(schedule.members[op])
    return bool(shared) and all(_waits(schedule, after, before, (op, rank)) for rank in shared)


def _waits(schedule: Schedule, after: Mapping[Part, Sequence[int]], before: int, part: Part) -> bool:
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

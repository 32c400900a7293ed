"""What trees stand on: a fabric, who is where on it, and what they add up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planning.fabrics.fabric import Fabric
from planning.plan import Plan
from traces.schedules.schedule import Group, Schedule


@dataclass(frozen=True, slots=True)
class Ground:
    """Rank r is on `placement[r]`; `nbytes` are those of all sums of a group, `switch_slots` a switch's."""

    fabric: Fabric
    placement: Sequence[str]
    nbytes: Mapping[Group, int]
    switch_slots: int
    seed: int


def ground_of(plan: Plan) -> Ground:
    return Ground(plan.fabric, plan.placement, group_nbytes(plan.schedule), plan.switch_slots, plan.seed)


def group_nbytes(schedule: Schedule) -> Counter[Group]:
    """The bytes of all sums of each group."""
    nbytes: Counter[Group] = Counter()
    for each in schedule.aggregations:
        nbytes[each.givers, each.takers] += schedule.ops[each.op].nbytes
    return nbytes

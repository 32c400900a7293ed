"""What a schedule asks of a fabric's links: the bytes of each flow in each different phase, and a bound."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planning.fabrics.fabric import Fabric
from planning.model.bounds import Cuts, phase_bound_s
from planning.model.phases import Pair, by_job, job_of_rank, nbytes_by_phase
from planning.plan import Flow, flow_numbers
from traces.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Demand:
    """All phases of one job in which the same flows send: flow -> bytes, in all of these phases together.

    `bound_s`: no routing can carry them in less.
    """

    job: int
    nbytes: Mapping[int, int]
    bound_s: float


def demands(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule
) -> tuple[Demand, ...]:
    """The demands, that which takes longest first; none for a schedule that sends nothing.

    Jobs of one phase each, such as two rings, always fall together: they are one job here.
    """
    number = flow_numbers(flows)
    totals = _totals(schedule)
    cuts = Cuts(fabric)
    found = [
        Demand(
            job=job,
            nbytes={number[pair]: sizes[pair] for pair in sorted(sizes)},
            bound_s=phase_bound_s(cuts, placement, sizes),
        )
        for (job, _), sizes in totals.items()
    ]
    return tuple(sorted(found, key=lambda demand: -demand.bound_s))


def _totals(schedule: Schedule) -> dict[tuple[int, frozenset[Pair]], Counter[Pair]]:
    """(job, pairs that send in the same phases) -> the bytes of each pair in all of these."""
    totals: defaultdict[tuple[int, frozenset[Pair]], Counter[Pair]] = defaultdict(Counter)
    for (job, _), sizes in by_job(nbytes_by_phase(schedule), job_of_rank(schedule)).items():
        totals[job, frozenset(sizes)].update(sizes)
    n_phases = Counter(job for job, _ in totals)
    alone = {job for job, count in n_phases.items() if count == 1}
    merged: Counter[Pair] = Counter()
    for (job, _), sizes in totals.items():
        if job in alone:
            merged.update(sizes)
    kept = {key: sizes for key, sizes in totals.items() if key[0] not in alone}
    return kept | ({(min(alone), frozenset(merged)): merged} if alone else {})

"""Figures of a run's row, from its counters: bytes by tier of the fabric, and what switches added up."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from gradwire.controller.counters import Counters
from gradwire.emu.aggregation.figures import AggregationRow, RankFigures, SumError
from gradwire.emu.records import Repeat
from gradwire.planning.fabrics.fabric import HOST_PORT, Egress, Fabric
from gradwire.planning.plan import Plan
from gradwire.results.audit.treecounts import plan_pools
from gradwire.results.verdict import counted


def tier_nbytes(fabric: Fabric, counters: Counters, repeats: int) -> dict[str, int]:
    """Bytes on the wire in a repeat (the mean of all) by tier and direction, `leaf→spine`.

    A tier is what switches' names have before their number; hosts are `host`.  What a host sends is counted
    by its switch.  Links that nobody counted are left out.
    """
    totals: Counter[str] = Counter()
    for egress, peer in fabric.peers.items():
        count = counters.received.get(peer) or counters.sent.get(egress)
        if count is not None:
            totals[f"{_tier(egress)}→{_tier(peer)}"] += count.nbytes
    return {name: round(nbytes / repeats) for name, nbytes in totals.items()}


def aggregation_row(
    plan: Plan, repeats: Sequence[Repeat], counters: Counters | None
) -> AggregationRow | None:
    """None for a plan whose switches add nothing up."""
    if not plan.trees:
        return None
    good = [repeat.aggregated for repeat in counted(repeats)]
    worst = _worst_error(figures for ranks in good for figures in ranks)
    added, completed, saturated = _added(plan, counters) if counters is not None else (0, 0, None)
    return AggregationRow(
        trees=len(plan.trees),
        slots=max(_slots(plan).values()),
        elements=max(tree.elements for tree in plan.trees),
        additions_per_result=added / completed if completed else None,
        contributions=_middle(sum(figures.sent for figures in ranks) for ranks in good),
        retransmitted=_middle(sum(figures.retransmitted for figures in ranks) for ranks in good),
        statuses=_middle(sum(figures.statuses for figures in ranks) for ranks in good),
        moves=_middle(max((figures.moves for figures in ranks), default=0) for ranks in good),
        largest_error=worst.largest,
        rms_error=worst.rms,
        error_bound=worst.bound,
        saturated=saturated,
    )


def _tier(egress: Egress) -> str:
    return "host" if egress.port == HOST_PORT else egress.node.rstrip("0123456789_") or egress.node


def _middle(values: Iterable[int]) -> int:
    return round(median(values))


def _worst_error(figures: Iterable[RankFigures]) -> SumError:
    """That of the sum that comes nearest to its bound."""
    errors = [error for one in figures for error in one.errors]
    return max(
        errors,
        key=lambda error: error.largest / error.bound if error.bound else error.largest,
        default=SumError(op=-1, largest=0.0, rms=0.0, bound=0.0),
    )


def _added(plan: Plan, counters: Counters) -> tuple[int, int, int]:
    """Contributions added at all switches, sums completed at roots, elements that did not fit."""
    added = completed = saturated = 0
    for node, pool in plan_pools(plan, counters):
        added += pool.counts["added"]
        completed += pool.counts["completed"] if node.parent_port is None else 0
        saturated += pool.counts["saturated"]
    return added, completed, saturated


def _slots(plan: Plan) -> Counter[str]:
    """Of each switch, for all its trees."""
    slots: Counter[str] = Counter()
    for tree in plan.trees:
        slots.update({node.switch: tree.slots for node in tree.nodes})
    return slots

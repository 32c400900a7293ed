"""Why a phase takes longer than the hosts' links need: one sentence, from the loads of its links."""

from collections import defaultdict
from collections.abc import Sequence

from gradwire.planning.fabrics.bigraph import BiGraph, bigraph_of
from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.model.loads import SLACK, Carried, PhaseLoad, slowest
from gradwire.planning.model.phases import PhaseKey
from gradwire.planning.plan import Flow, Plan
from gradwire.traces.units import show_count

SIMILAR = 0.01


def why(plan: Plan, phases: Sequence[PhaseLoad]) -> str:
    """Of the kind of operation that takes most of the time, the phase that adds most.

    Empty if no link between switches holds any of its phases up, whatever happens to the rest.  It has no
    end, so that it can be part of another sentence.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in phases:
        for key in one.keys:
            seconds[_kind(plan, key)] += one.phase.least_s
    most = max(seconds, key=lambda kind: round(seconds[kind], 9))
    matter = [one for one in phases if any(_kind(plan, key) == most for key in one.keys)]
    one = matter[slowest(matter)]
    return why_phase(plan, one) if one.collisions else ""


def _kind(plan: Plan, key: PhaseKey) -> str:
    return plan.schedule.ops[key[0]].kind if key[0] >= 0 else "message"


def why_phase(plan: Plan, one: PhaseLoad) -> str:
    """One phase that waits for a link between switches."""
    causes = [text for text in (_jobs(plan, one.worst), _transit(plan, one.worst), _limit(one)) if text]
    return ": ".join([_carries(plan.fabric, one), "; ".join(causes)])


def transit_flows(plan: Plan, link: Carried) -> tuple[int, ...]:
    """Of the flows of a BiGraph's link, those between two hosts of the same half.

    Every cable joins the two halves, so they cross twice and take the place of two direct ones.
    """
    cabled = bigraph_of(plan.fabric)
    if cabled is None:
        return ()
    return tuple(number for number in link.flows if _within_a_half(plan, cabled, plan.flows[number]))


def _within_a_half(plan: Plan, cabled: BiGraph, flow: Flow) -> bool:
    src, dst = (access_switch(plan.fabric, plan.placement[rank]) for rank in (flow.src, flow.dst))
    return (src in cabled.upper) == (dst in cabled.upper)


def _carries(fabric: Fabric, one: PhaseLoad) -> str:
    name, at_host = link_name(fabric, one.worst.egress), one.host.n_flows
    if abs(one.worst.share * at_host / one.worst.n_flows - 1) < SIMILAR:
        return f"{name} carries {_flows(one.worst)} where a host link carries {at_host}"
    return (
        f"{name} is busy {one.worst.share:.2f} × as long as any host link, with {_flows(one.worst)} at once"
    )


def _jobs(plan: Plan, link: Carried) -> str:
    sources = {plan.flows[number].src for number in link.flows}
    sources.update(plan.trees[number].givers[0] for number in link.trees)
    count = sum(not sources.isdisjoint(ranks) for ranks in plan.schedule.jobs)
    return f"shared by {count} jobs" if count > 1 else ""


def _transit(plan: Plan, link: Carried) -> str:
    crossing = transit_flows(plan, link)
    if not crossing:
        return ""
    return (
        f"{len(crossing)} of them ({len(crossing) / len(link.flows):.0%}) are between hosts of the same half,"
        " which cross the BiGraph twice"
    )


def _limit(one: PhaseLoad) -> str:
    phase = one.phase
    if phase.least_s <= phase.bound_s * SLACK:
        return "no routes do better on this fabric"
    least = phase.bound_s / phase.host_s
    return f"any routes need at least {least:.2f} × the host links' time, these {one.worst.share:.2f} ×"


def _flows(link: Carried) -> str:
    counts = ((len(link.flows), "flow"), (len(link.trees), "tree"))
    return " and ".join(show_count(count, what) for count, what in counts if count)

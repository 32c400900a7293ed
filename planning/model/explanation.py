"""Why a plan, or a phase of it, takes longer than the hosts' links need: a sentence, from links' loads."""

from gradwire.planning.fabrics.bigraph import BiGraph, bigraph_of
from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.model.loads import SLACK, Carried, PhaseLoad, PlanLoad, worst_link_matters
from gradwire.planning.plan import Flow, Plan
from gradwire.traces.units import show_count

SIMILAR = 0.01


def why(plan: Plan, load: PlanLoad) -> str:
    """Why the worst link of the plan is one: what it carries in the phases in which it adds most.

    Empty if it adds nothing that matters (`worst_link_matters`).  It has no full stop, so that it can be part
    of another sentence.
    """
    if not worst_link_matters(plan.fabric, load):
        return ""
    held_up = [
        (part, link) for part in load.parts for link in part.collisions if link.egress == load.worst.egress
    ]
    added_s = [len(part.keys) * (link.busy_s - part.host.busy_s) for part, link in held_up]
    most = max(range(len(held_up)), key=lambda i: (round(added_s[i], 9), -i))
    return _why_link(plan, *held_up[most])


def why_phase(plan: Plan, one: PhaseLoad) -> str:
    """One phase that waits for a link between switches."""
    return _why_link(plan, one, one.worst)


def _why_link(plan: Plan, one: PhaseLoad, link: Carried) -> str:
    causes = [text for text in (_jobs(plan, link), _transit(plan, link), _limit(one, link)) if text]
    return ": ".join([_carries(plan.fabric, one, link), "; ".join(causes)])


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


def _carries(fabric: Fabric, one: PhaseLoad, link: Carried) -> str:
    name, at_host = link_name(fabric, link.egress), one.host.n_flows
    if abs(link.share * at_host / link.n_flows - 1) < SIMILAR:
        return f"{name} carries {_flows(link)} where a host link carries {at_host}"
    return f"{name} is busy {link.share:.2f} × as long as any host link, with {_flows(link)} at once"


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


def _limit(one: PhaseLoad, link: Carried) -> str:
    phase = one.phase
    if phase.least_s <= phase.bound_s * SLACK:
        return "no routes do better on this fabric"
    least = phase.bound_s / phase.host_s
    return f"any routes need at least {least:.2f} × the host links' time, these {link.share:.2f} ×"


def _flows(link: Carried) -> str:
    counts = ((len(link.flows), "flow"), (len(link.trees), "tree"))
    return " and ".join(show_count(count, what) for count, what in counts if count)

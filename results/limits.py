"""What holds a plan up, in a few words: what to look at next to make it faster."""

from dataclasses import dataclass
from typing import Literal

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.closedform import ClosedTime, Costs, closed_time
from gradwire.planning.model.loads import PlanLoad, worst_link_matters
from gradwire.planning.model.predict import compute_s
from gradwire.planning.plan import Plan
from gradwire.traces.units import show_count

LimitKind = Literal["computing", "messages", "hosts' links", "link"]
MOST = 0.5  # of a time is what holds it up


@dataclass(frozen=True, slots=True)
class Limit:
    """What holds a run up; `link` is one between switches, on which `flows` meet, else both are None."""

    kind: LimitKind
    link: str | None = None
    flows: int | None = None


COMPUTING, MESSAGES, HOSTS_LINKS = Limit("computing"), Limit("messages"), Limit("hosts' links")


def show_limit(limit: Limit) -> str:
    """With its verb, as in `computing holds it up`."""
    flows = show_count(limit.flows or 0, "flow")
    words = {
        "computing": "computing holds",
        "messages": "what each message costs holds",
        "hosts' links": "the hosts' own links hold",
        "link": f"link {limit.link} ({flows} at once) holds",
    }
    return f"{words[limit.kind]} it up"


def limit_of(plan: Plan, load: PlanLoad, costs: Costs, closed: ClosedTime) -> Limit:
    """The worst link between switches, or COMPUTING, MESSAGES or HOSTS_LINKS."""
    if _is_computing(plan):
        return COMPUTING
    if closed.time_s and _messages_s(plan, costs, closed) > MOST * closed.time_s:
        return MESSAGES
    if plan.schedule.send_delay_ns and _left_s(plan, load) > MOST * plan.prediction.fluid_s:
        return MESSAGES
    if not worst_link_matters(plan.fabric, load):
        return HOSTS_LINKS
    worst = load.worst
    return Limit("link", link_name(plan.fabric, worst.egress), worst.together)


def _is_computing(plan: Plan) -> bool:
    """Whether more than half of an iteration is; without iterations, of the whole."""
    made = plan.prediction
    if made.iteration_s and made.exposed_s is not None:
        return made.iteration_s - made.exposed_s > MOST * made.iteration_s
    return compute_s(plan.schedule) > MOST * made.fluid_s


def _left_s(plan: Plan, load: PlanLoad) -> float:
    """What neither bytes nor computing take, also if they take it one after the other."""
    return plan.prediction.fluid_s - load.barrier_s - compute_s(plan.schedule)


def _messages_s(plan: Plan, costs: Costs, closed: ClosedTime) -> float:
    """What is left of the closed form if bytes cost nothing."""
    if not costs.alpha_s or closed.time_s is None:
        return 0.0
    return closed_time(plan, Costs(costs.alpha_s, 0.0, costs.source)).time_s or 0.0

"""The figures of a plan that rows, cells of a matrix and `plan --json` have alike, worked out once."""

from typing_extensions import TypedDict  # pydantic, which brings it, reads no other before Python 3.12

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.closedform import Costs, closed_time, nominal_costs
from gradwire.planning.model.loads import PlanLoad
from gradwire.planning.plan import Plan
from gradwire.results.limits import Limit, limit_of


class PlanFigures(TypedDict):
    """As docs/schemas.md says of rows."""

    closed_form: str | None
    closed_s: float | None
    ratio_closed: float | None
    no_closed_form: str | None
    closed_is_bound: bool
    alpha_s: float
    beta_s_per_byte: float
    alpha_from: str
    fabric_bound_s: float
    limit: Limit
    worst_link: str
    worst_link_flows: int


def plan_figures(plan: Plan, load: PlanLoad, costs: Costs, time_s: float) -> PlanFigures:
    """`load` is the plan's own; `time_s` is held against the closed form, which may take a second."""
    closed = closed_time(plan, costs)
    return PlanFigures(
        closed_form=closed.text,
        closed_s=closed.time_s,
        ratio_closed=time_s / closed.time_s if closed.time_s and not closed.is_bound else None,
        no_closed_form=closed.missing,
        closed_is_bound=closed.is_bound,
        alpha_s=costs.alpha_s,
        beta_s_per_byte=costs.beta_s_per_byte,
        alpha_from=costs.source,
        fabric_bound_s=load.barrier_bound_s,
        limit=limit_of(plan, load, costs, closed),
        worst_link=link_name(plan.fabric, load.worst.egress),
        worst_link_flows=load.worst.together,
    )


def nominal_figures(plan: Plan, load: PlanLoad) -> PlanFigures:
    """Of a plan that was not run: by its fluid time, with the costs of that."""
    return plan_figures(plan, load, nominal_costs(plan), plan.prediction.fluid_s)

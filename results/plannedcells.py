"""The cells of a matrix as planned: their figures, or why they are refused."""

from dataclasses import dataclass

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.closedform import closed_time, nominal_costs
from gradwire.planning.model.loads import PlanLoad
from gradwire.planning.plan import Plan
from gradwire.results.limits import limit_of
from gradwire.results.row import asked_nbytes


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """`refused` is why a cell makes no sense; then it has no figures.  They are those of `plan --json`."""

    fabric: str
    algorithm: str
    placement: str
    routes: str
    ranks: int
    bytes: int = 0
    fluid_s: float | None = None
    bound_s: float | None = None
    ratio: float | None = None
    closed_s: float | None = None
    ratio_closed: float | None = None
    worst_link: str | None = None
    worst_link_flows: int | None = None
    limit: str | None = None
    refused: str | None = None

    @property
    def name(self) -> str:
        return f"{self.algorithm}, {self.placement}, {self.routes} on {self.fabric}"


def planned_cell(plan: Plan, load: PlanLoad) -> PlannedCell:
    """The figures of one plan; `load` is its own."""
    costs = nominal_costs(plan)
    closed = closed_time(plan, costs)
    made = plan.prediction
    return PlannedCell(
        fabric=plan.fabric.spec,
        algorithm=plan.algorithm,
        placement=plan.placement_name,
        routes=plan.routes,
        ranks=plan.n_ranks,
        bytes=asked_nbytes(plan.schedule),
        fluid_s=made.fluid_s,
        bound_s=made.bound_s,
        ratio=made.fluid_s / made.bound_s if made.bound_s else None,
        closed_s=closed.time_s,
        ratio_closed=made.fluid_s / closed.time_s if closed.time_s else None,
        worst_link=link_name(plan.fabric, load.worst.egress),
        worst_link_flows=load.worst.together,
        limit=limit_of(plan, load, costs, closed),
    )


def refused_cell(cell: Cell, experiment: Experiment, reason: str) -> PlannedCell:
    """The cell without figures."""
    names = (cell.fabric.spec, cell.algorithm, cell.placement, cell.routes)
    return PlannedCell(*names, experiment.n_ranks, refused=reason)

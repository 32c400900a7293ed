"""The cells of a matrix as planned: their figures, what they carry, or why they are refused."""

from dataclasses import asdict, dataclass

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.model.loads import PlanLoad, by_severity
from gradwire.planning.plan import Plan
from gradwire.results.planfigures import PlanFigures
from gradwire.results.plannedflows import PlannedFlow, planned_flows
from gradwire.results.plannedlinks import PlannedLink, planned_link
from gradwire.results.row import asked_nbytes
from gradwire.results.rowchoices import cell_name


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """The times of a plan in seconds by SimGrid, and packet by packet by ns-3; None by who was not asked.

    `packets_dropped` are the frames that queues dropped in ns-3, `packets_resent` the segments that TCP sent
    again there.
    """

    simgrid_s: float | None = None
    packets_s: float | None = None
    packets_dropped: int | None = None
    packets_resent: int | None = None


NOT_ASKED = EngineTimes()


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """`refused` is why a cell makes no sense; then it has no figures.  They are those of `plan --json`.
    `simgrid_s` to `packets_resent` are those of its EngineTimes.
    """

    fabric: str
    algorithm: str
    placement: str
    routes: str
    ranks: int
    bytes: int = 0
    fluid_s: float | None = None
    bound_s: float | None = None
    ratio: float | None = None
    iteration_s: float | None = None
    exposed_s: float | None = None
    figures: PlanFigures | None = None
    simgrid_s: float | None = None
    packets_s: float | None = None
    packets_dropped: int | None = None
    packets_resent: int | None = None
    refused: str | None = None

    @property
    def name(self) -> str:
        return cell_name(self.fabric, self.algorithm, self.placement, self.routes)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a plan puts on its links, the worst first, and sends in its flows."""

    links: tuple[PlannedLink, ...]
    flows: tuple[PlannedFlow, ...]


def carried_by(plan: Plan, load: PlanLoad) -> Carried:
    """`load` is the plan's own."""
    links = tuple(planned_link(plan.fabric, each) for each in by_severity(load.loads))
    return Carried(links, tuple(planned_flows(plan)))


def planned_cell(plan: Plan, figures: PlanFigures, engines: EngineTimes = NOT_ASKED) -> PlannedCell:
    """The cell of one plan, with its times by other engines that were asked."""
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
        iteration_s=made.iteration_s,
        exposed_s=made.exposed_s,
        figures=figures,
        **asdict(engines),
    )


def refused_cell(cell: Cell, experiment: Experiment, reason: str) -> PlannedCell:
    """The cell without figures."""
    names = (cell.fabric.spec, cell.algorithm, cell.placement, cell.routes)
    return PlannedCell(*names, experiment.n_ranks, refused=reason)

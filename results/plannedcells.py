"""The cells of a matrix as planned: their figures, what they carry, or why they are refused."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.planning.model.loads import LinkLoad, PlanLoad, by_severity
from gradwire.planning.model.wire import payload_nbytes
from gradwire.planning.plan import Flow, Plan
from gradwire.results.planfigures import PlanFigures
from gradwire.results.rowchoices import cell_name
from gradwire.results.schedulesizes import asked_nbytes


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """One direction of a TCP connection in a plan; its fields are columns (docs/schemas.md, "plan --json:
    flows").  `path` are the nodes from host to host, `payload_nbytes` what it carries in one repeat.
    """

    src: int
    dst: int
    src_host: str
    dst_host: str
    src_ip: str
    dst_ip: str
    sport: int
    dport: int
    payload_nbytes: int
    path: tuple[str, ...]


def planned_flows(plan: Plan) -> list[PlannedFlow]:
    """Both directions of every connection, in the plan's order."""
    return [
        PlannedFlow(
            src=flow.src,
            dst=flow.dst,
            src_host=plan.placement[flow.src],
            dst_host=plan.placement[flow.dst],
            src_ip=flow.src_ip,
            dst_ip=flow.dst_ip,
            sport=flow.sport,
            dport=flow.dport,
            payload_nbytes=nbytes,
            path=tuple(path_nodes(plan, flow)),
        )
        for flow, nbytes in zip(plan.flows, payload_nbytes(plan), strict=True)
    ]


def path_nodes(plan: Plan, flow: Flow) -> Sequence[str]:
    """The nodes on a flow's path, the hosts included."""
    return [*(egress.node for egress in flow.path), plan.placement[flow.dst]]


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """One direction of a cable in a plan; its fields are columns (docs/schemas.md, "plan --json: links").

    `rate_bps` is the link's nominal rate, `payload_nbytes` all that it carries, `busy_s` how long that takes
    at its rate, in full frames.  `flows` use it in all, trees among them, and up to `flows_together` of them
    in one phase.  `excess_s` is how much longer than the busiest host link it is busy, summed over phases.
    """

    link: str
    rate_bps: int
    payload_nbytes: int
    flows: int
    flows_together: int
    busy_s: float
    excess_s: float


def planned_link(fabric: Fabric, load: LinkLoad) -> PlannedLink:
    """The columns of a link of the fabric that carries `load`."""
    return PlannedLink(
        link=link_name(fabric, load.egress),
        rate_bps=load.rate_bps,
        payload_nbytes=load.nbytes,
        flows=load.n_flows,
        flows_together=load.together,
        busy_s=load.busy_s,
        excess_s=load.excess_s,
    )


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

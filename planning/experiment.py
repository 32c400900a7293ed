"""Makes plans from a user's choices: fabric × algorithm × placement × routes.

Jobs that switches cannot add up, for lack of room or of a tree, are done by their hosts.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.hints import hints_of
from gradwire.planning.failures import check_failures, check_reachable, parse_failures
from gradwire.planning.jobplaces import place_jobs
from gradwire.planning.losses import check_losses, parse_loss
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.planning.resolve import Ports, resolve_placed
from gradwire.planning.transport import fabric_transport
from gradwire.planning.trees.grants import Terms, granted
from gradwire.planning.trees.tree import DEFAULT_ELEMENTS, SWITCH_SLOTS
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.allreduced import with_allreduces
from gradwire.traces.schedules.dtypes import FLOAT32, DType
from gradwire.traces.schedules.expand import expand, not_added
from gradwire.traces.schedules.hints import NO_HINTS, Hints
from gradwire.traces.schedules.names import AS_CAPTURED, INA, INA_LEAF, Pace, replaces_servers
from gradwire.traces.schedules.outbox import FIFO, Order
from gradwire.traces.schedules.pushes import first_come_servers
from gradwire.traces.schedules.schedule import MAX_SEND_DELAY_NS, Schedule, together
from gradwire.traces.trace import MAX_UNREAD
from gradwire.traces.units import show_ns
from gradwire.traces.workload import Collective, Workload

if TYPE_CHECKING:
    from gradwire.traces.fidelity import SentMessage  # the reader of captures takes a while to import

MAX_CELLS = 10_000
HOST_SIDE = "ring"  # of a job that switches cannot add up; a parameter server's goes as captured


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of choices: the names of an algorithm, a placement and a routing policy on a fabric."""

    fabric: Fabric
    algorithm: str
    placement: str
    routes: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """What every cell carries; see `traces.schedules.expand.expand` for `iterations`, `scale`, `compute`,
    `wire` and `pace`.

    `beside` are other jobs on other hosts at the same time; `fail` are cables that fail, as
    `planning.failures.parse_failures` reads them, `loss` those that lose packets, as
    `planning.losses.parse_loss` does.
    For `switch_slots`, `slots` and `elements` see `planning.trees.grants.Terms`.  `captured_on` is
    the fabric on which the unchanged job was captured, if that is known; `assumptions` say what was taken for
    granted to make another job of it.  `keys` are the elements of each tensor in a buffer, if anybody said.
    """

    workload: Workload
    source: str
    seed: int = 0
    iterations: tuple[int, ...] | None = None
    scale: Fraction = Fraction(1)
    compute: Fraction = Fraction(1)
    beside: tuple[Workload, ...] = ()
    fail: tuple[str, ...] = ()
    loss: tuple[str, ...] = ()
    switch_slots: int = SWITCH_SLOTS
    slots: int | None = None
    elements: int = DEFAULT_ELEMENTS
    pace: Pace | None = None
    send_delay_ns: int = 0
    captured_on: Fabric | None = None
    wire: DType = FLOAT32
    assumptions: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    order: Order = FIFO

    def __post_init__(self) -> None:
        """Raise ValueError for a delay that no plan may have."""
        if not 0 <= self.send_delay_ns <= MAX_SEND_DELAY_NS:
            raise ValueError(
                f"a send's delay can be at most {show_ns(MAX_SEND_DELAY_NS)}, got "
                f"{show_ns(self.send_delay_ns)}"
            )

    @property
    def workloads(self) -> tuple[Workload, ...]:
        return (self.workload, *self.beside)

    @property
    def n_ranks(self) -> int:
        return sum(workload.n_ranks for workload in self.workloads)


@dataclass(frozen=True)
class Original:
    """The job as it was captured: on which fabric, on which hosts by rank, and its messages."""

    fabric: Fabric
    hosts: tuple[str, ...]
    messages: "tuple[SentMessage, ...]"

    def is_of(self, plan: Plan) -> bool:
        """Whether the plan sends the same there."""
        same_place = (plan.fabric, plan.placement) == (self.fabric, self.hosts)
        as_sent = plan.schedule.dtypes in ((), (FLOAT32,)) and plan.schedule.order == FIFO
        same_job = plan.algorithm == AS_CAPTURED and as_sent
        return same_place and same_job and not (plan.failures or plan.losses or plan.schedule.send_delay_ns)


def cells(
    fabrics: Sequence[Fabric], algorithms: Sequence[str], placements: Sequence[str], routes: Sequence[str]
) -> list[Cell]:
    """Every combination of these, in the order in which they are given, the routes varying first.

    Raise ValueError for two different fabrics of one name, and for more cells than MAX_CELLS.
    """
    n_cells = len(fabrics) * len(algorithms) * len(placements) * len(routes)
    if n_cells > MAX_CELLS:
        raise ValueError(f"{n_cells:,} cells are too many; at most {MAX_CELLS:,} are possible")
    for a, b in itertools.combinations(fabrics, 2):
        if a.spec == b.spec and a != b:
            raise ValueError(f"two different fabrics are named {a.spec}: give each its own `name:`")
    return [Cell(*choice) for choice in itertools.product(fabrics, algorithms, placements, routes)]


def plan_of(cell: Cell, experiment: Experiment) -> Plan:
    """The plan of one cell; the same arguments give the same plan.

    Raise Refused for a cell that makes no sense, ValueError for what is wrong in any cell.
    """
    failures = tuple(failure for text in experiment.fail for failure in parse_failures(text, cell.fabric))
    check_failures(cell.fabric, failures)
    losses = tuple(loss for text in experiment.loss for loss in parse_loss(text, cell.fabric))
    check_losses(cell.fabric, losses)
    terms = Terms(experiment.switch_slots, experiment.slots, experiment.elements, failures)
    experiment = _without_servers(experiment, cell.algorithm)
    n_workers = [workload.n_ranks for workload in experiment.workloads]
    jobs = place_jobs(cell.fabric, cell.algorithm, cell.placement, n_workers, experiment.seed)
    schedule, host_side = _schedule_and_host_side(cell, experiment, jobs, terms)
    if not schedule.sends and not schedule.aggregations:
        raise Refused("with blocks or chunks of 0 bytes nothing is sent: choose a larger size")
    plan = resolve_placed(
        cell.fabric,
        tuple(itertools.chain.from_iterable(jobs)),
        replace(schedule, send_delay_ns=experiment.send_delay_ns, order=experiment.order),
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        seed=experiment.seed,
        transport=fabric_transport(cell.fabric),
        terms=terms,
        ports=_ports(experiment, jobs),
    )
    check_reachable(cell.fabric, plan.placement, plan.schedule.jobs, failures)
    return replace(
        plan,
        source=experiment.source,
        failures=failures,
        losses=losses,
        host_side=host_side,
        doubts=_doubts(cell, experiment),
        assumptions=experiment.assumptions,
        keys=experiment.keys,
        pace=experiment.pace,
    )


def _without_servers(experiment: Experiment, algorithm: str) -> Experiment:
    """The jobs as `algorithm` can do them: synchronous parameter servers' as allreduces."""
    if not replaces_servers(algorithm):
        return experiment
    jobs = []
    for number, workload in enumerate(experiment.workloads):
        with _naming_job(experiment, number):
            jobs.append(with_allreduces(workload, experiment.iterations))
    job, *beside = jobs
    return replace(
        experiment,
        workload=job.workload,
        beside=tuple(other.workload for other in beside),
        assumptions=(*experiment.assumptions, *(note for other in (job, *beside) for note in other.notes)),
    )


def _ports(experiment: Experiment, jobs: Sequence[Sequence[str]]) -> Ports:
    """The ports of all captured connections, each way; `jobs` has the hosts of each workload."""
    ports = {}
    firsts = itertools.accumulate(map(len, jobs), initial=0)
    for workload, first in zip(experiment.workloads, firsts, strict=False):
        for each in workload.connections:
            a, b = each.a + first, each.b + first
            ports[a, b], ports[b, a] = (each.port_a, each.port_b), (each.port_b, each.port_a)
    return ports


def _doubts(cell: Cell, experiment: Experiment) -> tuple[str, ...]:
    """Why what is sent may not be what the jobs did, one line for each."""
    return tuple(
        line
        for workload in experiment.workloads
        for line in _doubts_of(workload, cell, experiment.captured_on)
    )


def _doubts_of(workload: Workload, cell: Cell, captured_on: Fabric | None) -> Iterator[str]:
    """Who came first, to a server or to an exchange, is chance: it is known only of the job as captured."""
    source = workload.source or "the workload"
    if workload.unread > MAX_UNREAD:
        yield f"{workload.unread:.1%} of the bytes of {source} are unread"
    if (cell.fabric, cell.placement) == (captured_on, "linear"):
        return
    is_captured = bool(workload.addresses)  # else no order in which workers came was seen
    if is_captured and (servers := first_come_servers(workload.items)):
        yield (
            f"server {', '.join(map(str, servers))} of {source} answers the worker that comes first, and the "
            "workload does not say how it takes turns: the replay keeps the captured order, which another "
            "fabric or other hosts would change"
        )
    turns = sum(len(item.turns) for item in workload.items if isinstance(item, Collective))
    if turns and cell.algorithm == AS_CAPTURED:
        yield (
            f"ranks of {source} took turns in {turns:,} of their exchanges; whether they do on another "
            "fabric or on other hosts cannot be known"
        )


def schedule_of(experiment: Experiment, algorithm: str) -> Schedule:
    """All that the job and those beside it send, whatever the fabric.  Raise as `plan_of` does."""
    return together([_expanded(experiment, number, algorithm) for number in range(len(experiment.workloads))])


def _schedule_and_host_side(
    cell: Cell, experiment: Experiment, jobs: Sequence[Sequence[str]], terms: Terms
) -> tuple[Schedule, tuple[str, ...]]:
    """The schedule, and what of it was to be added up by switches and is not, as `Plan.host_side` says it.

    `jobs` has the hosts of each workload.
    """
    delay_s = experiment.send_delay_ns / 1e9
    hints = [
        replace(hints_of(cell.fabric, hosts), keys=experiment.keys, send_delay_s=delay_s) for hosts in jobs
    ]
    schedules = [_expanded(experiment, number, cell.algorithm, one) for number, one in enumerate(hints)]
    if cell.algorithm not in (INA, INA_LEAF):
        return together(schedules), ()
    schedule, reasons = with_granted_trees(
        cell.fabric,
        tuple(itertools.chain.from_iterable(jobs)),
        schedules,
        lambda number: _expanded(experiment, number, HOST_SIDE),
        terms,
        experiment.seed,
    )
    host_side = [
        f"job {number + 1} of {len(jobs)}: {line}"
        for number, workload in enumerate(experiment.workloads)
        for line in _not_added(experiment, workload, cell.algorithm, reasons.get(number))
    ]
    return schedule, tuple(host_side)


def _not_added(
    experiment: Experiment, workload: Workload, algorithm: str, reason: str | None
) -> tuple[str, ...]:
    """Why hosts do all of a workload, if there is a reason, or some of it."""
    if reason is not None:
        return (reason,)
    return not_added(workload, iterations=experiment.iterations) if algorithm == INA else ()


def _expanded(experiment: Experiment, number: int, algorithm: str, hints: Hints = NO_HINTS) -> Schedule:
    with _naming_job(experiment, number):
        return expand(
            experiment.workloads[number],
            algorithm,
            iterations=experiment.iterations,
            scale=experiment.scale,
            compute=experiment.compute,
            hints=hints,
            wire=experiment.wire,
            pace=experiment.pace,
        )


@contextmanager
def _naming_job(experiment: Experiment, number: int) -> Iterator[None]:
    """Raise what is wrong with one of several jobs with its name, and what cannot be served as Refused."""
    try:
        yield
    except ValueError as error:
        n_jobs, source = len(experiment.workloads), experiment.workloads[number].source
        which = f"job {number + 1} of {n_jobs}{source and f', {source}'}: " if n_jobs > 1 else ""
        kind = Refused if isinstance(error, NotServedError) else ValueError
        raise kind(f"{which}{error}") from error


def with_granted_trees(
    fabric: Fabric,
    placement: Sequence[str],
    schedules: Sequence[Schedule],
    host_side: Callable[[int], Schedule],
    terms: Terms,
    seed: int,
) -> tuple[Schedule, dict[int, str]]:
    """Workloads side by side, and which of them are done by their hosts, and why.

    A workload of which any job gets no tree is replaced: the i-th by `host_side(i)`, which asks for none.
    """
    chosen = list(schedules)
    workload_of = [number for number, each in enumerate(chosen) for _ in range(each.n_ranks)]
    reasons: dict[int, str] = {}
    while True:
        whole = together(chosen)
        refused = granted(fabric, placement, whole, terms, seed).refused
        if not refused:
            return whole, reasons
        for job, reason in refused.items():
            number = workload_of[job[0]]
            if number not in reasons:
                reasons[number] = reason
                chosen[number] = host_side(number)

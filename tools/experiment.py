"""A matrix of runs: fabric × algorithm × placement × routes, each calibrated and judged."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeVar

from controller.audit.phaseaudit import phase_audits
from controller.audit.why import why
from controller.model.fluid import fluid_s
from controller.model.loads import audit
from controller.resolve import resolve
from controller.tables.rules import guarded_rules
from emu import records, result, verdict
from emu import run as runs
from emu.calibration import Calibration
from emu.fabrics.fabric import Fabric
from emu.fabrics.spec import with_automatic_queue
from emu.failures import check_failures, check_reachable, parse_failure
from emu.network.transport import fabric_transport
from emu.options import RunOptions
from emu.plan import Plan
from emu.refused import Refused
from emu.result import REFUSED, Row
from tools.calibrating import calibration_plan, fitted
from tools.runaudit import audit_run, middle
from traces.schedules.collectives import NotServedError
from traces.schedules.expand import expand
from traces.schedules.schedule import Schedule, together
from traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Cell:
    fabric: Fabric
    algorithm: str
    placement: str
    routes: str


@dataclass(frozen=True, slots=True)
class Job:
    """What every cell carries; see `traces.schedules.expand.expand` for `iterations`, `scale` and `compute`.

    `beside` are other jobs on other hosts at the same time; `fail` are cables that fail, as
    `emu.failures.parse_failure` reads them.
    """

    workload: Workload
    source: str
    seed: int = 0
    iterations: tuple[int, ...] | None = None
    scale: Fraction = Fraction(1)
    compute: Fraction = Fraction(1)
    beside: tuple[Workload, ...] = ()
    fail: tuple[str, ...] = ()

    @property
    def n_ranks(self) -> int:
        return sum(workload.n_ranks for workload in (self.workload, *self.beside))


Tell = Callable[[str], None]
CALIBRATION_REPEATS = 2
Result = TypeVar("Result")


class Run(Protocol):
    """`emu.run.run`, or what stands for it in a test."""

    def __call__(
        self,
        plan: Plan,
        folder: Path,
        options: RunOptions,
        progress: runs.Progress,
        finish: Callable[[Path], Result],
        /,
    ) -> Result: ...


def cells(
    fabrics: Sequence[Fabric], algorithms: Sequence[str], placements: Sequence[str], routes: Sequence[str]
) -> list[Cell]:
    for a, b in itertools.combinations(fabrics, 2):
        if a.spec == b.spec and a != b:
            raise ValueError(f"two different fabrics are named {a.spec}: give them a `name:` each")
    return [Cell(*choice) for choice in itertools.product(fabrics, algorithms, placements, routes)]


def plan_of(cell: Cell, job: Job) -> Plan:
    """Raise Refused for a cell that makes no sense, ValueError for what is wrong in any cell."""
    failures = tuple(parse_failure(text, cell.fabric) for text in job.fail)
    check_failures(cell.fabric, failures)
    made = resolve(
        cell.fabric,
        schedule_of(job, cell.algorithm),
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        seed=job.seed,
        transport=fabric_transport(cell.fabric),
        source=job.source,
    )
    check_reachable(cell.fabric, made.placement, made.schedule.jobs, failures)
    return replace(made, failures=failures)


def schedule_of(job: Job, algorithm: str) -> Schedule:
    """All that the job and those beside it send.  Raise as `plan_of` does."""
    try:
        return together(
            [
                expand(workload, algorithm, iterations=job.iterations, scale=job.scale, compute=job.compute)
                for workload in (job.workload, *job.beside)
            ]
        )
    except NotServedError as error:
        raise Refused(str(error)) from error


def planned(work: Sequence[tuple[Cell, Job]]) -> list[Plan | Row]:
    """The plan of each cell, or its row where it makes no sense: all mistakes show before anything is run.

    Raise Refused when the only cell makes no sense.
    """
    made: list[Plan | Row] = []
    for cell, job in work:
        try:
            made.append(plan_of(cell, job))
        except Refused as error:
            if len(work) == 1:
                raise
            made.append(refused(cell, job, str(error)))
    return made


class Laboratory:
    """Carries plans out, one after the other; calibrates each fabric once."""

    def __init__(self, folder: Path, options: RunOptions, tell: Tell, run: Run = runs.run) -> None:
        self._folder = folder
        self._options = options
        self._tell = tell
        self._run = run
        self._calibrations: dict[Fabric, Calibration] = {}
        self._number = 0

    def row(self, plan: Plan) -> Row:
        """Run it, and say what that means."""
        name = f"{plan.fabric.spec} {plan.algorithm} {plan.placement_name} {plan.routes}"
        calibrated = self.calibration(plan.fabric)
        self._number += 1
        folder = self._folder / f"{self._number:02d}-{_file_name(name)}"

        def finish(work: Path) -> Row:
            return _judged(plan, work, folder, self._options.repeats, calibrated)

        return self._run(plan, folder, self._options, self._progress(name, self._options), finish)

    def calibration(self, fabric: Fabric) -> Calibration:
        """Measured at its first use, on the same cables with queues that drop nothing."""
        if fabric not in self._calibrations:
            plan = calibration_plan(with_automatic_queue(fabric), fabric_transport(fabric))
            options = RunOptions(CALIBRATION_REPEATS, self._options.switch)
            self._calibrations[fabric] = self._run(
                plan,
                self._folder / f"calibration-{_file_name(fabric.spec)}",
                options,
                self._progress(f"{fabric.spec} calibration", options),
                lambda work: fitted(plan, work),
            )
        return self._calibrations[fabric]

    def _progress(self, name: str, options: RunOptions) -> runs.Progress:
        def progress(phase: str, more: dict[str, Any]) -> None:
            where = f" {more['repeat'] + 1}/{options.repeats}" if "repeat" in more else ""
            self._tell(f"{name}: {phase}{where}")

        return progress


def _judged(plan: Plan, work: Path, folder: Path, wanted: int, calibrated: Calibration) -> Row:
    """The row of a run whose files are in `work` and will be in `folder`; leaves result and verdict there."""
    repeats = records.load_repeats(work, plan)
    judged = verdict.judge(repeats, wanted, calibrated, plan.prediction.bound_s)
    held = audit_run(work, plan, repeats, middle(repeats))
    if held is not None and not held.agrees:
        judged = replace(judged, warnings=(*judged.warnings, held.sentence))
    if warning := guarded_rules(plan).guard.warning:
        judged = replace(judged, warnings=(*judged.warnings, warning))
    audited = audit(plan)
    predicted_s, _ = fluid_s(
        plan.fabric, plan.flows, plan.schedule, alpha_s=calibrated.per_send_s, eta=calibrated.eta
    )
    reason = why(plan, phase_audits(plan, audited))
    made = result.row(
        plan,
        repeats,
        judged,
        predicted_s=predicted_s,
        worst=audited.worst.egress,
        worst_flows=audited.worst.together,
        folder=folder,
        why=f"as planned: {reason}" if reason and plan.flows_may_move else reason or None,
    )
    result.save(work, made, judged, calibrated)
    return made


def refused(cell: Cell, job: Job, reason: str) -> Row:
    return Row(
        fabric=cell.fabric.spec,
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        ranks=job.n_ranks,
        bytes=0,
        verdict=REFUSED,
        seed=job.seed,
        hosts=len(cell.fabric.hosts),
        host_rates_bps=cell.fabric.host_rates_bps,
        inner_rates_bps=cell.fabric.inner_rates_bps,
        reasons=(reason,),
    )


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-=." else "_" for letter in text)

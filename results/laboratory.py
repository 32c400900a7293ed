"""Carries plans out one after the other: calibrates each fabric at its first use, and judges each run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

from gradwire.controller.counters import load_counters
from gradwire.emu import records
from gradwire.emu.options import RunOptions
from gradwire.planning.experiment import Cell, Experiment, Original, plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import with_automatic_queue
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.closedform import measured_costs
from gradwire.planning.model.expected import expected
from gradwire.planning.model.explanation import why
from gradwire.planning.model.loads import plan_load
from gradwire.planning.openflow.rules import guarded_rules
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.planning.transport import fabric_transport
from gradwire.results import row as result
from gradwire.results import verdict
from gradwire.results.audit.runaudit import audit_run, middle
from gradwire.results.audit.runfigures import aggregation_row, tier_nbytes
from gradwire.results.calibrating import calibration_plan, fitted
from gradwire.results.outages import settled
from gradwire.results.planfigures import plan_figures
from gradwire.results.row import REFUSED, Row
from gradwire.results.rowchoices import choices_of

Tell = Callable[[str], None]
Progress = Callable[[str, dict[str, Any]], None]
CALIBRATION_REPEATS = 3
Result = TypeVar("Result")


class Runner(Protocol):
    """What carries a plan out: `emu.run.run`, or what replaces it in a test."""

    def __call__(
        self,
        plan: Plan,
        folder: Path,
        options: RunOptions,
        progress: Progress,
        finish: Callable[[Path], Result],
        /,
    ) -> Result: ...


def planned(work: Sequence[tuple[Cell, Experiment]]) -> list[Plan | Row]:
    """The plan of each cell, or its row where it makes no sense: all mistakes show before anything is run.

    Raise Refused when the only cell makes no sense.
    """
    outcomes: list[Plan | Row] = []
    for cell, experiment in work:
        try:
            outcomes.append(plan_of(cell, experiment))
        except Refused as error:
            if len(work) == 1:
                raise
            outcomes.append(_refused(cell, experiment, str(error)))
    return outcomes


def _refused(cell: Cell, experiment: Experiment, reason: str) -> Row:
    return Row(
        fabric=cell.fabric.spec,
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        ranks=experiment.n_ranks,
        bytes=0,
        verdict=REFUSED,
        **choices_of(experiment),
        hosts=len(cell.fabric.hosts),
        host_rates_bps=cell.fabric.host_rates_bps,
        inner_rates_bps=cell.fabric.inner_rates_bps,
        reasons=(reason,),
    )


class Laboratory:
    """Carries plans out, one after the other.  Each fabric is calibrated once, unless `calibrations` has its
    calibration already; new ones are added there.
    """

    def __init__(
        self,
        folder: Path,
        options: RunOptions,
        tell: Tell,
        run: Runner,
        calibrations: dict[Fabric, Calibration] | None = None,
    ) -> None:
        self._folder = folder
        self._options = options
        self._tell = tell
        self._run = run
        self._calibrations = {} if calibrations is None else calibrations
        self._number = 0

    def row(self, plan: Plan, original: Original | None = None) -> Row:
        """Carry the plan out, judge the run, and return its row.  A run of the job as it was captured is
        compared with `original`.
        """
        name = f"{plan.fabric.spec} {plan.algorithm} {plan.placement_name} {plan.routes}"
        calibrated = self.calibration(plan.fabric)
        self._number += 1
        folder = self._folder / f"{self._number:02d}-{file_name(name)}"

        def finish(work: Path) -> Row:
            return _judged(plan, work, folder, self._options.repeats, calibrated, original)

        return self._run(plan, folder, self._options, self._progress(name, self._options), finish)

    def calibration(self, fabric: Fabric) -> Calibration:
        """The fabric's calibration, measured at its first use on the same cables with queues that drop
        nothing.
        """
        if fabric not in self._calibrations:
            plan = calibration_plan(with_automatic_queue(fabric), fabric_transport(fabric))
            options = RunOptions(CALIBRATION_REPEATS, self._options.switch, machines=self._options.machines)
            self._calibrations[fabric] = self._run(
                plan,
                self._folder / f"calibration-{file_name(fabric.spec)}",
                options,
                self._progress(f"{fabric.spec} calibration", options),
                lambda work: fitted(plan, work, options.machines),
            )
        return self._calibrations[fabric]

    def _progress(self, name: str, options: RunOptions) -> Progress:
        def progress(phase: str, more: dict[str, Any]) -> None:
            of = options.warmups if phase == "warm-up" else options.repeats
            where = f" {more['repeat'] + 1}/{of}" if "repeat" in more else ""
            self._tell(f"{name}: {phase}{where}")

        return progress


def _judged(
    plan: Plan,
    work: Path,
    folder: Path,
    wanted: int,
    calibrated: Calibration,
    original: Original | None,
) -> Row:
    """The row of a run whose files are in `work` and will be in `folder`; leaves result and verdict there."""
    repeats = records.load_repeats(work, plan)
    bound_s, mtu_nbytes = plan.prediction.bound_s, plan.fabric.mtu_nbytes
    held = audit_run(work, plan, repeats, middle(repeats))
    judged = verdict.judge(
        repeats,
        wanted,
        calibrated,
        bound_s,
        mtu_nbytes,
        steady=not (plan.failures or plan.losses),
        machine=held.foreign if held is not None else (),
        capture=plan.doubts,
    )
    foreseen = expected(plan, calibrated)
    good = verdict.counted(repeats)
    time_s = median(each.time_s for each in good)
    iteration = result.iteration_of(good)
    judged = verdict.with_model(
        judged,
        time_s,
        foreseen,
        iteration.median if iteration else None,
        result.exposed_s_of(good),
    )
    if held is not None and not held.agrees:
        judged = replace(judged, warnings=(*judged.warnings, held.sentence))
    judged = replace(judged, warnings=(*judged.warnings, *plan.assumptions))
    if warning := guarded_rules(plan).guard.warning:
        judged = replace(judged, warnings=(*judged.warnings, warning))
    load = plan_load(plan)
    reason = why(plan, load)
    row = result.row(
        plan,
        repeats,
        judged,
        expected=foreseen,
        figures=plan_figures(plan, load, measured_costs(plan, calibrated), time_s),
        folder=folder,
        why=f"as planned: {reason}" if reason and plan.flows_may_move else reason or None,
    )
    row = replace(
        _with_counters(row, plan, repeats, work),
        fidelity=_fidelity(plan, repeats, work, original),
        settled_s=settled(work, plan, repeats),
    )
    result.save(work, row, judged, calibrated)
    return row


def _fidelity(
    plan: Plan, repeats: Sequence[records.Repeat], work: Path, original: Original | None
) -> float | None:
    """The fidelity of the repeats that count; None for a run that is not as the job was captured."""
    if original is None or not original.is_of(plan):
        return None
    from gradwire.results.replayedmessages import likeness, replayed_messages  # takes a while to import

    messages = replayed_messages(work, plan, len(repeats))
    used = [sent for sent, repeat in zip(messages, repeats, strict=True) if repeat.counts]
    return likeness(plan, original.messages, used or messages)


def _with_counters(row: Row, plan: Plan, repeats: Sequence[records.Repeat], work: Path) -> Row:
    """The row with the figures that need the switches' counters."""
    path = work / "switches.json"
    counters = load_counters(path) if path.exists() else None
    return replace(
        row,
        tier_nbytes=tier_nbytes(plan.fabric, counters, len(repeats)) if counters else {},
        aggregation=aggregation_row(plan, repeats, counters),
    )


def file_name(text: str) -> str:
    """`text` with nothing in it that a path might not hold."""
    return "".join(letter if letter.isalnum() or letter in "-=." else "_" for letter in text)

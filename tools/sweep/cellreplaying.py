"""Sends the packets of a study's cells, on this machine or on the nodes of a cluster that allow it."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.run import check_served
from gradwire.planning.experiment import plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.model.calibration import Calibration
from gradwire.results.laboratory import Laboratory
from gradwire.results.plannedcells import refused_cell
from gradwire.results.studyresults import CellResult
from gradwire.tools.exits import is_for_people, line_for_people
from gradwire.tools.live.view import LiveView
from gradwire.tools.matrixrun import default_folder, runner
from gradwire.tools.plans.matrix import planned, planned_alone
from gradwire.tools.sweep.study import StudyCell
from gradwire.traces.plugins import keep_whose

Calibrations = dict[RunOptions, dict[Fabric, Calibration]]
_CALIBRATIONS: Calibrations = {}  # of a node, as long as its process lives


class CellReplays:
    """Carries cells out, one after the other, in folders below `runs`; calibrates each fabric once, and keeps
    that in `calibrations`.
    """

    def __init__(
        self,
        runs: Path,
        tell: Callable[[str], None],
        view: LiveView | None = None,
        calibrations: Calibrations | None = None,
    ) -> None:
        self._calibrations = {} if calibrations is None else calibrations
        self._runs = runs
        self._tell = tell
        self._view = view
        self._laboratories: dict[RunOptions, Laboratory] = {}

    def result(self, each: StudyCell) -> CellResult:
        """The cell with its row; refused if there is no plan, failed if the machine did not carry it out."""
        assert each.run
        given = partial(CellResult, each.job, each.seed)
        try:
            plan = plan_of(each.cell, each.experiment)
            check_served(plan, each.run.switch)
        except Exception as error:
            if not is_for_people(error):
                keep_whose(error)
                raise
            return given(refused_cell(each.cell, each.experiment, line_for_people(error)))
        planned = planned_alone(plan, in_full=False).cell
        try:
            return given(planned, row=self._laboratory(each.run).row(plan, each.original))
        except Exception as error:
            if not is_for_people(error):
                raise
            return given(planned, failed=f"the run failed: {line_for_people(error)}")

    def _laboratory(self, options: RunOptions) -> Laboratory:
        if options not in self._laboratories:
            self._laboratories[options] = Laboratory(
                default_folder(self._runs),
                options,
                self._tell,
                runner(self._view),
                self._calibrations.setdefault(options, {}),
            )
        return self._laboratories[options]


def _tell_nobody(_: str) -> None:
    pass


def replay_on_node(each: StudyCell) -> CellResult:
    """On a node of a cluster, which keeps nothing of it: its row, without a folder."""
    with tempfile.TemporaryDirectory(prefix="gradwire-cell-") as folder:
        found = CellReplays(Path(folder), _tell_nobody, calibrations=_CALIBRATIONS).result(each)
    return replace(found, row=found.row and replace(found.row, folder=None))


def plan_cell(each: StudyCell) -> CellResult:
    """The cell with its figures, or refused.  Raise what is a bug, which says whose it is."""
    try:
        (made,) = planned([(each.cell, each.experiment)], in_full=False, quiet=True)
    except Exception as error:
        if not is_for_people(error):
            keep_whose(error)
            raise
        refused = refused_cell(each.cell, each.experiment, line_for_people(error))
        return CellResult(each.job, each.seed, refused)
    return CellResult(each.job, each.seed, made.cell)

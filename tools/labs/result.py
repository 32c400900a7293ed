"""Plans or carries out the work of a lab, and says what became of its expectations."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gradwire.planning.plan import Plan
from gradwire.results.matrixfile import Matrix
from gradwire.results.outcomes import Outcome, judged
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import REFUSED, Row
from gradwire.tools.exits import NOT_EXPECTED, NOT_VALID
from gradwire.tools.labs.work import LabWork
from gradwire.tools.labs.writing import save_lab
from gradwire.tools.live.view import LiveView
from gradwire.tools.matrixrun import about, carry_out
from gradwire.tools.plans.matrix import Planned, planned, planned_alone, to_json
from gradwire.tools.table import Cell, columns, rich_table, table_of
from gradwire.traces.units import show_count

STYLES = {"holds": "green", "fails": "bold red", "not valid": "bold red"}


@dataclass(frozen=True)
class LabResult:
    """What came out: the `matrix` of what was sent, or, with mode: plan, what was `planned`."""

    work: LabWork
    outcomes: Sequence[Outcome]
    matrix: Matrix | None = None
    planned: Sequence[Planned] = ()

    @property
    def rows(self) -> Sequence[Row]:
        return self.matrix.rows if self.matrix else ()

    @property
    def exit_code(self) -> int:
        if any(outcome.verdict == "fails" for outcome in self.outcomes):
            return NOT_EXPECTED
        if self.planned and all(each.cell.refused for each in self.planned):
            return NOT_VALID
        verdicts = {row.verdict for row in self.rows}
        return 0 if verdicts <= {"valid", REFUSED} and verdicts != {REFUSED} else NOT_VALID

    def to_json(self) -> dict[str, Any]:
        """As docs/schemas.md, "run --json", says."""
        return {
            "schema": "gradwire.lab/1",
            "file": str(self.work.lab.path),
            "name": self.work.lab.name,
            "mode": self.work.mode,
            "folder": str(self.matrix.folder) if self.matrix else None,
            "rows": [row.to_json() for row in self.rows],
            "planned": to_json(self.planned)["cells"],
            "expectations": [outcome.to_json() for outcome in self.outcomes],
            "exit_code": self.exit_code,
        }


def planned_lab(work: LabWork, *, in_full: bool, quiet: bool) -> LabResult:
    """A lab with mode: plan.  Raise BadLab, also for an expectation that cannot be computed."""
    with work.lab.blamed(or_quoted=True):
        if work.work.plan:
            made = [planned_alone(work.work.plan, in_full=in_full)]
        else:
            made = planned(work.work.cells, in_full=in_full, quiet=quiet)
    cells = [each.cell for each in made]
    work.check(cells)
    return LabResult(work, _outcomes(work, cells), planned=made)


def carried_out(
    work: LabWork,
    todo: Sequence[Plan | Row],
    folder: Path | None,
    *,
    as_json: bool,
    view: LiveView | None = None,
) -> LabResult:
    """What a lab came to: `todo` has the plans of one that sends packets.  Its files are in `folder`; who
    watches has the `view`.
    """
    described = about(work.title)
    if work.run is None:
        result = planned_lab(work, in_full=as_json, quiet=as_json)
        if folder:
            save_lab(folder, work.document, described)
        return result
    assert folder
    matrix = carry_out(
        todo,
        work.run.options,
        folder,
        described,
        quiet=as_json,
        original=work.work.original,
        lab=work.document,
        view=view,
    )
    return LabResult(work, _outcomes(work, matrix.rows), matrix)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a lab found: how many cells can be planned, and why others are refused."""

    file: str
    name: str
    mode: str
    cells: int
    refused: tuple[str, ...]
    expectations: int

    def __str__(self) -> str:
        refused = "".join(f", one is refused: {reason}" for reason in self.refused)
        expected = show_count(self.expectations, "expectation")
        ending = f"{expected} can be computed" if self.expectations else "nothing is expected"
        return f"{self.file}: {show_count(self.cells, 'cell')} to {self.mode}{refused}; {ending}"

    def to_json(self) -> dict[str, Any]:
        """As docs/schemas.md, "run --check --json", says."""
        return asdict(self)


def checked(work: LabWork, todo: Sequence[Plan | Row]) -> Checked:
    """Raise BadLab for a lab that cannot be planned; `todo` has the plans of one that sends packets."""
    if work.run:
        reasons = [row.reasons[0] for row in todo if isinstance(row, Row)]
        n_cells = len(todo)
    else:
        cells = [each.cell for each in planned_lab(work, in_full=False, quiet=False).planned]
        reasons, n_cells = [cell.refused for cell in cells if cell.refused], len(cells)
    lab = work.lab
    return Checked(
        str(lab.path), lab.name, work.mode, n_cells - len(reasons), tuple(reasons), len(lab.expect)
    )


def _outcomes(work: LabWork, cells: Sequence[Row] | Sequence[PlannedCell]) -> list[Outcome]:
    subjects = work.subjects(cells)
    return [judged(each, subjects) for each in work.lab.expect]


def print_outcomes(to: Console, outcomes: Sequence[Outcome]) -> None:
    """What became of each expectation, and of those that do not hold where."""
    if not outcomes:
        return

    def cells(outcome: Outcome) -> tuple[Cell | str, ...]:
        return outcome.expectation, outcome.show_found(), Cell(outcome.verdict, style=STYLES[outcome.verdict])

    to.print()
    to.print(rich_table(table_of(columns("expected", "found", "verdict"), outcomes, cells)))
    for outcome in outcomes:
        for line in outcome.why:
            to.print(f"{outcome.verdict}: {outcome.expectation}: {line}", style="dim", soft_wrap=True)

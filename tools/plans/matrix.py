"""Several plans side by side: a table for each fabric, JSON, a page, and the answer in one sentence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.text import Text

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.results.answer import answer_of_plans
from gradwire.results.planfigures import nominal_figures
from gradwire.results.plannedcells import (
    NOT_ASKED,
    Carried,
    EngineTimes,
    PlannedCell,
    carried_by,
    planned_cell,
    refused_cell,
)
from gradwire.tools.pageparts import environment
from gradwire.tools.plans.summary import summary
from gradwire.tools.progressbar import PATIENCE_S, progress_bar
from gradwire.tools.table import NOTHING, Table, columns, or_nothing, rich_table, table_of
from gradwire.tools.table import Cell as TableCell
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_first, show_nbytes, show_s

Engine = Callable[[Plan, Callable[[float], None]], EngineTimes]
"""The time of a plan by another engine, which says now and then what share is done; raises Refused."""
ENGINES = {"SimGrid": "simgrid_s", "ns-3": "packets_s"}  # whose times a table has if they were asked
REFUSED_SHOWN = 2  # cells of each reason; the table names them all


@dataclass(frozen=True, slots=True)
class Planned:
    """A cell, and its plan in full or what it carries, if that was asked for and the cell was not refused."""

    cell: PlannedCell
    in_full: dict[str, Any] | None = None
    carried: Carried | None = None


def planned(
    work: Sequence[tuple[Cell, Experiment]],
    *,
    in_full: bool,
    quiet: bool,
    carried: bool = False,
    engine: Engine | None = None,
) -> list[Planned]:
    """Plan one cell after the other; of each only its figures are kept, and with `carried` those of its links
    and flows.  A cell that the `engine` is not for is refused.
    """
    made: list[Planned] = []
    with progress_bar(quiet=quiet, after_s=PATIENCE_S) as progress:
        task = progress.add_task("planning", total=len(work))
        for cell, experiment in work:
            what = f"{cell.fabric.spec} {cell.algorithm} {cell.placement} {cell.routes}"
            progress.update(task, description=what)
            try:
                plan = plan_of(cell, experiment)
                engines = (
                    engine(plan, partial(_show_share, progress, task, len(made))) if engine else NOT_ASKED
                )
            except Refused as error:
                made.append(Planned(refused_cell(cell, experiment, str(error))))
            else:
                made.append(planned_alone(plan, in_full=in_full, carried=carried, engines=engines))
            progress.update(task, completed=len(made))
    return made


def _show_share(progress: Progress, task: TaskID, n_done: int, share: float) -> None:
    progress.update(task, completed=n_done + share)


def planned_alone(
    plan: Plan, *, in_full: bool, carried: bool = False, engines: EngineTimes = NOT_ASKED
) -> Planned:
    """One plan with its figures."""
    load = plan_load(plan)
    figures = nominal_figures(plan, load)
    return Planned(
        planned_cell(plan, figures, engines),
        summary(plan, load, figures, engines) if in_full else None,
        carried_by(plan, load) if carried else None,
    )


def to_json(made: Sequence[Planned]) -> dict[str, Any]:
    """As docs/schemas.md, "plan --json of several", says."""
    cells = []
    for each in made:
        cell = each.cell
        names = {
            name: getattr(cell, name) for name in ("fabric", "algorithm", "placement", "routes", "ranks")
        }
        cells.append({**(each.in_full or names), "refused": cell.refused})
    return {"cells": cells, "answer": answer_of_plans([each.cell for each in made])}


def print_cells(to: Console, cells: Sequence[PlannedCell]) -> None:
    """A table for each fabric, why cells are refused, and the answer."""
    for table in tables(cells):
        to.print(Text(table.title, style="bold"))
        to.print(rich_table(table, dense=True))
        to.print()
    for reason, names in refusals(cells).items():
        to.print(Text(f"refused: {reason}: {show_first(names, REFUSED_SHOWN)}", style="dim"))
    if sentence := answer_of_plans(cells):
        to.print(sentence)


def refusals(cells: Sequence[PlannedCell]) -> dict[str, list[str]]:
    """The names of the cells that are refused for each reason."""
    names: dict[str, list[str]] = {}
    for cell in cells:
        if cell.refused is not None:
            names.setdefault(cell.refused, []).append(cell.name)
    return names


def tables(cells: Sequence[PlannedCell]) -> Iterator[Table]:
    """One for each fabric; cells of one follow each other."""
    for fabric, some in groupby(cells, key=lambda cell: cell.fabric):
        same = list(some)
        sizes = {cell.bytes for cell in same if cell.bytes}
        size = f", {show_nbytes(*sizes)}" if len(sizes) == 1 else ""
        title = f"{fabric}, {max(cell.ranks for cell in same)} ranks{size}"
        asked = {name: time for name, time in ENGINES.items() if any(getattr(cell, time) for cell in same)}
        heads = (
            *columns("algorithm", "placement,\nroutes", wrap="never"),
            *columns(*(["#size"] if len(sizes) > 1 else []), wrap="never"),
            *columns("#predicted"),
            *columns(*(f"#{name}" for name in asked)),
            *columns("#× bound", "#× closed\nform", "worst link\n× flows"),
        )
        yield table_of(
            heads,
            same,
            partial(_row, sized=len(sizes) > 1, engines=asked),
            title=title,
        )


def _row(cell: PlannedCell, *, sized: bool, engines: Mapping[str, str]) -> Iterator[TableCell | str]:
    """`sized`: with the size, as cells of a fabric have several; `engines`: what times it has by others."""
    yield cell.algorithm
    yield (
        f"{cell.placement},\n{cell.routes}"
        if len(cell.algorithm) > 30
        else f"{cell.placement}, {cell.routes}"
    )
    if sized:
        yield show_nbytes(cell.bytes) if cell.bytes else NOTHING
    if cell.figures is None:
        yield TableCell("refused", "", cell.refused or "", style="dim")
        yield from (TableCell(NOTHING, ""),) * (2 + len(engines))
        yield NOTHING
        return
    yield TableCell(or_nothing(cell.fluid_s, show_s), _key(cell.fluid_s))
    for time in engines.values():
        time_s = getattr(cell, time)
        yield TableCell(or_nothing(time_s, show_s), _key(time_s))
    for ratio in (cell.ratio, cell.figures["ratio_closed"]):
        yield TableCell(or_nothing(ratio, "{:.3f}".format), _key(ratio))
    yield f"{cell.figures['worst_link']} ×{cell.figures['worst_link_flows']}"


def _key(value: float | None) -> float | str:
    return "" if value is None else value


def write_page(path: Path, title: str, cells: Sequence[PlannedCell]) -> None:
    """Write it whole or not at all.  Raise OSError."""
    page = environment().get_template("plan.html").render(
        title=title,
        answer=answer_of_plans(cells),
        tables=list(tables(cells)),
        refused=refusals(cells),
    )  # fmt: skip
    write_whole(path, page)

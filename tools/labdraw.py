"""What a lab draws in the folder of its results: a page, a drawing of each cell, a table of all."""

from collections.abc import Iterator
from pathlib import Path

from gradwire.planning.experiment import plan_of
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.results.laboratory import file_name
from gradwire.results.runview import load_run
from gradwire.tools.draw import fabric_svg
from gradwire.tools.labrun import LabResult
from gradwire.tools.planmatrix import write_page
from gradwire.tools.report import drawing, write_report
from gradwire.traces.files import write_whole
from gradwire.traces.frames import write_csv

PAGE, TABLE = "report.html", "cells"


def draw(result: LabResult, folder: Path) -> list[Path]:
    """Draw what the lab asks for; the files that were written.  Raise OSError, BadRun."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {"html": _page, "svg": _drawings, "csv": _table}
    return [path for kind in result.work.lab.draw for path in kinds[kind](result, folder)]


def _page(result: LabResult, folder: Path) -> Iterator[Path]:
    path, title = folder / PAGE, result.work.title
    if result.matrix:
        outcomes = [f"{each.verdict}: {each.expectation} ({each.show_found()})" for each in result.outcomes]
        write_report(path, title, outcomes, result.matrix.rows)
    else:
        write_page(path, title, [each.cell for each in result.planned])
    yield path


def _drawings(result: LabResult, folder: Path) -> Iterator[Path]:
    """One of each cell that is not refused, numbered as the cells are."""
    for number, (name, svg) in enumerate(_of_runs(result) if result.matrix else _of_plans(result), start=1):
        if svg:
            path = folder / f"{number:02d}-{file_name(name)}.svg"
            write_whole(path, svg)
            yield path


def _of_runs(result: LabResult) -> Iterator[tuple[str, str]]:
    assert result.matrix
    for row in result.matrix.rows:
        yield row.name, drawing(load_run(Path(row.folder))) if row.folder else ""


def _of_plans(result: LabResult) -> Iterator[tuple[str, str]]:
    work = result.work.work
    if work.plan:
        yield result.planned[0].cell.name, _planned_svg(work.plan)
    for (cell, experiment), made in zip(work.cells, result.planned, strict=False):
        try:
            yield made.cell.name, _planned_svg(plan_of(cell, experiment))
        except Refused:
            yield made.cell.name, ""


def _planned_svg(plan: Plan) -> str:
    """The fabric, links in the shade of the share of the predicted time that they are busy."""
    load, whole_s = plan_load(plan), plan.prediction.fluid_s
    return fabric_svg(
        plan.fabric,
        {egress: each.busy_s / whole_s for egress, each in load.loads.items()},
        {host: f"rank {rank}" for rank, host in enumerate(plan.placement)},
        "share of the predicted time busy",
        worst=load.worst.egress,
        failed=tuple(plan.fabric.cables[failure.port] for failure in plan.failures),
    )


def _table(result: LabResult, folder: Path) -> Iterator[Path]:
    from gradwire.results.plantables import plan_tables  # pandas takes a while to import
    from gradwire.results.runtables import Results

    if result.matrix:
        table = Results((result.matrix,)).rows
    else:
        table = plan_tables([(each.cell, None) for each in result.planned])["rows"]
    yield from write_csv({TABLE: table}, folder)

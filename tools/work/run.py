"""Runs the labs that somebody names: reads and plans them all, carries them out, prints what came out.

What a lab draws in the folder of its results: a page, a drawing of each cell, a table of all.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from gradwire.planning.experiment import plan_of
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.results.laboratory import file_name
from gradwire.results.runview import load_run
from gradwire.tools.console import console
from gradwire.tools.drawing.svg import fabric_svg
from gradwire.tools.dygraphs import need_library
from gradwire.tools.labs.file import Lab, read_lab
from gradwire.tools.labs.result import LabResult, carried_out, checked, print_outcomes
from gradwire.tools.labs.schema import json_schema
from gradwire.tools.labs.work import LabWork, lab_work
from gradwire.tools.live.view import live_view
from gradwire.tools.matrixrun import default_folder, print_result
from gradwire.tools.plans.matrix import print_cells, write_page
from gradwire.tools.report.page import drawing, write_report
from gradwire.tools.stdin import with_stdin
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.dataframes import write_csv
from gradwire.traces.files import write_whole

PAGE, TABLE = "report.html", "cells"


def print_schema() -> None:
    """The JSON Schema of lab files, for editors."""
    print(json.dumps(json_schema(), indent=1, ensure_ascii=False))


def run_labs(
    labs: Sequence[Path],
    *,
    check: bool,
    watch: str | None,
    out: Path | None,
    as_json: bool,
    verbose: bool,
) -> int:
    """The exit code, also of a `check`, which sends nothing.  Raise BadLab before anything is sent."""
    works = [lab_work(_not_a_study(read_lab(path))) for path in with_stdin(labs)]
    if not check:
        for work in works:
            _check_machine(work)
    plans = [work.todo() for work in works]
    if check:
        found = [checked(*pair) for pair in zip(works, plans, strict=True)]
        lines = [json.dumps([each.to_json() for each in found], indent=1)] if as_json else map(str, found)
        print(*lines, sep="\n")
        return 0
    results = []
    for number, (work, todo) in enumerate(zip(works, plans, strict=True), start=1):
        folder = _folder(out, work, number if len(works) > 1 else None)
        with live_view(watch if work.run else None, work.title) as view:
            result = carried_out(work, todo, folder, as_json=as_json, view=view)
        drawn = draw(result, folder) if folder else []
        results.append(result)
        if not as_json:
            _print(result, drawn, verbose)
    if as_json:
        print(json.dumps([result.to_json() for result in results], indent=1))
    return max(result.exit_code for result in results)


def _not_a_study(lab: Lab) -> Lab:
    """Raise BadLab for a study."""
    keys = (
        ("seeds", "one seed", lab.seeds),
        ("jobs", "one job", lab.jobs),
        ("plot", "draw: html", lab.plots),
    )
    for key, one, given in keys:
        if given:
            with lab.blamed(key):
                raise ValueError(f"{key} makes this a study: run it with gradwire sweep, or write {one}")
    return lab


def _check_machine(work: LabWork) -> None:
    """Raise OSError for what the lab needs and is not there."""
    if work.run:
        need_root_and_tools("run", work.run.switch, work.run.captures, work.run.controller)
        if "html" in work.lab.draw:
            need_library()


def _folder(out: Path | None, work: LabWork, number: int | None) -> Path | None:
    """Where the results go: in `out`, of several labs each in a folder there; None if there are no files."""
    if not (work.run or work.lab.draw or out):
        return None
    if out is None:
        return default_folder()
    return out if number is None else out / f"{number:02d}-{work.lab.path.stem}"


def _print(result: LabResult, drawn: Sequence[Path], verbose: bool) -> None:
    to = console()
    to.print(Text(f"{result.work.lab.path}: {result.work.lab.name}\n", style="bold"), soft_wrap=True)
    if result.matrix:
        print_result(to, result.rows, result.matrix.folder, verbose)
    else:
        print_cells(to, [each.cell for each in result.planned])
    print_outcomes(to, result.outcomes)
    for path in drawn:
        to.print(Text(f"drawn: {path}"), soft_wrap=True)


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

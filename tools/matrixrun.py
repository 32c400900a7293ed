"""Carries a matrix of runs out for a user: a progress bar, then the table, and the exit code."""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import typer
from rich.console import Console

import gradwire
from gradwire.emu.lifecycle import Progress
from gradwire.emu.options import RunOptions
from gradwire.emu.run import check_served, run
from gradwire.planning.experiment import Original
from gradwire.planning.plan import Plan
from gradwire.results.answer import answer_of_rows
from gradwire.results.laboratory import Laboratory, Result, Runner
from gradwire.results.matrixfile import RESULT, About, Matrix, begun_matrix, check_has_none, save_matrix
from gradwire.results.row import REFUSED, Row
from gradwire.tools.console import console
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.labs.writing import Document, save_lab, save_run_lab
from gradwire.tools.live.rows import rows_table
from gradwire.tools.live.view import LiveView
from gradwire.tools.outputs import RUNS, print_outputs, write_tables
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.report.rowtables import print_rows


def about(title: str, introduction: Sequence[str] = ()) -> About:
    """What is under way now; the two texts are what its report begins with."""
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return About(tuple(sys.argv[1:]), began, gradwire.__version__, title, tuple(introduction))


def carry_out(
    todo: Sequence[Plan | Row],
    options: RunOptions,
    folder: Path,
    described: About,
    *,
    quiet: bool,
    original: Original | None = None,
    lab: Document | None = None,
    view: LiveView | None = None,
) -> Matrix:
    """The matrix with the rows of all cells; what is a row already was refused.  After each of them
    `result.json` in the folder has those that are done.  Runs of the job as it was captured are compared with
    `original`.  `lab` are the keys of the lab that does the same; who watches has the `view`.

    Raise Refused, before anything is run, for what this kind of switch cannot carry out, and FileExistsError
    for a folder that has results already; KeyboardInterrupt that says what is there.
    """
    for plan in todo:
        if isinstance(plan, Plan):
            check_served(plan, options.switch)
    check_has_none(folder)
    matrix = begun_matrix(folder, described, len(todo))
    if lab:
        save_lab(folder, lab, described)
    is_drawn = view is not None and view.is_terminal
    with _naming_what_is_done(folder), progress_bar(quiet=quiet or is_drawn) as progress:
        task = progress.add_task("starting", total=len(todo))

        def tell(text: str) -> None:
            progress.update(task, description=text)
            if view:
                view.phase(text)

        laboratory = Laboratory(folder, options, tell, runner(view))
        for plan in todo:
            matrix = matrix.with_row(plan if isinstance(plan, Row) else laboratory.row(plan, original))
            save_matrix(matrix)
            progress.advance(task)
            if view:
                view.rows(rows_table(matrix.rows), len(todo))
    return matrix


def runner(view: LiveView | None) -> Runner:
    """What carries a plan out, and leaves the lab that does it again beside it; who watches sees it go on."""

    def carried_out(
        plan: Plan, folder: Path, options: RunOptions, progress: Progress, finish: Callable[[Path], Result]
    ) -> Result:
        def finished(work: Path) -> Result:
            save_run_lab(work, options)
            return finish(work)

        if view:
            view.show_fabric(plan.fabric, plan.placement)
        return run(plan, folder, options, progress, finished, view.channel if view else None)

    return carried_out


@contextmanager
def _naming_what_is_done(folder: Path) -> Iterator[None]:
    """An interruption in the block says how to see the cells that are done, if there are any."""
    try:
        yield
    except KeyboardInterrupt:
        if not (folder / RESULT).exists():
            raise
        raise KeyboardInterrupt(f"see what is done: {gradwire.COMMAND} report {folder}") from None


def default_folder(parent: Path = Path(RUNS)) -> Path:
    """`runs/DATE-TIME` below the current folder, made now: two commands in one second get two folders.  It is
    below `parent`, if that is given.
    """
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("there is always a next number")


def show(
    matrix: Matrix,
    *,
    as_json: bool,
    html: Path | None,
    parquet: Path | None = None,
    verbose: bool = False,
) -> None:
    """Print the rows, write the page and the tables; leave with exit code 3 if a row is not valid."""
    rows, described = matrix.rows, matrix.about
    if as_json:
        print(json.dumps([row.to_json() for row in rows], indent=1))
    else:
        to = console()
        for line in described.introduction:
            to.print(line)
        print_result(to, rows, matrix.folder, verbose)
    if html:
        from gradwire.tools.report.page import write_report  # templates take a while to import

        write_report(html, described.title, described.introduction, rows)
    write_tables([matrix], parquet)
    if not as_json:
        print_outputs(html, parquet)
    if any(row.verdict not in ("valid", REFUSED) for row in rows):
        raise typer.Exit(NOT_VALID)


def print_result(to: Console, rows: Sequence[Row], folder: Path, verbose: bool = False) -> None:
    """The rows, the answer in a sentence, and where the runs are."""
    print_rows(to, rows, verbose)
    if sentence := answer_of_rows(rows):
        to.print(f"\n{sentence}")
    to.print(f"\nruns: {folder}", soft_wrap=True)

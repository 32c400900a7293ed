"""Carries a matrix of runs out for a user: a progress bar, then the table, and the exit code."""

import itertools
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from gradwire.emu.options import RunOptions
from gradwire.emu.run import check_served, run
from gradwire.planning.experiment import Original
from gradwire.planning.plan import Plan
from gradwire.results.answer import answer_of_rows
from gradwire.results.comparison import save_matrix
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import REFUSED, Row
from gradwire.tools.console import console, plain
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.report import write_report
from gradwire.tools.tables import print_rows


def carry_out(
    todo: Sequence[Plan | Row],
    options: RunOptions,
    folder: Path,
    quiet: bool,
    original: Original | None = None,
) -> list[Row]:
    """The rows of all cells, also as `result.json` in the folder; what is a row already was refused.
    Runs of the job as it was captured are compared with `original`.

    Raise Refused, before anything is run, for what this kind of switch cannot carry out.
    """
    for plan in todo:
        if isinstance(plan, Plan):
            check_served(plan, options.switch)
    rows: list[Row] = []
    with progress_bar(quiet=quiet) as progress:
        task = progress.add_task("starting", total=len(todo))

        def tell(text: str) -> None:
            progress.update(task, description=text)

        laboratory = Laboratory(folder, options, tell, run, original)
        for plan in todo:
            rows.append(plan if isinstance(plan, Row) else laboratory.row(plan))
            progress.advance(task)
    save_matrix(rows, folder)
    return rows


def default_folder() -> Path:
    """`runs/DATE-TIME` below the current folder, made now: two commands in one second get two folders."""
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("there is always a next number")


def check_page(html: Path | None) -> None:
    """Raise OSError before anything is run, rather than when the result is there and cannot be written."""
    if html and not html.absolute().parent.is_dir():
        raise FileNotFoundError(f"--html {html}: there is no folder {html.absolute().parent}; make it first")
    if html and html.is_dir():
        raise IsADirectoryError(f"--html {html} is a folder; name a file in it")


def show(
    rows: Sequence[Row],
    folder: Path,
    as_json: bool,
    html: Path | None,
    title: str,
    introduction: Sequence[str] = (),
) -> None:
    """Print the rows, write the page; leave with exit code 3 if a row is not valid."""
    if as_json:
        print(json.dumps([row.to_json() for row in rows], indent=1))
    else:
        to = console()
        for line in introduction:
            to.print(line)
        print_rows(to, rows)
        if sentence := answer_of_rows(rows):
            to.print(f"\n{sentence}")
        to.print(f"\nruns: {folder}", soft_wrap=True)
    if html:
        write_report(html, title, introduction, rows)
        if not as_json:
            print(plain(f"report: {html}"))
    if any(row.verdict not in ("valid", REFUSED) for row in rows):
        raise typer.Exit(NOT_VALID)

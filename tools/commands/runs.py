"""`gradwire runs`: list the results that a folder holds."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gradwire.results.runlist import listed_runs
from gradwire.tools.console import console
from gradwire.tools.options import JsonOption
from gradwire.tools.outputs import RUNS
from gradwire.tools.runstable import HEADS, row_of
from gradwire.tools.table import rich_table, table_of


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder that holds the results' folders.")
    ] = Path(RUNS),
    as_json: JsonOption = False,
) -> None:
    """List the results in a folder: when, which command and job, how many cells, and what came out.

    gradwire runs
    gradwire report runs/20260704-101500 --html report.html

    A command that was interrupted keeps the cells that were done; they are
    listed as, for example, 3 of 8. `best` is the shortest time of a valid cell
    of the largest size. FOLDER may also be the folder of one result: then its
    cells are listed.
    """
    found = listed_runs(folder)
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    to = console()
    if not found:
        to.print(f"no results in {folder}", soft_wrap=True)
        return
    to.print(rich_table(table_of(HEADS, found, row_of), dense=True))
    for each in found:
        if each.problem:
            to.print(f"{each.folder}: {each.problem}", style="dim", soft_wrap=True)

"""`gradwire runs`: list the results that a folder holds."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import JsonOption
from gradwire.tools.outputs import RUNS


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
    from gradwire.tools.work.runs import list_runs

    list_runs(folder, as_json=as_json)

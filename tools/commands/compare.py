"""`gradwire compare`: compare the results of two runs, with the noise of their repeats."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import JsonOption


def compare(
    before: Annotated[
        Path,
        typer.Argument(metavar="BEFORE", help="Result folder of a command (its --out), or that of one run."),
    ],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The result folder to compare with it.")],
    as_json: JsonOption = False,
) -> None:
    """Compare the results of two runs, cell by cell.

    gradwire compare runs/monday runs/tuesday

    A cell is one row of the results, for example one fabric with one algorithm.
    It is called slower or faster if the 95 % confidence interval of the
    difference of its medians, by bootstrap over the repeats, does not contain 0.
    That takes at least five repeats on both sides (--repeat 5), and cells that
    are valid on both.

    The exit code is 0 whatever the comparison shows.
    """
    from gradwire.tools.work.compare import compare_results

    compare_results(before, after, as_json=as_json)

"""`gradwire report`: show results again, and make their page again, from the folders that runs left."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import CsvOption, HtmlOption, JsonOption, ParquetOption, VerboseOption


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Result folders of replay, bench, demo or trust (their --out), or folders of single runs in "
            "them.",
            show_default=False,
        ),
    ],
    html: HtmlOption = None,
    parquet: ParquetOption = None,
    csv: CsvOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show results again, from the folders that runs left: the tables, and with --html the page.

    gradwire report runs/monday --html monday.html
    gradwire report runs/monday runs/tuesday --html both.html

    Several are shown side by side: a table with a column for each, then the
    tables of each. Results of trust are shown alone. A command that was
    interrupted left the cells that were done. Nothing is sent, and no root is
    needed; `gradwire compare` says which differences are more than noise.
    """
    from gradwire.tools.work.report import report_runs

    report_runs(runs, html, parquet, csv, as_json=as_json, verbose=verbose)

"""`gradwire inspect`: what a training job did to the network."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tools.inspect_tables import print_analysis
from traces.analysis import analyse, to_json
from traces.csv_files import write_csv
from traces.recognise import find_job
from traces.trace import open_trace


def inspect(
    captures: Annotated[
        list[Path], typer.Argument(help="Capture files of one job, or a folder of them.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value instead of tables.")] = False,
    csv: Annotated[
        Path | None, typer.Option(help="Also write the tables, and every message, as CSV into this folder.")
    ] = None,
    ranks: Annotated[
        Path | None,
        typer.Option(help="YAML file that says who is which rank: `ranks: {10.0.0.1: 0, ...}`."),
    ] = None,
) -> None:
    """Show who talked to whom, which collectives and iterations there were, how fast, and what was lost."""
    trace = open_trace(captures, ranks)
    analysis = analyse(find_job(trace))
    written = write_csv(analysis, trace.messages, csv) if csv else ()
    if as_json:
        print(json.dumps(to_json(analysis)))
        return
    print_analysis(analysis)
    for path in written:
        print(f"wrote {path}")

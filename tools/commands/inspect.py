"""`gradwire inspect`: what a training job did to the network."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tools.inspect_tables import print_analysis
from tools.options import CapturesArgument, JsonOption, RanksFileOption
from traces.analysis.analysis import analyse, to_json
from traces.analysis.csv_files import write_csv
from traces.recognition.recognise import find_job
from traces.trace import open_trace


def inspect(
    captures: CapturesArgument,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="DIR",
            help="Also write the tables, and every message, as CSV into this folder.",
            show_default=False,
        ),
    ] = None,
    ranks: RanksFileOption = None,
    as_json: JsonOption = False,
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

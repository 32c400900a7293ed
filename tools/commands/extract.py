"""`gradwire extract`: write what a captured job communicated to a workload file."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options import CapturesArgument, JsonOption, RankMapOption
from gradwire.tools.written import print_written
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import save


def extract(
    captures: CapturesArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Workload file to write: NAME.workload.json.",
            show_default=False,
        ),
    ],
    rank_map: RankMapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what a captured job communicated to a workload file.

    The file lists collectives and messages in order, and how long each rank
    computed between them. `plan` and `replay` read it.
    """
    workload = recognise(open_trace(captures, rank_map))
    save(workload, output)
    print_written(workload, output, as_json)

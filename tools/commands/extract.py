"""`gradwire extract`: write what a captured job communicated to a workload file."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.console import plain
from gradwire.tools.options import CapturesArgument, RankMapOption
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.units import show_nbytes
from gradwire.traces.workload import Compute, save


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
) -> None:
    """Write what a captured job communicated to a workload file.

    The file lists collectives and messages in order, and how long each rank
    computed between them. `plan` and `replay` read it.
    """
    workload = recognise(open_trace(captures, rank_map))
    save(workload, output)
    numbers = [number for number in workload.iterations if number >= 0]
    sent = [item for item in workload.items if not isinstance(item, Compute)]
    nbytes = sum(item.nbytes for item in sent)
    text = (
        f"{output}: {workload.n_ranks} ranks, {len(sent)} collectives and messages "
        f"({show_nbytes(nbytes)}), {len(numbers)} iterations"
    )
    for line in (text, *(f"note: {note}" for note in workload.notes)):
        print(plain(line))

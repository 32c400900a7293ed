"""What a command says of a workload that it has written."""

from pathlib import Path

from gradwire.tools.console import plain
from gradwire.traces.units import show_count, show_nbytes
from gradwire.traces.workload import Compute, Workload


def print_written(workload: Workload, path: Path) -> None:
    """A line for how much is in it, one for what kind of job it is, one for each note."""
    numbers = [number for number in workload.iterations if number >= 0]
    sent = [item for item in workload.items if not isinstance(item, Compute)]
    nbytes = sum(item.nbytes for item in sent)
    text = (
        f"{path}: {workload.n_ranks} ranks, {len(sent)} collectives and messages "
        f"({show_nbytes(nbytes)}), {show_count(len(numbers), 'iteration')}"
    )
    lines = (
        text,
        f"taxonomy: {workload.taxonomy}",
        *(f"note: {note}" for note in workload.notes),
    )
    for line in lines:
        print(plain(line))

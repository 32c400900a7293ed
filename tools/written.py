"""What a command prints about a workload that it has written."""

import json
from pathlib import Path

from gradwire.tools.console import plain
from gradwire.traces.units import show_count, show_nbytes
from gradwire.traces.workload import Compute, Workload


def print_written(workload: Workload, path: Path, as_json: bool) -> None:
    """A line for how much is in it, one for what kind of job it is, one for each note; or all of it as JSON,
    as docs/schemas.md, "make --json, extract --json", says.
    """
    n_iterations = sum(number >= 0 for number in workload.iterations)
    sent = [item for item in workload.items if not isinstance(item, Compute)]
    nbytes = sum(item.nbytes for item in sent)
    if as_json:
        written = {
            "path": str(path),
            "ranks": workload.n_ranks,
            "items": len(sent),
            "bytes": nbytes,
            "iterations": n_iterations,
            "taxonomy": workload.taxonomy.model_dump(mode="json"),
            "notes": list(workload.notes),
        }
        print(json.dumps(written, indent=1))
        return
    items = show_count(len(sent), "collective or message", "collectives and messages")
    text = (
        f"{path}: {workload.n_ranks} ranks, {items} ({show_nbytes(nbytes)}), "
        f"{show_count(n_iterations, 'iteration')}"
    )
    lines = (
        text,
        f"taxonomy: {workload.taxonomy}",
        *(f"note: {note}" for note in workload.notes),
    )
    for line in lines:
        print(plain(line))

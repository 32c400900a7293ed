"""Writes the workload of captures, for `gradwire extract`."""

from collections.abc import Sequence
from pathlib import Path

from gradwire.tools.outputs import check_file
from gradwire.tools.stdin import with_stdin
from gradwire.tools.written import print_written
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import save


def write_captured_job(captures: Sequence[Path], out: Path, rank_map: Path | None, *, as_json: bool) -> None:
    """Write the file, and print what is in it."""
    check_file("--out", out)
    workload = recognise(open_trace(with_stdin(captures), rank_map))
    save(workload, out)
    print_written(workload, out, as_json)

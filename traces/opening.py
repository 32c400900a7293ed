"""Captures of one job, opened as a trace.  An edge module: it looks into folders."""

from collections.abc import Sequence
from pathlib import Path

from traces.decoding import decoded
from traces.framing.framings import choose
from traces.packets.capture import SUFFIXES, read_capture
from traces.packets.clocks import compare_clocks
from traces.packets.copies import without_copies
from traces.packets.directions import by_direction
from traces.packets.streams import assemble, connections
from traces.packets.timestamps import with_plausible_times
from traces.rankmap import SETTINGS, read_settings
from traces.recognition.ranks import BadTrace
from traces.trace import Trace


def open_trace(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Read captures, or folders of them, as one job.

    `ranks` is a file like trace.yaml, which takes precedence over one in a folder.  Raises BadCapture,
    BadTrace, OSError.
    """
    trace = open_captures(paths, ranks)
    if not len(trace.messages):
        raise BadTrace(trace.notes[0])
    return trace


def open_captures(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Like `open_trace`, but captures without training are a trace without messages, whose first note says
    so.
    """
    read = [without_copies(with_plausible_times(read_capture(path))) for path in capture_paths(paths)]
    rows_of = by_direction(read)
    captures, clocks = compare_clocks(read, rows_of)
    if any(one.corrected for one in clocks.hosts):
        rows_of = by_direction(captures)
    folder_settings = [path / SETTINGS for path in paths if (path / SETTINGS).is_file()]
    settings_path = ranks or next(iter(folder_settings), None)
    told = read_settings(settings_path) if settings_path else {}
    name = paths[0].name or str(paths[0])
    choices = tuple(map(choose, connections(assemble(captures, rows_of))))
    return decoded(name, captures, choices, told, clocks)


def capture_paths(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The files themselves, and what lies in folders; each file once."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.name.endswith(SUFFIXES)) if path.is_dir() else [path]
        if not inside:
            raise BadTrace(f"{path}: no capture in this folder: its files must end in {', '.join(SUFFIXES)}")
        found += inside
    if not found:
        raise BadTrace("no capture given")
    return tuple({path.resolve(): path for path in found}.values())

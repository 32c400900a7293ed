"""`-` in the place of a file: what comes on standard input, as a file that can be read more than once."""

import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gradwire.planning.jobs import STDIN
from gradwire.traces.units import show_nbytes

DASH = Path("-")
MAX_STDIN_NBYTES = 64 << 30
_CHUNK_NBYTES = 1 << 20


def with_stdin(paths: Sequence[Path]) -> list[Path]:
    """The paths, with /dev/stdin for `-`.

    What comes through a pipe is first copied into a file without a name, which takes the place of standard
    input: readers of captures map files, and a job's file is opened twice.  Raise ValueError for two of them,
    for a terminal, and for more than MAX_STDIN_NBYTES.
    """
    if DASH not in paths:
        return list(paths)
    if list(paths).count(DASH) > 1:
        raise ValueError("- is given twice, but there is one standard input")
    if sys.stdin is not None and sys.stdin.isatty():
        raise ValueError(
            "- reads a file from standard input, which is a terminal: pipe one in, as in `cat FILE |`"
        )
    if not stat.S_ISREG(os.fstat(0).st_mode):
        _spool()
    return [STDIN if path == DASH else path for path in paths]


def _spool() -> None:
    with os.fdopen(os.dup(0), "rb") as source, tempfile.TemporaryFile() as copy:
        while chunk := source.read(_CHUNK_NBYTES):
            if copy.tell() + len(chunk) > MAX_STDIN_NBYTES:
                raise ValueError(
                    f"standard input has more than {show_nbytes(MAX_STDIN_NBYTES)}: save it to a file"
                )
            copy.write(chunk)
        copy.flush()
        os.dup2(copy.fileno(), 0)

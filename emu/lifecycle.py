"""The life cycle of a session, and what it and its parent agree on: folder, progress, errors, time limit.

A session is a process in namespaces of its own: whatever it makes there is gone when it is gone.  It says on
stdout what it does, as JSON Lines (`say`, `follow`), and ends with exit code 0, or with 1 and one line on
stderr that says why (`errors_in_one_line`, `session`).

The folder is called NAME.incomplete until everything is in it, so an interrupted run is never taken for a
whole one.
"""

import errno
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradwire.emu.channel import Channel
from gradwire.emu.kernel import isolate
from gradwire.emu.watch import ChildProcess, RunFailed, Watch, last_line
from gradwire.planning.plan import BadPlan
from gradwire.planning.runfiles import INCOMPLETE
from gradwire.traces.units import show_nbytes

Progress = Callable[[str, dict[str, Any]], None]
FOR_PEOPLE = (RunFailed, BadPlan, OSError, ValueError)  # errors whose text describes input or machine
LEAST_FREE_NBYTES = 1 << 20
_END_S = 10.0


@contextmanager
def working_folder(folder: Path, may_be_empty: bool = False) -> Iterator[Path]:
    """A new folder to write into, to be renamed to `folder` once it is whole; `folder` itself must not exist.

    With `may_be_empty` it may exist if it is empty.  Raise FileExistsError, and RunFailed if the disk is
    full.
    """
    if folder.exists() and not (may_be_empty and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists; choose another folder")
    work = folder.with_name(folder.name + INCOMPLETE)
    if work.exists():
        raise FileExistsError(
            f"{work} belongs to a run that still runs or was interrupted: choose another folder"
        )
    work.mkdir(parents=True)
    try:
        yield work
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunFailed(f"{work}: {error.strerror}: make room there, or choose another folder") from error
        if not work.exists():
            raise RunFailed(f"{work} was deleted or moved during the run") from error
        raise


@contextmanager
def session(
    name: str, module: str, work: Path, channel: Channel | None = None, underlay: bool = False
) -> Iterator[ChildProcess]:
    """`python -m module work` in namespaces of its own, which end with this; the descriptor of a `channel`
    to whoever watches is one more argument.  With `underlay` it reaches other machines.

    Raise RunFailed with the last line that it wrote to stderr, if it failed.
    """
    log = work / "session.log"
    pipe = subprocess.PIPE
    fds = [channel.fileno()] if channel else []
    with log.open("w") as stderr:
        process = isolate.isolated(
            module,
            [str(work), *map(str, fds)],
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            pass_fds=fds,
            underlay=underlay,
        )
    child = ChildProcess(name, process, log)
    try:
        yield child
    finally:
        isolate.stop(process)
        child.close()
    if process.returncode:
        raise RunFailed(last_line(log) or unexplained(child))


def unexplained(child: ChildProcess) -> str:
    """Why a session may have died that could not even write why."""
    folder = child.log.parent
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_NBYTES:
        left = f"only {show_nbytes(free)} are left on its disk"
        return f"{folder}: {left}: make room there, or choose another folder"
    return f"{child.name}'s main process died (exit code {child.process.returncode})"


def follow(child: ChildProcess, limit_s: float, progress: Progress) -> None:
    """Pass on what a session says, until it ends.  Raise RunFailed if that takes longer than `limit_s`."""
    stdout = child.process.stdout
    assert stdout
    deadline = time.monotonic() + limit_s
    while Watch().wait([stdout], deadline - time.monotonic()):
        line = stdout.readline()
        if not line:
            child.process.wait(_END_S)
            return
        said = json.loads(line)
        progress(said.pop("phase"), said)
    raise RunFailed(f"{child.name} did not end within {limit_s:.0f} s")


def say(phase: str, **more: object) -> None:
    """What the session does from now on, for whoever started it."""
    print(json.dumps({"phase": phase, **more}), flush=True)


@contextmanager
def errors_in_one_line(prefix: str = "") -> Iterator[None]:
    """End the process with exit code 1 and a line on stderr for an error that describes input or machine."""
    try:
        yield
    except FOR_PEOPLE as error:
        print(f"{prefix}{error}", file=sys.stderr)
        sys.exit(1)

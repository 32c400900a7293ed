"""The life cycle of a session, and what it and its parent agree on: folder, progress, errors, time limit.

A session is a process in namespaces of its own: whatever it makes there is gone when it is gone.  It says on
stdout what it does, as JSON Lines (`say`, `follow`), and ends with exit code 0, or with 1 (the prompt:
`SAID_WHY`) and one line on stderr that says why (`errors_in_one_line`, `session`).

The folder is called NAME.incomplete until everything is in it, so an interrupted run is never taken for a
whole one.
"""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradwire.emu.channel import Channel
from gradwire.emu.kernel import isolate
from gradwire.emu.watch import (
    LOOK_S,
    ChildProcess,
    RunFailed,
    SuspensionWatch,
    Watch,
    how_it_ended,
    last_line,
)
from gradwire.planning.plan import BadPlan
from gradwire.planning.runfiles import INCOMPLETE
from gradwire.traces.shortages import NO_MEMORY, advised
from gradwire.traces.units import show_nbytes

Progress = Callable[[str, dict[str, Any]], None]
FOR_PEOPLE = (RunFailed, BadPlan, OSError, ValueError)  # errors whose text describes input or machine
LEAST_FREE_NBYTES = 1 << 20
_END_S = 10.0
# What unshare of util-linux 2.38 says when SIGKILL ended the process that it started, as the kernel does if
# memory runs out: it wants to end by the same signal, and asks for what that one never allows.
_UNSHARE_AFTER_SIGKILL = "unshare: sigprocmask unblock failed"


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

    Raise RunFailed with `why_it_failed`, if it failed.
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
        raise RunFailed(why_it_failed(child))


def why_it_failed(child: ChildProcess) -> str:
    """The last line that a session wrote to stderr; if it could not even write one, the likeliest reason.

    One that was killed could not say why: what it wrote last is about something else.
    """
    said = last_line(child.log)
    returncode = -signal.SIGKILL if says_that_it_was_killed(said) else child.process.returncode
    if returncode >= 0:
        if said:
            return said
        folder = child.log.parent
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE_NBYTES:
            left = f"only {show_nbytes(free)} are left on its disk"
            return f"{folder}: {left}: make room there, or choose another folder"
    first = "free some memory or choose a smaller job, then " if returncode == -signal.SIGKILL else ""
    return f"{child.name}'s main process {how_main_process_ended(returncode)}: {first}run the command again"


def says_that_it_was_killed(line: str) -> bool:
    """Whether the last line of a session on stderr is not its own, but unshare's after a SIGKILL."""
    return line.startswith(_UNSHARE_AFTER_SIGKILL)


def how_main_process_ended(returncode: int) -> str:
    """`how_it_ended` of a session's process that has not said why itself, and who may have killed it."""
    by_whom = ", by a user or by the kernel because memory ran out (dmesg says which)"
    return how_it_ended(returncode) + (by_whom if returncode == -signal.SIGKILL else "")


def follow(child: ChildProcess, limit_s: float, progress: Progress) -> None:
    """Pass on what a session says, until it ends.

    Raise RunFailed if that takes longer than `limit_s`, if a signal stopped it, or if it does not exit after
    its last word.
    """
    stdout = child.process.stdout
    assert stdout
    suspensions = SuspensionWatch(child.process.pid)
    deadline = time.monotonic() + limit_s
    while (left_s := deadline - time.monotonic()) > 0:
        if not Watch().wait([stdout], min(left_s, LOOK_S)):
            if pid := suspensions.stopped():
                why = f"main process ({pid}) was stopped by a signal: run the command again"
                raise RunFailed(f"{child.name}'s {why}")
            continue
        line = stdout.readline()
        if not line:
            _await_end(child)
            return
        said = json.loads(line)
        progress(said.pop("phase"), said)
    raise RunFailed(f"{child.name} did not end within {limit_s:.0f} s")


def _await_end(child: ChildProcess) -> None:
    """Wait for a session that has closed its stdout.  Raise RunFailed if it takes longer than `_END_S`."""
    try:
        child.process.wait(_END_S)
    except subprocess.TimeoutExpired:
        how = f"did not end within {_END_S:.0f} s"
        raise RunFailed(
            f"{child.name}'s main process ({child.process.pid}) {how}: run the command again"
        ) from None


def say(phase: str, **more: object) -> None:
    """What the session does from now on, for whoever started it."""
    print(json.dumps({"phase": phase, **more}), flush=True)


@contextmanager
def errors_in_one_line(prefix: str = "", code: int = 1) -> Iterator[None]:
    """End the process with this exit code and a line on stderr for an error about input or machine."""
    try:
        yield
    except FOR_PEOPLE as error:
        print(f"{prefix}{advised(str(error))}", file=sys.stderr)
        sys.exit(code)
    except MemoryError:
        print(f"{prefix}{NO_MEMORY}", file=sys.stderr)
        sys.exit(code)

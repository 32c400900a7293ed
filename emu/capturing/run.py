"""A capture, seen from outside its namespaces: its folder, the session, and how Ctrl-C ends it.

The folder is called NAME.incomplete until the job has ended by itself and everything is in it; one that was
cut short keeps that name.
"""

import errno
import json
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.network import isolate
from gradwire.emu.sampler import cpu_idle, cpu_stolen, machine
from gradwire.emu.watch import RunFailed
from gradwire.planning.runfiles import INCOMPLETE

INTERRUPTED = "interrupted"
_AROUND_S = 300.0  # what building the network, importing PyTorch and ending may take beside the job
_ASKED_TO_END_S = 15.0

Progress = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Ran:
    """Why a job was cut short, None if it was not; while it ran, the shares of the CPUs that were idle and
    that the machine's own host gave to others, 0 to 1.
    """

    cut_short: str | None
    cpu_idle: float
    cpu_stolen: float


def capture(request: CaptureRequest, folder: Path, progress: Progress) -> Ran:
    """Leave the captures in `folder` + INCOMPLETE.

    A Ctrl-C ends the job, and what it has sent until then is kept; a second one takes everything down at
    once.  Raises RunFailed, KeyboardInterrupt.
    """
    log = folder / "session.log"
    before = machine()

    def noted(phase: str, more: dict[str, Any]) -> None:
        nonlocal before
        if phase == "job":
            before = machine()
        progress(phase, more)

    try:
        request.save(folder)
        with log.open("w") as stderr:
            process = isolate.isolated(
                "gradwire.emu.capturing.session",
                [str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
            try:
                ended = _followed(process, request.limit_s + _AROUND_S, noted)
                after = machine()
            finally:
                isolate.stop(process)
                for pipe in (process.stdin, process.stdout):
                    assert pipe
                    pipe.close()
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise RunFailed(
                f"{folder}: {error.strerror}: make room there, or choose another folder"
            ) from error
        raise
    if ended is None:
        said = log.read_text(errors="replace").strip().splitlines()
        raise RunFailed(
            said[-1] if said else f"the capture's main process died (exit code {process.returncode})"
        )
    return Ran(ended["cut_short"], cpu_idle(before, after), cpu_stolen(before, after))


def _followed(process: "subprocess.Popen[str]", limit_s: float, progress: Progress) -> dict[str, Any] | None:
    """Its last word, None if it had none.  A Ctrl-C before the job runs leaves nothing worth keeping."""
    phases: set[str] = set()

    def noted(phase: str, more: dict[str, Any]) -> None:
        phases.add(phase)
        progress(phase, more)

    try:
        return _heard(process, time.monotonic() + limit_s, noted)
    except KeyboardInterrupt:
        if "job" not in phases:
            raise
        progress("ending", {})
        assert process.stdin
        process.stdin.write("stop\n")
        process.stdin.flush()
        ended = _heard(process, time.monotonic() + _ASKED_TO_END_S, progress)
        if ended is None:
            raise
        return ended


def _heard(process: "subprocess.Popen[str]", deadline: float, progress: Progress) -> dict[str, Any] | None:
    assert process.stdout
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        line = process.stdout.readline()
        if not line:
            process.wait(10)
            return None
        said = json.loads(line)
        phase = said.pop("phase")
        if phase == "ended":
            return dict(said)
        progress(phase, said)
    raise RunFailed("the capture did not end in time")


def working_folder(folder: Path) -> Path:
    """The folder's name while it is not whole, made now.  Raises FileExistsError."""
    work = folder.with_name(folder.name + INCOMPLETE)
    for path in (folder, work):
        if path.exists() and (path != folder or any(folder.iterdir())):
            raise FileExistsError(f"{path} already exists; choose another folder with --output")
    work.mkdir(parents=True)
    return work

"""Carries a plan out, in namespaces of its own; leaves a folder of results and nothing else.

The folder is called NAME.incomplete until everything is in it, so an interrupted run is never taken for a
whole one.

`manifest.json` says what the run was made with: enough to make it again, or to see why it cannot be.
"""

import errno
import hashlib
import json
import os
import platform
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from gradwire.emu import limits
from gradwire.emu.network import isolate
from gradwire.emu.network.net import host_sysctls
from gradwire.emu.options import RunOptions
from gradwire.emu.watch import RunFailed
from gradwire.planning import plan as plans
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.planning.runfiles import INCOMPLETE
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_nbytes

Progress = Callable[[str, dict[str, Any]], None]
Result = TypeVar("Result")
LEAST_FREE_NBYTES = 1 << 20
PACKAGES = ("mininet", "os-ken", "numpy", "scapy")


def run(
    plan: Plan,
    folder: Path,
    options: RunOptions,
    progress: Progress,
    finish: Callable[[Path], Result],
) -> Result:
    """Leave the run's files in `folder`, and return what `finish` makes of them while it is not yet whole.

    Raises Refused, before anything is made, for a plan that the kind of switch cannot carry out, and
    RunFailed with one line; the incomplete folder then stays.  Ends within seconds when a process of the run
    dies, and by itself after a time limit that grows with the plan's predicted time.
    """
    check_served(plan, options.switch)
    with whole_folder(folder) as work:
        _write_inputs(plan, options, work)
        in_namespaces("gradwire.emu.session", work, limits.run_s(plan, options), progress)
        return finish(work)


def check_served(plan: Plan, switch: str) -> None:
    """Raise Refused for what this kind of switch cannot do."""
    if switch == "ovs" and (plan.trees or plan.losses):
        what = "add up gradients" if plan.trees else "lose packets by plan"
        raise Refused(f"Open vSwitch cannot {what}: use --switch gradwire")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """The folder to write into, which becomes `folder` when the block ends without an error.

    Raise FileExistsError, and RunFailed where there is no room.
    """
    if folder.exists():
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
    work.rename(folder)


def _write_inputs(plan: Plan, options: RunOptions, work: Path) -> None:
    plans.save(plan, work / "plan.json")
    write_whole(work / "options.json", json.dumps(options.to_json()) + "\n")
    made = manifest(plan, options, work / "plan.json")
    write_whole(work / "manifest.json", json.dumps(made, indent=1) + "\n")


def in_namespaces(module: str, work: Path, limit_s: float, progress: Progress) -> None:
    """Carry out `python -m module work`, which says what it does as JSON Lines, in namespaces of its own.

    Raise RunFailed with the last line that it wrote to stderr.
    """
    with (work / "session.log").open("w") as log:
        process = isolate.isolated(module, [str(work)], stdout=subprocess.PIPE, stderr=log)
        try:
            _follow(process, limit_s, progress)
        finally:
            isolate.stop(process)
            assert process.stdout
            process.stdout.close()
    if process.returncode:
        said = (work / "session.log").read_text(errors="replace").strip().splitlines()
        raise RunFailed(said[-1] if said else _unexplained(work, process.returncode))


def _unexplained(work: Path, code: int) -> str:
    """Why a run may have died that could not even write why."""
    free = shutil.disk_usage(work).free
    if free < LEAST_FREE_NBYTES:
        left = f"only {show_nbytes(free)} are left on its disk"
        return f"{work}: {left}: make room there, or choose another folder"
    return f"the run's main process died (exit code {code})"


def _follow(process: "subprocess.Popen[str]", limit_s: float, progress: Progress) -> None:
    """Pass on what the run says, until it ends."""
    assert process.stdout
    deadline = time.monotonic() + limit_s
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while True:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise RunFailed(f"the run did not end within {limit_s:.0f} s")
        line = process.stdout.readline()
        if not line:
            process.wait(10)
            return
        said = json.loads(line)
        progress(said.pop("phase"), said)


def manifest(plan: Plan, options: RunOptions, plan_file: Path) -> dict[str, Any]:
    """Kernel, versions, machine, seed, hashes, switch and TCP settings."""
    return {
        "schema": "gradwire.manifest/1",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "iproute2": _first_line(["tc", "-V"]),
        "cpus": os.cpu_count(),
        "source": plan.source,
        "seed": plan.seed,
        "plan_sha256": hashlib.sha256(plan_file.read_bytes()).hexdigest(),
        "switch": options.switch,
        "repeats": options.repeats,
        "transport": asdict(plan.transport),
        "checksum_and_segmentation_offload": options.switch != "ovs",
        "host_sysctls": host_sysctls(plan.transport),
    }


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return (done.stdout or done.stderr).strip().split("\n", 1)[0]

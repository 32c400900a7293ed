"""Carry a plan out: namespaces of its own, a folder of results, nothing left behind.

The folder is called NAME.incomplete until everything is in it, so an interrupted run is never taken for a
whole one.
"""

import json
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emu import isolate
from emu import plan as plans
from emu.options import RunOptions
from emu.plan import Plan
from emu.records import MAX_LEFT_OUT
from emu.watch import RunFailed

Progress = Callable[[str, dict[str, Any]], None]
INCOMPLETE = ".incomplete"
_SETUP_S = 90.0
_REPEAT_FACTOR = 15


def run(plan: Plan, folder: Path, options: RunOptions, progress: Progress) -> None:
    """Leave the run's files in `folder`.  Raises RunFailed with one line; the incomplete folder then stays.

    Ends within seconds when a process of the run dies, and by itself after a time limit that grows with the
    plan's predicted time.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists already; choose another folder")
    work = folder.with_name(folder.name + INCOMPLETE)
    if work.exists():
        shutil.rmtree(work)
    work.mkdir(parents=True)
    plans.save(plan, work / "plan.json")
    (work / "options.json").write_text(json.dumps(options.to_json()) + "\n")
    limit_s = _SETUP_S + (options.repeats + MAX_LEFT_OUT) * (30 + _REPEAT_FACTOR * plan.prediction.fluid_s)
    with (work / "session.log").open("w") as log:
        process = isolate.isolated("emu.session", [str(work)], stdout=subprocess.PIPE, stderr=log)
        try:
            _follow(process, limit_s, progress)
        finally:
            isolate.stop(process)
            assert process.stdout
            process.stdout.close()
    if process.returncode:
        said = (work / "session.log").read_text(errors="replace").strip().splitlines()
        raise RunFailed(said[-1] if said else f"the run's first process died ({process.returncode})")
    work.rename(folder)


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

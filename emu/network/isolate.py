"""A process in namespaces of its own: whatever it makes there is gone when it is gone.

Network, mount, pid and ipc namespaces; every process in it dies with its first one, and that dies with ours,
by the kernel's hand (parent-death signal), so even SIGKILL leaves nothing behind and two runs never meet.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emu.project import PROJECT

PRIVATE = Path("/run/gradwire")  # in memory and ours alone once `prepare_namespace` (net.py) has been there
_STOP_S = 3.0


def isolated(
    module: str, arguments: Sequence[str], new_session: bool = True, **popen: Any
) -> "subprocess.Popen[str]":
    """Start `python -m module arguments` as process 1 of new namespaces.

    In a session of its own it does not hear the terminal's Ctrl-C: that is for us to act on.
    """
    command = ["setpriv", "--pdeathsig", "KILL", "--"]
    command += [
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--ipc",
        "--mount-proc",
        "--fork",
        "--kill-child=KILL",
        "--",
    ]
    command += [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, text=True, start_new_session=new_session, env=environment(), **popen)


def environment() -> Mapping[str, str]:
    """Ours, with the project on Python's path: a run starts from any folder."""
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


def stop(process: "subprocess.Popen[str]") -> None:
    """End it and with it its namespaces; returns when it is gone."""
    if process.poll() is None:
        process.kill()  # unshare dies, its child (process 1 of the namespace) by --kill-child
        process.wait(_STOP_S)

"""A process in namespaces of its own: whatever it makes there is gone when it is gone.

Network, mount, pid and ipc namespaces; every process in it dies with its first one, and that dies with ours,
by the kernel's hand (parent-death signal), so even SIGKILL leaves nothing behind and two runs never meet.
"""

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradwire.emu.interpreter import python

PRIVATE = Path("/run/gradwire")  # in memory and ours alone after `prepare_namespace` of emu.network.net
HOST_PROC = "GRADWIRE_HOST_PROC"  # in the environment: the number of the open /proc of whoever started it
UNDERLAY = "GRADWIRE_UNDERLAY"  # in the environment: the number of our open network namespace (underlay.py)
_STOP_S = 3.0


def isolated(
    module: str,
    arguments: Sequence[str],
    new_session: bool = True,
    pass_fds: Collection[int] = (),
    underlay: bool = False,
    **popen: Any,
) -> "subprocess.Popen[str]":
    """Start the project's `module` with `arguments` as process 1 of new namespaces.

    In a session of its own it does not hear the terminal's Ctrl-C: that is for us to act on.
    Beside `pass_fds` it is handed our /proc, to see what else uses the processors, and with `underlay` our
    network namespace, through which it reaches other machines.
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
    command += python(module, *arguments)
    handed = {HOST_PROC: os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)}
    try:
        if underlay:
            handed[UNDERLAY] = os.open("/proc/self/ns/net", os.O_RDONLY)
        return subprocess.Popen(
            command,
            text=True,
            start_new_session=new_session,
            env={**environment(), **{name: str(fd) for name, fd in handed.items()}},
            pass_fds=(*handed.values(), *pass_fds),
            **popen,
        )
    finally:
        for fd in handed.values():
            os.close(fd)


def environment() -> Mapping[str, str]:
    """Ours, and two settings for the programs that a run starts: one thread, and output as it is written."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


def stop(process: "subprocess.Popen[str]") -> None:
    """End it and with it its namespaces; returns when it is gone."""
    if process.poll() is None:
        process.kill()  # unshare dies, its child (process 1 of the namespace) by --kill-child
        process.wait(_STOP_S)

"""Run a function of a test in namespaces of its own: network, mount, pid, ipc, a private bpffs and /run.

Whatever it makes is gone when it ends, even by SIGKILL, or when its caller does, and two of them never
meet: `unshare` dies with the caller, and process 1 of the namespaces, with all others, dies with
`unshare`.  Arguments and the result travel as JSON.
"""

import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradwire.emu.project import PROJECT

_NAMESPACES = ["--net", "--mount", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child=KILL"]
_MARK = "GRADWIRE_TEST_INSIDE"


def inside(function: Callable[..., Any], *arguments: Any, timeout_s: float = 60) -> Any:
    """What `function(*arguments)` returns there; AssertionError with its stderr if it raises or is late."""
    assert _MARK not in os.environ, "inside() called inside: the module does it when it is imported"
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        *_NAMESPACES,
        "--",
        sys.executable,
        "-P",
        __file__,
    ]
    command += [inspect.getfile(function), function.__name__, json.dumps(arguments)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(PROJECT), _MARK: "1"},
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode(errors="replace")  # octets, even of text
        raise AssertionError(f"{function.__name__} is not through after {timeout_s} s:\n{said}") from None
    assert done.returncode == 0, f"{function.__name__} failed:\n{done.stderr}\n{done.stdout}"
    return json.loads(done.stdout.splitlines()[-1])


def _main(path: str, name: str, arguments: str) -> None:
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["mount", "-t", "tmpfs", "tmpfs", "/run"],
        ["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"],
        ["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"],
    ):
        subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, name)(*json.loads(arguments))))


if __name__ == "__main__":
    _main(*sys.argv[1:])

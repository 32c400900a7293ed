"""What `inside` makes does not outlive who called it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT

pytestmark = [pytest.mark.real, pytest.mark.untimed]

PATIENCE_S = 30.0


def sleeping() -> None:
    time.sleep(600)


def caller() -> None:
    from tests.real.inside import inside

    inside(sleeping, timeout_s=600)


def below(pid: int) -> set[int]:
    """All processes that this one has started, and those have, and so on."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return set()
    children = {int(word) for each in lists for word in each.split()}
    return children.union(*(below(child) for child in children))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_inside_is_left_when_the_caller_is_ended(end: signal.Signals) -> None:
    command = [sys.executable, "-c", "from tests.real.test_inside import caller; caller()"]
    with subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)}) as process:
        deadline_s = time.monotonic() + PATIENCE_S
        while len(inner := below(process.pid)) < 2:  # unshare, and process 1 of the namespaces
            assert time.monotonic() < deadline_s, "nothing was started"
            time.sleep(0.05)
        process.send_signal(end)
        process.wait(PATIENCE_S)
        while left := [pid for pid in inner if is_running(pid)]:
            assert time.monotonic() < deadline_s, f"{left} were left"
            time.sleep(0.05)

"""A machine that others use in mid-run: the row is not valid, and says what was taken.

A real-time program has a processor for 15 of every 40 ms; a rank's process is stopped for 100 ms.  Both made
rows up to 11 % longer that looked like any other.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from tests.real.test_faults import descendants

pytestmark = [pytest.mark.real, pytest.mark.untimed]

LIMIT_S = 60
BURSTS = """
import os, sys, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
end = time.monotonic() + float(sys.argv[1])
while (now := time.monotonic()) < end:
    while time.monotonic() < now + 0.015:
        pass
    time.sleep(0.025)
"""


@contextmanager
def bursts() -> Iterator[None]:
    burning = subprocess.Popen([sys.executable, "-I", "-c", BURSTS, str(LIMIT_S)])
    try:
        yield
    finally:
        burning.kill()
        burning.wait()


@contextmanager
def stops(command: "subprocess.Popen[str]") -> Iterator[None]:
    """Stop the last agent of each run for 100 ms again and again, until this is left."""
    over = threading.Event()

    def stop() -> None:
        while not over.wait(0.3):
            for pid in agents(command.pid)[-1:]:
                try:
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.1)
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def agents(command: int) -> list[int]:
    """The processes of a run that are in another network namespace than its first one."""
    table = {pid: said for pid, said in descendants(command).items() if "gradwire.emu.session" in said}
    spaces = {}
    for pid in table:
        try:
            spaces[pid] = os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            continue
    first = {spaces[pid] for pid in sorted(spaces)[:2]}
    return [pid for pid in sorted(spaces) if spaces[pid] not in first]


def bench(folder: Path) -> "subprocess.Popen[str]":
    command = python(
        "gradwire.tools", "bench", "allreduce", "-b", "512KiB", "-e", "512KiB", "--json", "--repeat", "2"
    )
    command += ["--fabric", "star:hosts=4,rate=20M", "--out", str(folder)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def row_of(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, errors
    (row,) = json.loads(out)
    return dict(row)


def test_bursts_of_a_real_time_program_make_a_row_not_valid(tmp_path: Path) -> None:
    with bursts():
        row = row_of(bench(tmp_path / "runs"))
    assert row["verdict"] == "not valid"
    assert any("% of the time to real-time" in reason for reason in row["machine"]), row["reasons"]


def test_a_rank_that_is_stopped_for_100_ms_makes_a_row_not_valid_and_is_named(tmp_path: Path) -> None:
    process = bench(tmp_path / "runs")
    with stops(process):
        row = row_of(process)
    assert row["verdict"] == "not valid"
    assert any("was stopped for about" in reason for reason in row["machine"]), row["reasons"]

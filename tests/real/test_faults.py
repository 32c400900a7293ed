"""What breaks in mid-run: the command ends with the reason, and nothing is left.

The victim is found among the descendants of the command's own process, never by a pattern.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from tests.real.timely import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.untimed]


def processes() -> dict[int, tuple[int, str]]:
    """pid -> (parent's pid, command line)."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found[int(folder.name)] = (int(stat[1]), command)
    return found


def descendants(pid: int) -> dict[int, str]:
    table = processes()
    below = {pid}
    while more := {child for child, (parent, _) in table.items() if parent in below} - below:
        below |= more
    return {child: table[child][1] for child in below - {pid}}


def mounts_and_links() -> tuple[str, str]:
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    return Path("/proc/self/mounts").read_text(), links


@pytest.fixture
def long_replay(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that replays for half a minute, in its first repeat."""
    before = mounts_and_links()
    command = python("gradwire.tools", "bench", "allreduce", "-b", "16MiB", "--repeat", "5")
    command += ["--fabric", "star:hosts=4,rate=50M", "--out", str(tmp_path / "runs")]
    process = subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: is_repeating(tmp_path / "runs"), 60)
        yield process
    finally:
        below = descendants(process.pid)
        process.kill()
        process.communicate()
        wait_until(lambda: not (set(below) & set(processes())), PATIENCE_S)
        assert mounts_and_links() == before


def is_repeating(runs: Path) -> bool:
    return any((folder / "events").exists() for folder in runs.glob("01-*.incomplete"))


def wait_until(happened: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("victim", "named"),
    [
        ("gradwire.emu.session", "the agent of rank"),
        ("interpreter.py gradwire.controller", "the controller"),
        ("gradwire.emu.switch.agent", "the switch agent"),
    ],
)
def test_the_death_of_a_part_ends_the_command_with_its_name(
    long_replay: subprocess.Popen[str], victim: str, named: str, tmp_path: Path
) -> None:
    below = descendants(long_replay.pid)
    victims = sorted(pid for pid, command in below.items() if victim in command and "unshare" not in command)
    os.kill(victims[-1], signal.SIGKILL)  # of `emu.session`, the last are the agents forked from it
    _, complaint = long_replay.communicate(timeout=PATIENCE_S)
    assert long_replay.returncode == 1
    *_, line = [line for line in complaint.splitlines() if line.startswith("gradwire:")]  # after its progress
    assert named in line
    assert "SIGKILL" in line
    assert not (set(below) & set(processes()))
    assert not any("incomplete" not in folder.name for folder in (tmp_path / "runs").glob("01-*"))


@pytest.mark.parametrize("victim", ["unshare", "gradwire.emu.session"])
def test_a_run_whose_main_process_a_signal_stops_ends_with_a_line_that_says_so(
    long_replay: subprocess.Popen[str], victim: str
) -> None:
    below = descendants(long_replay.pid)
    is_outside = victim == "unshare"
    main = min(pid for pid, each in below.items() if victim in each and ("unshare" in each) == is_outside)
    os.kill(main, signal.SIGSTOP)
    _, complaint = long_replay.communicate(timeout=PATIENCE_S)
    assert long_replay.returncode == 1
    *_, line = [line for line in complaint.splitlines() if line.startswith("gradwire:")]  # after its progress
    assert line == (
        f"gradwire: the run's main process ({main}) was stopped by a signal: run the command again"
    )
    wait_until(lambda: not (set(below) & set(processes())), PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ending_the_command_ends_everything_it_started(
    long_replay: subprocess.Popen[str], number: signal.Signals, tmp_path: Path
) -> None:
    below = descendants(long_replay.pid)
    assert len(below) > 8
    long_replay.send_signal(number)
    long_replay.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not (set(below) & set(processes())), PATIENCE_S)
    assert long_replay.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert not any("incomplete" not in folder.name for folder in (tmp_path / "runs").glob("01-*"))


def test_ctrl_c_while_the_controller_is_being_imported_ends_it_without_a_traceback() -> None:
    command = [str(PROJECT / "gradwire"), "controller", "star:hosts=2", "--port", "16653"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: "gradwire.controller" in processes()[process.pid][1], 30)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, complaint) == (130, "")

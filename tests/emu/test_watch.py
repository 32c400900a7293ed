"""A process that a run depends on is missed at once, by name."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.watch import RunFailed, SuspensionWatch, Watch, is_stopped, running

ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print(line.strip(), flush=True)\n"


def test_a_child_is_talked_to_in_lines(tmp_path: Path) -> None:
    with running("echo", [sys.executable, "-c", ECHO], tmp_path / "log") as child:
        child.await_line("ready", 10, Watch())
        child.tell("hello")
        child.await_line("hello", 10, Watch())
    assert child.process.returncode == -signal.SIGTERM


def test_what_a_child_says_last_on_stderr_is_why_it_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('first', file=sys.stderr); sys.exit('the reason')"]
    with (
        running("the helper", command, tmp_path / "log") as child,
        pytest.raises(RunFailed, match="the helper ended with exit code 1: the reason"),
    ):
        child.await_line("ready", 10, Watch())


def test_a_child_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    with (
        running("the helper", [sys.executable, "-c", "input()"], tmp_path / "log") as child,
        pytest.raises(RunFailed, match="did not report 'ready' within 0 s"),
    ):
        child.await_line("ready", 0.2, Watch())


def test_the_death_of_one_process_ends_the_wait_for_another(tmp_path: Path) -> None:
    watch = Watch()
    with (
        running("the victim", ["sleep", "60"], tmp_path / "a") as victim,
        running("the helper", ["sleep", "60"], tmp_path / "b") as child,
        ExitStack() as stack,
    ):
        stack.enter_context(watch.over("the victim", victim.process.pid))
        os.kill(victim.process.pid, signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(
            RunFailed, match=rf"the victim \(process {victim.process.pid}\) was killed \(SIGKILL\)"
        ):
            child.await_line("ready", 30, watch)
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize("victim", ["the one that is awaited", "another"])
def test_a_stop_of_a_process_ends_the_wait_for_its_word_or_anothers(tmp_path: Path, victim: str) -> None:
    watch = Watch()
    with (
        running("another", ["sleep", "60"], tmp_path / "a") as other,
        running("the one that is awaited", ["sleep", "60"], tmp_path / "b") as child,
        watch.over("another", other.process.pid),
    ):
        stopped = other if victim == "another" else child
        stop(stopped.process)
        begun = time.monotonic()
        with pytest.raises(
            RunFailed, match=rf"^{victim} \(process {stopped.process.pid}\) was stopped by a signal: run the"
        ):
            child.await_line("ready", 30, watch)
        assert time.monotonic() - begun < 10


def test_a_process_that_two_looks_in_a_row_find_stopped_counts_and_one_that_goes_on_does_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        suspensions = SuspensionWatch(process.pid)
        stop(process)
        assert suspensions.stopped() is None
        assert suspensions.stopped() == process.pid
        process.send_signal(signal.SIGCONT)
        while is_stopped(process.pid):
            time.sleep(0.01)
        assert suspensions.stopped() is None
        stop(process)
        assert suspensions.stopped() is None
        process.kill()


def stop(process: "subprocess.Popen[Any]") -> None:
    process.send_signal(signal.SIGSTOP)
    while not is_stopped(process.pid):
        time.sleep(0.01)


def test_a_process_in_a_debugger_is_not_one_that_a_signal_stopped() -> None:
    attach, detach = 16, 17  # ptrace(2)
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            if ptrace(attach, process.pid, None, None):
                pytest.skip(os.strerror(ctypes.get_errno()))
            while not is_stopped(process.pid):
                time.sleep(0.01)
            suspensions = SuspensionWatch(process.pid)
            assert [suspensions.stopped() for _ in range(3)] == [None] * 3
            ptrace(detach, process.pid, None, None)
        finally:
            process.kill()

"""A session and its parent: the folder, what is passed on, and in words why a run was not carried out."""

import errno
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradwire.emu import lifecycle
from gradwire.emu.watch import ChildProcess, RunFailed, last_line, running
from gradwire.traces.shortages import NO_MEMORY


@pytest.mark.parametrize(
    ("free", "said"), [(4096, "left on its disk"), (1 << 30, r"main process ended with exit code 1: run")]
)
def test_a_session_that_ended_in_silence_on_a_full_disk_names_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, said: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(RunFailed, match=said):
        fail_in_silence(tmp_path)


def fail_in_silence(work: Path) -> None:
    with subprocess.Popen(["false"], text=True) as process:
        process.wait()
    log = work / "session.log"
    log.touch()
    raise RunFailed(lifecycle.why_it_failed(ChildProcess("the run", process, log)))


def test_a_folder_that_is_deleted_in_mid_run_is_said_to_be(tmp_path: Path) -> None:
    def carried_out() -> None:
        with lifecycle.working_folder(tmp_path / "runs" / "01") as work:
            shutil.rmtree(tmp_path / "runs")
            (work / "session.log").read_text()

    with pytest.raises(RunFailed, match="was deleted or moved during the run"):
        carried_out()


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="make room there"), lifecycle.working_folder(tmp_path / "01"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_is_there_is_taken_only_empty_and_only_where_that_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="already exists"), lifecycle.working_folder(tmp_path):
        pass
    folder = tmp_path / "empty"
    folder.mkdir()
    with lifecycle.working_folder(folder, may_be_empty=True) as work:
        (work / "result").touch()
    work.rename(folder)
    with (
        pytest.raises(FileExistsError, match="already exists"),
        lifecycle.working_folder(folder, may_be_empty=True),
    ):
        pass


def test_the_folder_of_a_run_under_way_is_nobody_elses(tmp_path: Path) -> None:
    with (
        lifecycle.working_folder(tmp_path / "01"),
        pytest.raises(FileExistsError, match="belongs to a run that still runs or was interrupted"),
        lifecycle.working_folder(tmp_path / "01"),
    ):
        pass


def test_what_a_session_says_is_passed_on_until_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    lifecycle.say("network")
    lifecycle.say("repeat", repeat=2)
    with running("the run", ["printf", "%s", capsys.readouterr().out], tmp_path / "log") as child:
        lifecycle.follow(child, 30, lambda phase, more: heard.append((phase, more)))
    assert heard == [("network", {}), ("repeat", {"repeat": 2})]


def test_a_session_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    with (
        running("the capture", ["sleep", "60"], tmp_path / "log") as child,
        pytest.raises(RunFailed, match="the capture did not end within 0 s"),
    ):
        lifecycle.follow(child, 0.2, lambda phase, more: None)


def test_a_session_that_was_killed_says_so_and_not_what_unshare_says_of_it(tmp_path: Path) -> None:
    """As util-linux 2.38 ends when the process that it started was killed by SIGKILL."""
    lines = "rank 3 is up\nunshare: sigprocmask unblock failed: Invalid argument\n"
    with subprocess.Popen(
        ["sh", "-c", f"printf '{lines}' >&2; exit 1"], stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stderr
        (tmp_path / "session.log").write_text(it.stderr.read())
    child = ChildProcess("the run", it, tmp_path / "session.log")
    assert lifecycle.says_that_it_was_killed(last_line(child.log))
    assert lifecycle.why_it_failed(child) == (
        "the run's main process was killed (SIGKILL), by a user or by the kernel because memory "
        "ran out (dmesg says which): free some memory or choose a smaller job, then run the command again"
    )


def test_a_session_that_was_killed_is_not_blamed_on_what_it_warned_of_before(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "kill -KILL $$"], text=True) as process:
        process.wait()
    (tmp_path / "session.log").write_text("a warning of a library\n")
    said = lifecycle.why_it_failed(ChildProcess("the run", process, tmp_path / "session.log"))
    assert said.startswith("the run's main process was killed (SIGKILL), by a user or by the kernel")


def test_a_session_that_failed_is_quoted(tmp_path: Path) -> None:
    with subprocess.Popen(["false"], text=True) as process:
        process.wait()
    (tmp_path / "session.log").write_text("rank 3 is up\nno room for 4 switches\n")
    child = ChildProcess("the run", process, tmp_path / "session.log")
    assert lifecycle.why_it_failed(child) == "no room for 4 switches"


@pytest.mark.parametrize(
    "command", ["kill -STOP $$", "sleep 60 & kill -STOP $!; wait"], ids=["unshare", "its-first"]
)
def test_a_session_that_a_signal_stops_is_named_and_not_waited_for(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stdout stays open: unshare holds it, and so does the first process in its namespaces."""
    monkeypatch.setattr(lifecycle, "LOOK_S", 0.1)
    begin_s = time.monotonic()
    with running("the capture", ["sh", "-c", command], tmp_path / "log") as child:
        with pytest.raises(
            RunFailed,
            match=r"^the capture's main process \(\d+\) was stopped by a signal: run the command again$",
        ):
            lifecycle.follow(child, 20, lambda phase, more: None)
        os.killpg(child.process.pid, signal.SIGKILL)
    assert time.monotonic() - begin_s < 10


def test_a_session_that_closes_its_stdout_and_does_not_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_END_S", 0.2)
    with (
        running("the capture", ["sh", "-c", "exec >&-; sleep 60"], tmp_path / "log") as child,
        pytest.raises(RunFailed, match="did not end within 0 s: run the command again"),
    ):
        lifecycle.follow(child, 30, lambda phase, more: None)


def test_an_error_of_input_or_machine_ends_a_session_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, lifecycle.errors_in_one_line("gradwire: "):
        raise OSError("no room")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "gradwire: no room\n"


def test_a_session_without_memory_says_so_and_not_that_it_is_a_bug(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended, lifecycle.errors_in_one_line():
        raise MemoryError
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"{NO_MEMORY}\n"


def test_a_bug_in_a_session_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), lifecycle.errors_in_one_line():
        raise ZeroDivisionError

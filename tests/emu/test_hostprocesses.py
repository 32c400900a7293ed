"""How a session starts the processes that keep hosts' namespaces, and reads what they answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.emu.kernel import hostprocesses
from gradwire.emu.kernel.namespaces import HostFailed, hosts_started, read_pids


def test_pids_are_by_host_whoever_is_ready_first() -> None:
    assert list(read_pids(("h0", "h1", "h2"), [b"1 12\n", b"2 9\n", b"0 11\n"]).items()) == [
        ("h0", 11),
        ("h1", 12),
        ("h2", 9),
    ]


def test_what_the_kernel_refuses_is_said_of_the_host() -> None:
    lines = [b"0 11\n", b"1 - unshare: Operation not permitted\n"]
    with pytest.raises(HostFailed, match=r"^host h1: unshare: Operation not permitted: check that"):
        read_pids(("h0", "h1", "h2"), lines)


def test_processes_that_cannot_be_started_are_counted() -> None:
    with pytest.raises(HostFailed, match="only 1 of 2"):
        read_pids(("h0", "h1"), [b"0 11\n"])


def test_who_may_not_make_namespaces_is_refused_and_nothing_is_left() -> None:
    command = [sys.executable, "-I", "-S", hostprocesses.__file__, "h0"]
    if os.geteuid() == 0:  # without the capability that it takes, and no user namespace to get it in
        command = ["setpriv", "--bounding-set", "-sys_admin", "--", *command]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=20, check=True)
    assert done.stdout == b"0 - unshare: Operation not permitted\n"
    assert done.stderr == b""


def test_one_that_does_not_end_in_time_is_ended_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a processor that a real-time program has for itself."""
    script = tmp_path / "slow.py"
    pid_file = tmp_path / "pid"
    script.write_text(
        "import os, subprocess, sys, time\n"
        f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
        "host = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
        "print(0, host.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr("gradwire.emu.kernel.namespaces._PROCESSES", script)
    monkeypatch.setattr("gradwire.emu.kernel.namespaces._END_S", 0.5)
    with hosts_started(["h0"]) as pids:
        assert list(pids) == ["h0"]
    assert not Path(f"/proc/{pid_file.read_text()}").exists()

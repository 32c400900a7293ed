"""`gradwire up --script`: commands for the prompt from a file, and every way to end early."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT

pytestmark = [pytest.mark.real, pytest.mark.untimed]

UP = [str(PROJECT / "gradwire"), "up", "star:hosts=2", "--script"]
LIMIT_S = 60


def carried_out(path: str, commands: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*UP, path],
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # where Mininet writes what a command prints
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_a_script_goes_on_when_commands_fail_or_a_hosts_shell_ends_and_names_their_lines(
    tmp_path: Path,
) -> None:
    path = tmp_path / "script"
    path.write_text(
        "h0 true\n# a remark\nh0 exit 3\nh1 echo one $((1 + 1))\nh0 kill -9 $$\nh0 echo another $((2 + 2))\n"
        "nonsense\nh0 echo 'an open quote\nh0 ping -c1 -W1 10.0.9.9\nh0 ! false\nh0 sleep 600 &\nh0 kill $!\n"
        "py 1/0\npingall\n"
    )
    done = carried_out(str(path))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == (
        f"gradwire: {path}: 6 commands failed: "
        "line 3, h0 exit 3: h0's shell ended with exit code 3; its next command starts a new one; "
        "line 5, h0 kill -9 $$: h0's shell ended by signal 9; its next command starts a new one; "
        "line 7, nonsense: Unknown command: nonsense and 3 more"
    )
    assert "one 2" in done.stdout
    assert "another 4" in done.stdout
    assert "0% dropped (2/2 received)" in done.stdout


def test_a_script_comes_from_a_pipe_and_ends_with_exit() -> None:
    done = carried_out("/dev/stdin", "help ping\nh0 echo this $((3 + 3))\nexit\nh0 echo not that\n")
    assert done.returncode == 0
    assert "Traceback" not in done.stdout
    assert "this 6" in done.stdout
    assert "not that" not in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_a_signal_ends_a_script_in_mid_command(number: signal.Signals, code: int, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("h0 echo begun $((4 + 4)); sleep 600\n")
    process = subprocess.Popen([*UP, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout
        while "begun 8" not in (line := process.stdout.readline()):
            assert line, "it ended before"
        begin_s = time.monotonic()
        process.send_signal(number)
        said, _ = process.communicate(timeout=LIMIT_S)
        assert time.monotonic() - begin_s < 10
        assert process.returncode == code
        assert said.endswith("gradwire: interrupted\n")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("generation", "number", "how"),
    [
        (
            1,
            signal.SIGKILL,
            "was killed (SIGKILL), by a user or by the kernel because memory ran out (dmesg says which), so",
        ),
        (1, signal.SIGSTOP, "was stopped by a signal (process "),
        (2, signal.SIGKILL, "ended with exit code 1, so"),
        (2, signal.SIGSTOP, "was stopped by a signal (process "),
    ],
    ids=["unshare-killed", "unshare-stopped", "first-killed", "first-stopped"],
)
def test_a_script_whose_process_is_killed_or_stopped_ends_with_a_line_that_says_so(
    generation: int, number: signal.Signals, how: str, tmp_path: Path
) -> None:
    path = tmp_path / "script"
    path.write_text("h0 echo begun $((4 + 4)); sleep 600\n")
    process = subprocess.Popen([*UP, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout
        while "begun 8" not in (line := process.stdout.readline()):
            assert line, "it ended before"
        pid = process.pid
        for _ in range(generation):  # unshare, and the first process in its namespaces
            (pid,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        os.kill(pid, number)
        said, _ = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    last = said.splitlines()[-1]
    assert last.startswith("gradwire: the process of this network")
    assert how in last
    assert ", so the network was taken down: " in last
    assert last.endswith("run the command again")
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("octets", "said"), [(b"\xff\n", "not UTF-8 text"), (b"h0 true\n" * (1 << 18), "longer than the")]
)
def test_a_script_that_cannot_be_one_is_refused_before_anything_is_made(
    octets: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "script"
    path.write_bytes(octets)
    done = carried_out(str(path))
    assert done.returncode == 1
    assert said in done.stdout
    assert done.stdout.count("\n") == 1

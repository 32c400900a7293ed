"""`gradwire up --script`: commands for the prompt from a file, and every way to end early."""

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


@pytest.mark.parametrize("last", ["exit 3", "kill -9 $$"])
def test_a_script_goes_on_when_a_hosts_shell_ends(last: str, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(f"h0 {last}\nh1 echo one $((1 + 1))\nh0 echo another $((2 + 2))\nh0 ping -c1 -W5 h1\n")
    done = carried_out(str(path))
    assert done.returncode == 1
    assert f"1 command failed: line 1, h0 {last}: h0's shell ended" in done.stdout
    assert "one 2" in done.stdout
    assert "another 4" in done.stdout
    assert "1 received" in done.stdout
    assert "h0's shell ended" in done.stdout


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


def test_a_script_names_every_line_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(
        "h0 true\n# a remark\nh0 false\nnonsense\nh0 echo 'an open quote\nh0 ping -c1 -W1 10.0.9.9\n"
        "h0 ! false\nh0 sleep 600 &\nh0 kill $!\npy 1/0\npingall\n"
    )
    done = carried_out(str(path))
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert last == (
        f"gradwire: {path}: 5 commands failed: line 3, h0 false: exit code 1; "
        "line 4, nonsense: Unknown command: nonsense; "
        "line 5, h0 echo 'an open quote: exit code 2 and 2 more"
    )
    assert "0% dropped (2/2 received)" in done.stdout

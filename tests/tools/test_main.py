"""python -m tools: signals, and what happens outside a command."""

import signal
import subprocess
import sys

import pytest

# Stands for a command that has started something: it must be let to stop it.
COMMAND = """
import signal
import time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs in the background
import gradwire.tools.__main__ as entry
def main(arguments):
    try:
        print("started", flush=True)
        time.sleep(30)
    finally:
        print("stopped", flush=True)
entry.main = main
entry.run()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_down_what_was_started_and_is_130(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("stopped\n", "gradwire: interrupted\n", 130)


def test_an_error_outside_a_command_is_reported_too() -> None:
    code = "import gradwire.tools.__main__ as entry\nentry.main = lambda arguments: {}['x']\nentry.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("gradwire: this is a bug")

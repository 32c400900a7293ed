"""python -m tools: signals, and what happens outside a command."""

import shlex
import signal
import subprocess
import sys

import pytest

from gradwire.emu.interpreter import python
from gradwire.traces.shortages import NO_MEMORY

# Stands for a command that has started something: it must be let to stop it.
COMMAND = """
import signal
import time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs in the background
import gradwire.tools.__main__ as entry
def main(arguments):
    try:
        print("started", flush=True)
        for _ in range(300):  # a signal just before a sleep begins is heard when that is over
            time.sleep(0.1)
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


def test_a_crash_in_compiled_code_says_where() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSEGV)
        _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGSEGV
    assert err.startswith("Fatal Python error: Segmentation fault") and "in main" in err


def test_with_stderr_closed_a_command_runs() -> None:
    command = shlex.join([*python("gradwire.tools"), "fabric", "star:hosts=4"])
    done = subprocess.run(["sh", "-c", f"{command} 2>&-"], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 and "4" in done.stdout


def test_an_error_outside_a_command_is_reported_too() -> None:
    code = "import gradwire.tools.__main__ as entry\nentry.main = lambda arguments: {}['x']\nentry.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("gradwire: this is a bug")


@pytest.mark.long
@pytest.mark.parametrize("limit", ["-v 60000", "-v 100000", "-d 30000"])
def test_too_little_memory_for_numpy_ends_in_one_line(limit: str) -> None:
    """OpenBLAS would end the process with a line of its own, numpy with 30."""
    command = shlex.join([*python("gradwire.tools"), "fabric", "star:hosts=4"])
    done = subprocess.run(
        ["sh", "-c", f"ulimit {limit}; exec {command}"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", f"gradwire: {NO_MEMORY}\n", 1)


# As little as one thread of OpenBLAS needs; two need 123 MiB.
LITTLE = """
import resource
import gradwire.tools.__main__ as entry
def main(arguments):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, 2 * (pages * resource.getpagesize() + (100 << 20),))
    import numpy
entry.main = main
entry.run()
"""


@pytest.mark.long
def test_numpy_is_loaded_where_a_limit_has_room_for_one_thread_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", LITTLE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)

"""Files are read at once, and what comes of them is as if one had been read after the other."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Barrier, get_ident
from time import monotonic, sleep

import pytest

from gradwire.emu.interpreter import python
from gradwire.traces.threads import in_threads, n_at_once

TWO = n_at_once(2) == 2


@pytest.mark.skipif(not TWO, reason="needs two processors, and no limit of the address space")
def test_two_items_are_done_at_once_and_their_results_are_in_order() -> None:
    both = Barrier(2, timeout=10)

    def first_last(number: int) -> tuple[int, int]:
        both.wait()
        sleep(0.05 * (number == 0))
        return number, get_ident()

    (first, one), (second, other) = in_threads(first_last, [0, 1])
    assert (first, second) == (0, 1)
    assert one != other


def test_columns_are_taken_together_and_must_be_as_long() -> None:
    assert in_threads(pow, [2, 3, 4], [3, 2, 1]) == [8, 9, 4]
    assert in_threads(pow, [], []) == []
    with pytest.raises(ValueError, match="shorter"):
        in_threads(pow, [2, 3], [1])


def test_the_first_items_error_is_raised_also_if_it_comes_last_and_nothing_is_begun_after_one() -> None:
    begun = []

    def fail(number: int) -> None:
        begun.append(number)
        sleep(0.1 if number == 0 else 0.02)
        raise LookupError(number)

    with pytest.raises(LookupError) as raised:
        in_threads(fail, range(20))
    assert raised.value.args == (0,)
    assert len(begun) <= len(os.sched_getaffinity(0))


def test_a_process_with_a_limited_address_space_takes_one_after_the_other() -> None:
    code = (
        "import resource; from gradwire.traces.threads import n_at_once;"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)); print(n_at_once(8))"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "1\n"


@pytest.mark.skipif(not TWO, reason="needs two processors, and no limit of the address space")
def test_an_interrupt_does_not_wait_for_files_that_are_being_read(tmp_path: Path) -> None:
    pipes = [tmp_path / name for name in ("a.pcap", "b.pcap")]
    for pipe in pipes:
        os.mkfifo(pipe)
    command = python("gradwire.tools", "inspect", *map(str, pipes))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        ends = [opened(pipe) for pipe in pipes]  # both are being read, and nothing comes
        process.terminate()
        out, _ = process.communicate(timeout=10)
        for end in ends:
            os.close(end)
    assert process.returncode == 130
    assert b"Traceback" not in out


def opened(pipe: Path) -> int:
    """The end to write to, as soon as somebody reads."""
    deadline_s = monotonic() + 20
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert monotonic() < deadline_s, f"nobody reads {pipe}"
            sleep(0.02)

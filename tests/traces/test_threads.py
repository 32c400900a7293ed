"""Files are read by two threads, and what comes of them is as if one had been read after the other."""

import os
import resource
import signal
import subprocess
from _thread import interrupt_main
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread, Timer, get_ident
from time import monotonic, sleep

import pytest

from gradwire.emu.interpreter import python
from gradwire.traces import threads
from gradwire.traces.analysis.analysis import analyse_trace, to_json
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import BadCapture
from gradwire.traces.reader import open_captures
from gradwire.traces.threads import in_threads

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
has_two = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2 or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY,
    reason="needs two processors, and no limit of the address space",
)


@has_two
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
    assert len(begun) <= 2


@has_two
def test_nothing_is_begun_after_an_interrupt() -> None:
    begun = []

    def interrupted(number: int) -> None:
        begun.append(number)
        if get_ident() == main:
            raise KeyboardInterrupt
        sleep(0.05)

    main = get_ident()
    with pytest.raises(KeyboardInterrupt):
        in_threads(interrupted, range(100))
    sleep(0.3)
    assert len(begun) < 5


@pytest.mark.parametrize("why", ["no more threads", "a limited address space", "one processor"])
def test_one_thread_does_all_where_there_can_be_no_other(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    if why == "no more threads":
        monkeypatch.setattr(Thread, "start", refuse)
    elif why == "a limited address space":
        monkeypatch.setattr(threads, "left_by_limits_nbytes", lambda: 1 << 40)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert in_threads(lambda _: get_ident(), range(4)) == [get_ident()] * 4


@pytest.mark.parametrize("sample", ["ddp_gloo_8", "slow_ps_2srv_4wk_star20M"])
def test_two_threads_and_one_say_the_same_of_a_job(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_two = to_json(analyse_trace(open_captures([SAMPLES / sample]))[0])
    monkeypatch.setattr(threads, "_may_have_two", lambda: False)
    assert to_json(analyse_trace(open_captures([SAMPLES / sample]))[0]) == by_two


@has_two
def test_an_interrupt_does_not_wait_for_the_other_thread() -> None:
    begun, over = Event(), Event()

    def one_waits(_: int) -> None:
        if get_ident() == main:
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        over.wait(10)

    main = get_ident()
    before_s = monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_threads(one_waits, range(2))
    over.set()
    assert monotonic() - before_s < 5


def opened_for_writing(pipe: Path, reader: subprocess.Popen[bytes]) -> int:
    """Its descriptor, as soon as anybody reads it; fails if the reader ends before."""
    while reader.poll() is None:
        with suppress(OSError):  # ENXIO: nobody reads it
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        sleep(0.01)
    raise AssertionError(reader.communicate()[0])


def test_an_interrupt_ends_the_reading_of_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "a.pcap"
    os.mkfifo(pipe)
    command = python("gradwire.tools", "inspect", str(pipe))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        end = opened_for_writing(pipe, process)  # when it is read; nothing comes
        process.terminate()
        try:
            out, _ = process.communicate(timeout=10)
        finally:
            os.close(end)
    assert process.returncode == 130
    assert b"Traceback" not in out


def test_an_interrupt_just_before_the_reading_of_a_pipe_ends_it_too(tmp_path: Path) -> None:
    """Nothing breaks the read off then."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    pipe = tmp_path / "a.pcap"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    interrupt, hang_up = Timer(0.3, interrupt_main), Timer(8, os.close, [end])
    interrupt.start()
    hang_up.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            read_capture(pipe)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert hang_up.is_alive()
    hang_up.cancel()
    os.close(end)


def test_a_file_is_read_beside_a_thousand_open_ones(tmp_path: Path) -> None:
    """Each capture stays open as long as it is mapped; select() takes descriptors below 1,024 alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    pipe = tmp_path / "a.pcap"
    os.mkfifo(pipe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    others: list[int] = []
    try:
        while not others or others[-1] < 1024:
            others.append(os.open(os.devnull, os.O_RDONLY))
        end = os.open(pipe, os.O_RDWR)
        others.append(end)
        os.write(end, b"no capture")
        hang_up = Timer(0.3, os.close, [others.pop()])
        hang_up.start()
        with pytest.raises(BadCapture):
            read_capture(pipe)
    finally:
        for descriptor in others:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

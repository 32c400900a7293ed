"""How long each processor kept a run waiting: measured by a timer on each, ahead of all normal programs.

Such a timer is late only where a run's own processes cannot make it late: a real-time program is on its
processor, the processor handles interrupts, or it does not run at all, as a virtual machine's now and then.
"""

import gc
import mmap
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PERIOD_NS = 2_000_000
LEAST_NS = 500_000  # earlier than this a timer is in time
MAX_STALLS = 250_000  # of a timer, the latest; together they are two minutes at least
_PRIORITY = 1  # the lowest that is ahead of normal programs, so any real-time program delays the timer
_END_S = 2.0
_COUNT, _SEEN_NS, _REFUSED, _HEAD = 0, 1, 2, 3  # places in the shared memory, of 8 bytes each


class Timer:
    """What the timer of one processor writes into memory that it shares with the run."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, 8 * (_HEAD + 2 * MAX_STALLS))).cast("q")
        self._words[_SEEN_NS] = time.monotonic_ns()

    def keep(self, cpu: int) -> None:
        """Wake up every PERIOD_NS and note each time that this was late; without an end."""
        try:
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        except OSError:
            self._words[_REFUSED] = 1
            return
        while True:
            due_ns = time.monotonic_ns() + PERIOD_NS
            time.sleep(PERIOD_NS / 1e9)
            self.woke(due_ns, time.monotonic_ns())

    def woke(self, due_ns: int, now_ns: int) -> None:
        if now_ns - due_ns > LEAST_NS:
            count = self._words[_COUNT]
            place = _HEAD + 2 * (count % MAX_STALLS)
            self._words[place], self._words[place + 1] = due_ns, now_ns
            self._words[_COUNT] = count + 1
        self._words[_SEEN_NS] = now_ns

    def lost_s(self, start_ns: int, end_ns: int) -> float | None:
        """How long, of the time from start to end, it was late; None if it may not run ahead of others.

        A timer that has not come back from its last sleep is late until the end.
        """
        if self._words[_REFUSED]:
            return None
        seen_ns, count = self._words[_SEEN_NS], min(self._words[_COUNT], MAX_STALLS)
        noted = self._words[_HEAD : _HEAD + 2 * count].tolist()
        spans = [*zip(noted[::2], noted[1::2], strict=True)]
        if end_ns - seen_ns > PERIOD_NS + LEAST_NS:
            spans.append((seen_ns + PERIOD_NS, end_ns))
        return sum(max(0, min(b, end_ns) - max(a, start_ns)) for a, b in spans) / 1e9


class Stalls:
    """The timers of all processors that this process may use."""

    def __init__(self, timers: Sequence[Timer]) -> None:
        self._timers = timers

    def lost_s(self, start_ns: int, end_ns: int) -> tuple[float, ...]:
        """By processor; empty if timers may not run ahead of other programs, so that nothing is known."""
        lost = [timer.lost_s(start_ns, end_ns) for timer in self._timers]
        return tuple(each for each in lost if each is not None) if None not in lost else ()


@contextmanager
def timed() -> Iterator[Stalls]:
    """Timers on all processors for as long as this lasts, each a process of its own.

    Threads of one interpreter would wait for each other, and for whoever has its lock.
    """
    fork = multiprocessing.get_context("fork")
    timers: list[Timer] = []
    processes: list[Any] = []
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            timers.append(Timer())
            processes.append(fork.Process(target=_keep, args=(timers[-1], cpu), daemon=True))
            processes[-1].start()
        yield Stalls(timers)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join(_END_S)


def _keep(timer: Timer, cpu: int) -> None:
    gc.freeze()
    gc.disable()
    timer.keep(cpu)
    os._exit(0)

"""What every rank of a live job does besides training: it logs its events, and may slow itself down.

The log, `log.rN.json`, is the ground truth beside the job's capture.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradwire.traces.files import write_whole

_THREADS = Path("/proc/self/task")


class EventLog:
    """Events by the clock of the captures; in memory until the end, so that logging costs a microsecond.

    `waited` is the time that the threads of this process were ready to run but had no processor, added up
    over the threads, as a share of the time since the log began: 0.1 if one thread waited for a tenth of it.
    Threads that ended before `save` are not counted.  Where the kernel does not measure it, there is none.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._began_ns, self._delays_at_start_ns = time.monotonic_ns(), _run_delays_ns()

    def note(self, kind: str | int, iteration: int, **more: int) -> None:
        """`kind` happened in the iteration (-1: set-up); `more` are an event's own numbers."""
        self.events.append({"k": kind, "it": iteration, "t": time.time_ns(), **more})

    def save(self, path: Path, **about: Any) -> None:
        if delays_ns := _run_delays_ns():
            about["waited"] = round(self._waited_ns(delays_ns) / (time.monotonic_ns() - self._began_ns), 4)
        write_whole(path, json.dumps({**about, "events": self.events}) + "\n")

    def _waited_ns(self, delays_ns: Mapping[int, int]) -> int:
        """How long the threads in `delays_ns` have waited since the log began."""
        before_ns = self._delays_at_start_ns
        # The number of a thread that ended may be given to a new one, which has waited for less.
        return sum(max(0, delay_ns - before_ns.get(thread, 0)) for thread, delay_ns in delays_ns.items())


def _run_delays_ns() -> dict[int, int]:
    """How long each thread of this process has been ready to run without a processor: the second figure of
    /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), in which a kernel that does not
    measure it writes zeros.  Empty without such files.
    """
    delays_ns = {}
    for thread in os.listdir(_THREADS):
        # A thread may have ended just now, and some kernels have no such file.
        with suppress(FileNotFoundError, ProcessLookupError):
            ran_ns, delay_ns, _ = (_THREADS / thread / "schedstat").read_text().split()
            if ran_ns != "0":
                delays_ns[int(thread)] = int(delay_ns)
    return delays_ns


class Slowness:
    """`factor` times as long: after a piece of work that took t, `pause` sleeps for (factor - 1) t."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._since_s = time.monotonic()

    def begin(self) -> None:
        """Computing begins now."""
        self._since_s = time.monotonic()

    def pause(self) -> None:
        """Sleep for what was computed since the last `begin` or `pause`."""
        if self._factor > 1:
            time.sleep((self._factor - 1) * (time.monotonic() - self._since_s))
        self._since_s = time.monotonic()

"""What every rank of a live job does besides training: it logs its events, and may slow itself down.

The log, `log.rN.json`, is the ground truth beside the job's capture.
"""

import json
import time
from pathlib import Path
from typing import Any

from gradwire.traces.files import write_whole


class EventLog:
    """Events by the clock of the captures; in memory until the end, so that logging costs a microsecond.

    `waited` is how long the process's threads waited for a processor since the log began, together, as a
    share of that time: 0.1 where one of them did a tenth of it.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._since_ns, self._before_ns = time.monotonic_ns(), _run_delay_ns()

    def note(self, kind: str | int, iteration: int, **more: int) -> None:
        """`kind` happened in the iteration (-1: set-up); `more` are an event's own numbers."""
        self.events.append({"k": kind, "it": iteration, "t": time.time_ns(), **more})

    def save(self, path: Path, **about: Any) -> None:
        waited = (_run_delay_ns() - self._before_ns) / (time.monotonic_ns() - self._since_ns)
        write_whole(path, json.dumps({**about, "waited": round(waited, 4), "events": self.events}) + "\n")


def _run_delay_ns() -> int:
    """How long the threads that this process has now were runnable but did not run, together: the second
    figure of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
    """
    delays_ns = (int(path.read_text().split()[1]) for path in Path("/proc/self/task").glob("*/schedstat"))
    return sum(delays_ns)


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

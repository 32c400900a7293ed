"""What every rank of a live job does besides training: it logs its events, and may slow itself down.

The log, `log.rN.json`, is the ground truth beside the job's capture.
"""

import json
import time
from pathlib import Path
from typing import Any

from gradwire.traces.files import write_whole


class EventLog:
    """Events by the clock of the captures; in memory until the end, so that logging costs a microsecond."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def note(self, kind: str | int, iteration: int, **more: int) -> None:
        """`kind` happened in the iteration (-1: set-up); `more` are an event's own numbers."""
        self.events.append({"k": kind, "it": iteration, "t": time.time_ns(), **more})

    def save(self, path: Path, **about: Any) -> None:
        write_whole(path, json.dumps({**about, "events": self.events}) + "\n")


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

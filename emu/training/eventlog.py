"""A rank's own account of its job: the ground truth beside its capture, `log.rN.json`."""

import json
import time
from pathlib import Path
from typing import Any

from traces.files import write_whole


class EventLog:
    """Events by the clock of the captures; in memory until the end, so that logging costs a microsecond."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def note(self, kind: str | int, iteration: int, **more: int) -> None:
        """`kind` happened in the iteration (-1: set-up); `more` are an event's own numbers."""
        self.events.append({"k": kind, "it": iteration, "t": time.time_ns(), **more})

    def save(self, path: Path, **about: Any) -> None:
        write_whole(path, json.dumps({**about, "events": self.events}) + "\n")

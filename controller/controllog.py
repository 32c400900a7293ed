"""The control log: what the controller saw and did, as it happens, one JSON object per line."""

import json
import sys
import time
from pathlib import Path

from gradwire.traces.files import appended

_MOST_NOTES = 100  # lines on stderr about connections that no switch of ours made


class ControlLog:
    """Appends to a file, but not through a link; without a file, it only writes notes, on stderr."""

    def __init__(self, path: Path | None) -> None:
        self._file = appended(path) if path else None
        self._n_notes = 0

    def close(self) -> None:
        if self._file:
            self._file.close()

    def write(self, event: str, **values: object) -> None:
        """One line; `time_ns` is CLOCK_MONOTONIC."""
        if self._file:
            self._file.write(json.dumps({"time_ns": now_ns(), "event": event, **values}) + "\n")

    def note(self, text: str) -> None:
        """Log what is not a failure of ours but may help somebody, and print it on stderr: the first notes
        only.
        """
        self._n_notes += 1
        if self._n_notes <= _MOST_NOTES:
            self.write("note", text=text)
            print(f"controller: {text}", file=sys.stderr, flush=True)
        elif self._n_notes == _MOST_NOTES + 1:
            self.write("note", text="there are more of these notes; they are left out")


def now_ns() -> int:
    """CLOCK_MONOTONIC, in which a run's events are recorded."""
    return time.monotonic_ns()

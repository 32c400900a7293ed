"""A rank that computes more slowly: after each piece of computing it sleeps in proportion to it."""

import time


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

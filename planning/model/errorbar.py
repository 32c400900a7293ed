"""A predicted time with its error bar."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """A predicted time and its error bar, if it has one."""

    predicted_s: float
    low_s: float | None = None
    high_s: float | None = None

    @property
    def error(self) -> float | None:
        """How far the bar goes from the predicted time, as a share of that, on its longer side."""
        if self.low_s is None or self.high_s is None or not self.predicted_s:
            return None
        return max(self.high_s - self.predicted_s, self.predicted_s - self.low_s) / self.predicted_s

    def holds(self, time_s: float) -> bool:
        """Whether a time is inside the bar; anything is where there is none."""
        return self.low_s is None or self.high_s is None or self.low_s <= time_s <= self.high_s


@dataclass(frozen=True, slots=True)
class Expected(Bar):
    """The whole time of a run; `machine_share` of it is the time of this machine's processors, not of links.

    `iteration` and `exposed` are the same of an iteration and of what of it no computing hides, None without
    iterations.  `note` says what the capture leaves open widens the bar by; `doubt` says so where that is too
    much for a prediction.
    """

    machine_share: float | None = None
    iteration: Bar | None = None
    exposed: Bar | None = None
    note: str = ""
    doubt: str = ""

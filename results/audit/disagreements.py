"""Disagreements between a plan and a run's counters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["less", "more", "astray", "ends differ", "no flow's", "not counted", "saturated"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not agree.  `where` names a link, a flow at a switch, a sum at a switch, or a switch."""

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def off(
    where: str, off_nbytes: int, expected: int, spare: int, late_nbytes: float = 0.0
) -> Iterator[Finding]:
    """The finding at `where`, if any: `off_nbytes` is counted less expected bytes.

    Up to `late_nbytes` may be missing because they were not counted yet; up to `spare` more can be explained.
    """
    if off_nbytes < -late_nbytes:
        yield Finding("less", where, f"{-off_nbytes} bytes of {expected} were not counted there")
    elif off_nbytes > spare:
        yield Finding(
            "more", where, f"{off_nbytes} bytes more than the {expected} expected; {spare} can be explained"
        )

"""The rate that everything is compared with: told, or the fastest millisecond that was seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from traces.analysis.bursts import Burstiness

FINEST_NS = 1_000_000


@dataclass(frozen=True)
class LineRate:
    """`told`: somebody said so.  Else the fastest millisecond seen, in the captures, which the line rate can
    only be above; then `host`, `direction` and `at_ns` (from the trace's origin) say where and when.
    """

    bps: float
    told: bool
    host: str | None = None
    direction: str | None = None
    at_ns: int | None = None


def line_rate(told_bps: int | None, seen: Sequence[Burstiness]) -> LineRate | None:
    """None if nothing was told and nothing was seen."""
    if told_bps is not None:
        return LineRate(told_bps, told=True)
    finest = [one for one in seen if one.window_ns == FINEST_NS and one.peak_bps > 0]
    if not finest:
        return None
    best = max(finest, key=lambda one: one.peak_bps)
    return LineRate(
        best.peak_bps, told=False, host=best.host, direction=best.direction, at_ns=best.peak_at_ns
    )

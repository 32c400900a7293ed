"""The line rate: the rate of the hosts' links, with which everything is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradwire.traces.analysis.bottleneck import JobBound
from gradwire.traces.analysis.bounds import Bound
from gradwire.traces.analysis.spacing import TOLERANCE

Source = Literal["told", "fabric", "measured"]


@dataclass(frozen=True)
class FabricRates:
    """What is known of the fabric of a capture: its hosts, their fastest link, all rates that links have."""

    n_hosts: int
    hosts_bps: int
    all_bps: tuple[int, ...]


@dataclass(frozen=True)
class LineRate:
    """`source`: "told", given by the user; of the "fabric" that the capture was made on; or "measured": the
    fastest rate at which packets of a host show a link, at `host` in `direction`, if a link bounded the job.
    """

    bps: float
    source: Source
    host: str | None = None
    direction: str | None = None

    @property
    def is_known(self) -> bool:
        return self.source != "measured"

    @property
    def most_bps(self) -> float:
        """What no transfer can exceed, given how well the rate is known."""
        return self.bps if self.is_known else self.bps * (1 + TOLERANCE)


def line_rate(
    given_bps: int | None, fabric: FabricRates | None, bounds: Sequence[Bound], of_job: JobBound
) -> LineRate | None:
    """None if nothing is known and no link bounded the job: then no capture shows a link's rate."""
    if given_bps is not None:
        return LineRate(given_bps, "told")
    if fabric is not None:
        return LineRate(fabric.hosts_bps, "fabric")
    links = [(one.rate_bps, one) for one in bounds if one.bound == "link" and one.rate_bps is not None]
    if of_job.bound != "link" or not links:
        return None
    bps, best = max(links, key=lambda one: one[0])
    return LineRate(bps, "measured", host=best.host, direction=best.direction)

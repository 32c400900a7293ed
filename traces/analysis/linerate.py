"""The line rate: the rate of the hosts' links, with which everything is compared.

Where a link further along the path is slower, it shows in how fast a host's packets were acknowledged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradwire.traces.analysis.bottleneck import JobBound
from gradwire.traces.analysis.bounds import Bound
from gradwire.traces.analysis.bursts import Series
from gradwire.traces.analysis.flows import origin
from gradwire.traces.analysis.spacing import HEADER_NBYTES, TOLERANCE
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import by_direction, own_address
from gradwire.traces.packets.packets import ACK, SYN, Packets
from gradwire.traces.trace import Trace

Source = Literal["told", "fabric", "measured"]
MOST_NBYTES = 1 << 26  # in one acknowledgement: TCP's windows are at most 1 GiB, those of training far below


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


def own_hosts(trace: Trace) -> frozenset[str]:
    """The hosts that were captured at themselves; none in captures of a switch."""
    owners = {own_address(packets) for packets in trace.captures}
    return frozenset(owner for owner in owners if owner is not None)


def acknowledged(trace: Trace) -> tuple[Series, ...]:
    """For each host captured at itself what was acknowledged of what it sent, each byte once: one entry for
    each acknowledgement of anything new, as a packet that carries as much, at the time when it came back.
    """
    origin_ns = origin(trace)
    found = []
    for host in trace.addresses:
        parts = [
            part
            for packets in trace.captures
            if own_address(packets) == host
            for part in _of_host(packets, host)
        ]
        if parts:
            time_ns = np.concatenate([times for times, _ in parts])
            nbytes = np.concatenate([some for _, some in parts])
            order = np.argsort(time_ns, kind="stable")
            found.append(Series(host, "out", time_ns[order] - origin_ns, nbytes[order] + HEADER_NBYTES))
    return tuple(found)


def _of_host(packets: Packets, host: str) -> Iterator[tuple[Ints, Ints]]:
    """Of each connection when something new was acknowledged, and how many bytes."""
    (rows_of,) = by_direction([packets])
    for direction, rows in rows_of.items():
        if direction.dst != host:
            continue
        answers = rows[packets.flags[rows] & (ACK | SYN) == ACK]
        steps = np.diff(packets.ack[answers]).astype(np.int32).astype(np.int64)  # numbers wrap around
        reached = np.maximum.accumulate(np.concatenate([np.zeros(1, np.int64), np.cumsum(steps)]))
        new = np.diff(reached)
        is_new = (new > 0) & (new <= MOST_NBYTES)
        if is_new.any():
            yield packets.time_ns[answers[1:]][is_new], new[is_new]


def of_hosts(series: Sequence[Series], hosts: frozenset[str]) -> tuple[Series, ...]:
    """Those of the given hosts; all of them if none is given."""
    return tuple(one for one in series if not hosts or one.host in hosts)

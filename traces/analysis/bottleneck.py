"""Which link bounded each host, and which the job: the rate that was held longest."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from gradwire.traces.analysis.bounds import LEAST_BOUND, Bound, HeldBound, What
from gradwire.traces.analysis.spacing import SAME, TOLERANCE, is_near, weighted_median
from gradwire.traces.units import show_bps

MOSTLY = 0.5  # of the time in flight: only the words differ, "it" or "part of it"


@dataclass(frozen=True)
class HostBound:
    """Which link bounded a host: of what it shows, either way, the one held longest.

    `rate_bps` is the rate of a link on its packets' way ("link"), or of a link at another host, `limited_at`,
    of which this one had a share ("share"); None of "unknown" and "none".
    """

    host: str
    bound: What
    rate_bps: float | None
    limited_at: str | None
    held_share: float
    evidence: str


@dataclass(frozen=True)
class JobBound:
    """Which link bounded the job: the rate held longest at a host, whichever way its packets went.

    `bound` is never "share"; `rate_bps`, `uncertainty` and `host` are None unless it is "link".
    `held_share` is of the host's time in flight.  `evidence` is a sentence without its full stop.
    """

    bound: What
    rate_bps: float | None
    uncertainty: float | None
    host: str | None
    held_share: float
    evidence: str


def host_bounds(bounds: Sequence[Bound]) -> tuple[HostBound, ...]:
    """The bound of each host; a rate held for less than a fifth of its time bounded nothing."""
    hosts = dict.fromkeys(bound.host for bound in bounds)
    return tuple(_of_host(host, [bound for bound in bounds if bound.host == host]) for host in hosts)


def job_bound(rates: Sequence[HeldBound], known_bps: Collection[int] = (), n_hosts: int = 1) -> JobBound:
    """The link that was full longest.

    `known_bps` are all rates that links of the fabric have, if those are known, and `n_hosts` how many can
    share one: a rate below a fair share of the slowest link was set by no link.
    """
    least_bps = min(known_bps, default=0) / n_hosts
    links = [rate for rate in rates if rate.bound.bound == "link"]
    unsure = [
        rate.bound
        for rate in rates
        if rate.bound.bound == "unknown" and (rate.bound.rate_bps or 0.0) >= least_bps * (1 - TOLERANCE)
    ]
    best = max(
        ((_held_share(rate, links), rate.bound) for rate in links), key=lambda one: one[0], default=None
    )
    if best is not None and best[0] >= LEAST_BOUND:
        share, bound = best
        much = "it" if share >= MOSTLY else "part of it"
        rate_bps = _usual_bps(bound.rate_bps or 0.0, [rate.bound for rate in links])
        shown = show_bps(rate_bps)
        return JobBound(
            bound="link",
            rate_bps=rate_bps,
            uncertainty=bound.uncertainty,
            host=bound.host,
            held_share=share,
            evidence=(
                f"a link of about {shown} bounded {much}: that rate was held {share:.0%} of the time in "
                f"flight at {bound.host}"
            ),
        )
    longest = max(unsure, key=lambda bound: bound.held_share, default=None)
    if longest is not None and longest.held_share >= LEAST_BOUND:
        where = f"{longest.direction} at {longest.host}"
        why = f"it is unclear whether a link bounded it: {where}, {longest.evidence}"
        return JobBound("unknown", None, None, None, longest.held_share, why)
    if all(rate.bound.bound == "none" and not rate.bound.in_flight_ns for rate in rates):
        why = "it is unclear whether a link bounded it: there are too few large packets"
        return JobBound("unknown", None, None, None, 0.0, why)
    why = "no link bounded it: no rate that a link would set was held"
    if best is not None:
        share, bound = best
        why = (
            f"no link bounded it: the one of about {show_bps(bound.rate_bps or 0.0)} at {bound.host} was "
            f"full only {share:.0%} of the time in flight"
        )
    return JobBound("none", None, None, None, best[0] if best else 0.0, why)


def _of_host(host: str, bounds: Sequence[Bound]) -> HostBound:
    long = [bound for bound in bounds if bound.held_share >= LEAST_BOUND]
    known = [bound for bound in long if bound.limit_bps is not None]
    best = max(known or long, key=lambda bound: bound.held_share, default=None)
    if best is None:
        most = max((bound.held_share for bound in bounds), default=0.0)
        return HostBound(host, "none", None, None, most, "no rate that a link would set was held for long")
    return HostBound(host, best.bound, best.limit_bps, best.limited_at, best.held_share, best.evidence)


def _usual_bps(rate_bps: float, links: Sequence[Bound]) -> float:
    """Links of one kind read a little differently: the median of those near the rate, by bytes spaced so."""
    near = [one for one in links if abs(log((one.rate_bps or 1.0) / rate_bps)) <= SAME / 2]
    rates = np.array([one.rate_bps for one in near], np.float64)
    return weighted_median(rates, np.array([one.dispersed_share for one in near], np.float64))


def _held_share(rate: HeldBound, links: Sequence[HeldBound]) -> float:
    """How much of its host's time in flight the rate was held in either direction."""
    rate_bps = rate.bound.rate_bps or 0.0
    same = [
        other.held
        for other in links
        if other.bound.host == rate.bound.host and is_near(np.array([other.bound.rate_bps]), rate_bps).all()
    ]
    held = np.concatenate(same)
    held = held[np.argsort(held[:, 0])]
    ends = np.maximum.accumulate(held[:, 1])
    before = np.concatenate([held[:1, 0], ends[:-1]])
    held_ns = np.maximum(0, held[:, 1] - np.maximum(held[:, 0], before)).sum()
    return min(1.0, float(held_ns) / rate.bound.in_flight_ns)

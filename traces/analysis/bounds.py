"""The rates that a host's packets show, each with what set it: a link, or a share of another host's link.

A link is shown where `traces.analysis.spacing`'s two signs agree.  What a host sends is seen before it has
crossed any but the host's own link, so a slower link on its way shows in the acknowledgements that come back:
these are looked at like packets of as many bytes as they acknowledge.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Literal, NamedTuple

import numpy as np

from gradwire.traces.analysis.bursts import Series, Way
from gradwire.traces.analysis.spacing import (
    LARGE_NBYTES,
    REST,
    SAME,
    TOLERANCE,
    ShownRate,
    look,
    shown_rates,
)
from gradwire.traces.packets.cover import Ints
from gradwire.traces.threads import in_threads
from gradwire.traces.units import show_bps

What = Literal["link", "share", "none", "unknown"]

LEAST_BOUND = 0.2  # of the time in flight: a rate held for less bounded nothing
WHILE_FULL = 0.6  # of the time in which a rate was held: then what was full is what set it
IN_FLIGHT_NS = 20_000_000  # a host's longer silence is not a flight, but a rest


@dataclass(frozen=True)
class Bound:
    """A rate that packets of `host` in one `direction` show, or None of any.

    `bound` is "link" where spacing and plateaus agree; "share" where the rate was held while a faster link
    at another host was full the other way (so the host is bound there); "unknown" where packets held a rate
    that their spacing does not show (a shaper, a window, a link far away), or that no link of a known fabric
    has; "none" where no rate was held.
    `rate_bps` counts frames and is known to within `uncertainty` (a share of it).  `dispersed_share` is the
    part of the bytes spaced so, `held_share` the part of the time in flight (`in_flight_ns`: what is left
    without the host's rests) in which the rate was held.  `utilisation` is the bytes in flight over what
    the rate carries in that time; None unless it is the fastest held there: a link that all bytes crossed.
    `limit_bps` is the rate of the link that set it, at `limited_at`: for a share the other host's.
    """

    host: str
    direction: Way
    bound: What
    rate_bps: float | None
    uncertainty: float | None
    dispersed_share: float
    held_share: float
    utilisation: float | None
    in_flight_ns: int
    evidence: str
    limit_bps: float | None = None
    limited_at: str | None = None


class HeldBound(NamedTuple):
    """A Bound, and when its rate was held: rows of begin and end."""

    bound: Bound
    held: Ints


def held_bounds(
    series: Sequence[Series],
    known_bps: Collection[int] = (),
    most_bps: float = inf,
    acknowledged: Sequence[Series] = (),
) -> tuple[HeldBound, ...]:
    """For each host and direction the rates that both signs show, the one held longest first, or one Bound
    that says what is missing.

    `known_bps` are all rates that links of the fabric have, if those are known; `most_bps` is the rate of the
    hosts' links: what is seen and cannot be is "unknown".  `acknowledged` is what came back of what hosts
    sent: it adds links that are not next to the host.
    """
    busy: dict[str, list[Ints]] = {}
    for one in (*series, *acknowledged):
        busy.setdefault(one.host, []).append(one.time_ns[one.nbytes >= LARGE_NBYTES])
    moving = {host: np.sort(np.concatenate(times)) for host, times in busy.items()}
    found = in_threads(lambda one: [*_bounds(one, moving[one.host])], series)
    seen = [rate for rates in found for rate in rates]
    for one in acknowledged:
        seen = _with_links(seen, [_far_away(rate) for rate in _bounds(one, moving[one.host])])
    possible = [_possible(rate, known_bps, most_bps) for rate in seen]
    return tuple(_shared(rate, possible) for rate in possible)


def _bounds(one: Series, moving_ns: Ints) -> Iterator[HeldBound]:
    sight = look(one)
    if sight is None:
        yield _nothing(one, 0, "too few large packets for a rate")
        return
    held = shown_rates(sight)
    links = [rate for rate in held if rate.is_dispersed]
    if not held:
        in_flight_ns = _in_flight_ns(moving_ns, IN_FLIGHT_NS)
        yield _nothing(one, in_flight_ns, "no rate was held by trains of packets")
        return
    fastest = max(rate.rate_bps for rate in held)
    others = [rate for rate in held[:1] if not rate.is_dispersed]
    flights, moved_nbytes = {}, {}
    for rate in [*others, *links]:
        rest_ns = max(IN_FLIGHT_NS, int(REST * sight.longest_nbytes * 8e9 / rate.rate_bps))
        moved_nbytes[rate.rate_bps] = float(sight.pair_nbytes[sight.spacing_ns <= rest_ns].sum())
        flights[rate.rate_bps] = max(_in_flight_ns(moving_ns, rest_ns), int(rate.held_ns))
    if any(rate.held_ns >= LEAST_BOUND * flights[rate.rate_bps] for rate in links):
        others = []  # the mean of a link that is full and one that rests
    for rate in [*others, *links]:
        in_flight_ns = flights[rate.rate_bps]
        utilisation = moved_nbytes[rate.rate_bps] * 8e9 / (rate.rate_bps * in_flight_ns)
        yield _bound(one, rate, in_flight_ns, utilisation if rate.rate_bps == fastest else None)


def _far_away(rate: HeldBound) -> HeldBound:
    evidence = f"by the acknowledgements, {rate.bound.evidence}"
    return rate._replace(bound=replace(rate.bound, utilisation=None, evidence=evidence))


def _with_links(seen: Sequence[HeldBound], others: Sequence[HeldBound]) -> list[HeldBound]:
    """`others`' links beside what was `seen` of the host, in place of what that was not sure of."""
    kept = list(seen)
    for other in others:
        if other.bound.bound != "link":
            continue
        same = [rate for rate in kept if _is_same_way(rate, other) and _is_one_rate(rate, other)]
        if any(rate.bound.bound == "link" for rate in same):
            continue
        empty = [rate for rate in kept if _is_same_way(rate, other) and rate.bound.bound == "none"]
        kept = [rate for rate in kept if not any(rate is one for one in (*same, *empty))]
        kept.append(other)
    return kept


def _is_same_way(rate: HeldBound, other: HeldBound) -> bool:
    return (rate.bound.host, rate.bound.direction) == (other.bound.host, other.bound.direction)


def _is_one_rate(rate: HeldBound, other: HeldBound) -> bool:
    if rate.bound.rate_bps is None or other.bound.rate_bps is None:
        return False
    return abs(log(rate.bound.rate_bps / other.bound.rate_bps)) <= SAME


def _in_flight_ns(time_ns: Ints, rest_ns: int) -> int:
    spacing = np.diff(time_ns)
    return int(spacing[spacing <= rest_ns].sum())


def _bound(one: Series, rate: ShownRate, in_flight_ns: int, utilisation: float | None) -> HeldBound:
    """A link, if its rate explains all bytes that crossed it."""
    what: What = "link" if rate.is_dispersed else "unknown"
    shown = show_bps(rate.rate_bps)
    evidence = (
        f"{rate.dispersed_share:.0%} of the bytes are spaced as a link of {shown} spaces them, "
        f"and trains of packets move {rate.held_share:.0%} of the bytes at that rate"
    )
    if not rate.is_dispersed:
        evidence = (
            f"trains of packets move {rate.held_share:.0%} of the bytes at about {shown}, "
            f"but only {rate.dispersed_share:.0%} are spaced as a link of that rate spaces them"
        )
    if utilisation is not None and utilisation > 1 + max(TOLERANCE, rate.uncertainty):
        what = "unknown"
        evidence = f"{evidence}; yet more was carried than such a link carries"
    bound = Bound(
        host=one.host,
        direction=one.direction,
        bound=what,
        rate_bps=rate.rate_bps,
        uncertainty=rate.uncertainty if what == "link" else None,
        dispersed_share=rate.dispersed_share,
        held_share=rate.held_ns / in_flight_ns,
        utilisation=min(1.0, utilisation) if utilisation is not None and what == "link" else None,
        in_flight_ns=in_flight_ns,
        evidence=evidence,
        limit_bps=rate.rate_bps if what == "link" else None,
        limited_at=one.host if what == "link" else None,
    )
    return HeldBound(bound, rate.held)


def _possible(rate: HeldBound, known_bps: Collection[int], most_bps: float) -> HeldBound:
    """A link's rate only if there can be such a link."""
    bound = rate.bound
    if bound.bound != "link" or bound.rate_bps is None:
        return rate
    if bound.rate_bps > most_bps * (1 + TOLERANCE):
        why = (
            f"yet no host's link is faster than {show_bps(most_bps)}: that reading is an error of gradwire's"
        )
    elif known_bps and not _is_one_of(bound.rate_bps, known_bps):
        why = "yet the fabric has no link of that rate"
    else:
        return rate
    unsure = replace(
        bound,
        bound="unknown",
        uncertainty=None,
        utilisation=None,
        evidence=f"{bound.evidence}; {why}",
        limit_bps=None,
        limited_at=None,
    )
    return rate._replace(bound=unsure)


def _is_one_of(rate_bps: float, known_bps: Collection[int]) -> bool:
    return any(abs(log(rate_bps / known)) <= SAME / 2 for known in known_bps)


def _shared(rate: HeldBound, others: Sequence[HeldBound]) -> HeldBound:
    """A share of a faster link, if one at another host was full, the other way, while the rate was held."""
    bound = rate.bound
    if bound.bound not in ("link", "unknown") or bound.rate_bps is None:
        return rate
    held_ns = int((rate.held[:, 1] - rate.held[:, 0]).sum())
    full = [
        (_common_ns(rate.held, other.held), other.bound)
        for other in others
        if other.bound.bound == "link"
        and other.bound.host != bound.host
        and other.bound.direction != bound.direction
        and (other.bound.rate_bps or 0.0) > bound.rate_bps * exp(SAME)
    ]
    common_ns, where = max(full, key=lambda one: one[0], default=(0, bound))
    if common_ns < WHILE_FULL * held_ns or not held_ns:
        return rate
    evidence = (
        f"trains of packets held {show_bps(bound.rate_bps)} while the link of about "
        f"{show_bps(where.rate_bps or 0.0)} at {where.host} was full ({where.direction})"
    )
    share = replace(
        bound,
        bound="share",
        uncertainty=None,
        utilisation=None,
        evidence=evidence,
        limit_bps=where.rate_bps,
        limited_at=where.host,
    )
    return rate._replace(bound=share)


def _common_ns(some: Ints, others: Ints) -> int:
    """How long both were held; intervals of each are disjoint and ascending."""
    if not len(some) or not len(others):
        return 0
    before = np.concatenate([[0], np.cumsum(others[:, 1] - others[:, 0])])

    def until(ns: Ints) -> Ints:
        place = np.searchsorted(others[:, 0], ns, "right")
        over = np.where(place > 0, np.maximum(0, others[place - 1, 1] - ns), 0)
        return np.asarray(before[place] - over, np.int64)

    return int((until(some[:, 1]) - until(some[:, 0])).sum())


def _nothing(one: Series, in_flight_ns: int, evidence: str) -> HeldBound:
    bound = Bound(one.host, one.direction, "none", None, None, 0.0, 0.0, None, in_flight_ns, evidence)
    return HeldBound(bound, np.empty((0, 2), np.int64))

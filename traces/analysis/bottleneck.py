"""The link rate that each host's packets show: from their spacing, and from rates that held for a while.

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
    is_near,
    look,
    shown_rates,
    weighted_median,
)
from gradwire.traces.packets.cover import Ints
from gradwire.traces.units import show_bps

What = Literal["link", "share", "none", "unknown"]

LEAST_BOUND = 0.2  # of the time in flight: a rate held for less bounded nothing
MOSTLY = 0.5  # of the time in flight: only the words differ, "it" or "part of it"
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


class _Rest(NamedTuple):
    """What the job's verdict needs of one Bound besides what it says: when the rate was held."""

    bound: Bound
    held: Ints  # rows of begin and end


def bounds(
    series: Sequence[Series],
    known_bps: Collection[int] = (),
    most_bps: float = inf,
    n_hosts: int = 1,
    acknowledged: Sequence[Series] = (),
) -> tuple[tuple[Bound, ...], JobBound]:
    """For each host and direction the rates that both signs show, the one held longest first, or one Bound
    that says what is missing; and what they say of the job.

    `known_bps` are all rates that links of the fabric have, if those are known, and `n_hosts` how many can
    share one; `most_bps` is the rate of the hosts' links: what is seen and cannot be is "unknown".
    `acknowledged` is what came back of what hosts sent: it adds links that are not next to the host.
    """
    busy: dict[str, list[Ints]] = {}
    for one in (*series, *acknowledged):
        busy.setdefault(one.host, []).append(one.time_ns[one.nbytes >= LARGE_NBYTES])
    moving = {host: np.sort(np.concatenate(times)) for host, times in busy.items()}
    seen = [rest for one in series for rest in _bounds(one, moving[one.host])]
    for one in acknowledged:
        seen = _with_links(seen, [_far_away(rest) for rest in _bounds(one, moving[one.host])])
    possible = [_possible(rest, known_bps, most_bps) for rest in seen]
    found = [_shared(rest, possible) for rest in possible]
    return tuple(rest.bound for rest in found), _of_job(found, min(known_bps, default=0) / n_hosts)


def host_bounds(found: Sequence[Bound]) -> tuple[HostBound, ...]:
    """What `bounds` come to for each host; a rate held for less than a fifth of its time bounded nothing."""
    hosts = dict.fromkeys(bound.host for bound in found)
    return tuple(_of_host(host, [bound for bound in found if bound.host == host]) for host in hosts)


def _of_host(host: str, found: Sequence[Bound]) -> HostBound:
    long = [bound for bound in found if bound.held_share >= LEAST_BOUND]
    known = [bound for bound in long if bound.limit_bps is not None]
    best = max(known or long, key=lambda bound: bound.held_share, default=None)
    if best is None:
        most = max((bound.held_share for bound in found), default=0.0)
        return HostBound(host, "none", None, None, most, "no rate that a link would set was held for long")
    return HostBound(host, best.bound, best.limit_bps, best.limited_at, best.held_share, best.evidence)


def _bounds(one: Series, moving_ns: Ints) -> Iterator[_Rest]:
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


def _far_away(rest: _Rest) -> _Rest:
    evidence = f"by the acknowledgements, {rest.bound.evidence}"
    return rest._replace(bound=replace(rest.bound, utilisation=None, evidence=evidence))


def _with_links(seen: Sequence[_Rest], others: Sequence[_Rest]) -> list[_Rest]:
    """`others`' links beside what was `seen` of the host, in place of what that was not sure of."""
    found = list(seen)
    for other in others:
        if other.bound.bound != "link":
            continue
        same = [rest for rest in found if _is_same_way(rest, other) and _is_one_rate(rest, other)]
        if any(rest.bound.bound == "link" for rest in same):
            continue
        empty = [rest for rest in found if _is_same_way(rest, other) and rest.bound.bound == "none"]
        found = [rest for rest in found if not any(rest is one for one in (*same, *empty))]
        found.append(other)
    return found


def _is_same_way(rest: _Rest, other: _Rest) -> bool:
    return (rest.bound.host, rest.bound.direction) == (other.bound.host, other.bound.direction)


def _is_one_rate(rest: _Rest, other: _Rest) -> bool:
    if rest.bound.rate_bps is None or other.bound.rate_bps is None:
        return False
    return abs(log(rest.bound.rate_bps / other.bound.rate_bps)) <= SAME


def _in_flight_ns(time_ns: Ints, rest_ns: int) -> int:
    spacing = np.diff(time_ns)
    return int(spacing[spacing <= rest_ns].sum())


def _bound(one: Series, found: ShownRate, in_flight_ns: int, utilisation: float | None) -> _Rest:
    """A link, if its rate explains all bytes that crossed it."""
    what: What = "link" if found.is_dispersed else "unknown"
    shown = show_bps(found.rate_bps)
    evidence = (
        f"{found.dispersed_share:.0%} of the bytes are spaced as a link of {shown} spaces them, "
        f"and trains of packets move {found.held_share:.0%} of the bytes at that rate"
    )
    if not found.is_dispersed:
        evidence = (
            f"trains of packets move {found.held_share:.0%} of the bytes at about {shown}, "
            f"but only {found.dispersed_share:.0%} are spaced as a link of that rate spaces them"
        )
    if utilisation is not None and utilisation > 1 + max(TOLERANCE, found.uncertainty):
        what = "unknown"
        evidence = f"{evidence}; yet more was carried than such a link carries"
    bound = Bound(
        host=one.host,
        direction=one.direction,
        bound=what,
        rate_bps=found.rate_bps,
        uncertainty=found.uncertainty if what == "link" else None,
        dispersed_share=found.dispersed_share,
        held_share=found.held_ns / in_flight_ns,
        utilisation=min(1.0, utilisation) if utilisation is not None and what == "link" else None,
        in_flight_ns=in_flight_ns,
        evidence=evidence,
        limit_bps=found.rate_bps if what == "link" else None,
        limited_at=one.host if what == "link" else None,
    )
    return _Rest(bound, found.held)


def _possible(rest: _Rest, known_bps: Collection[int], most_bps: float) -> _Rest:
    """A link's rate only if there can be such a link."""
    bound = rest.bound
    if bound.bound != "link" or bound.rate_bps is None:
        return rest
    if bound.rate_bps > most_bps * (1 + TOLERANCE):
        why = (
            f"yet no host's link is faster than {show_bps(most_bps)}: that reading is an error of gradwire's"
        )
    elif known_bps and not _is_one_of(bound.rate_bps, known_bps):
        why = "yet the fabric has no link of that rate"
    else:
        return rest
    unsure = replace(
        bound,
        bound="unknown",
        uncertainty=None,
        utilisation=None,
        evidence=f"{bound.evidence}; {why}",
        limit_bps=None,
        limited_at=None,
    )
    return rest._replace(bound=unsure)


def _is_one_of(rate_bps: float, known_bps: Collection[int]) -> bool:
    return any(abs(log(rate_bps / known)) <= SAME / 2 for known in known_bps)


def _shared(rest: _Rest, others: Sequence[_Rest]) -> _Rest:
    """A share of a faster link, if one at another host was full, the other way, while the rate was held."""
    bound = rest.bound
    if bound.bound not in ("link", "unknown") or bound.rate_bps is None:
        return rest
    held_ns = int((rest.held[:, 1] - rest.held[:, 0]).sum())
    full = [
        (_common_ns(rest.held, other.held), other.bound)
        for other in others
        if other.bound.bound == "link"
        and other.bound.host != bound.host
        and other.bound.direction != bound.direction
        and (other.bound.rate_bps or 0.0) > bound.rate_bps * exp(SAME)
    ]
    common_ns, where = max(full, key=lambda one: one[0], default=(0, bound))
    if common_ns < WHILE_FULL * held_ns or not held_ns:
        return rest
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
    return rest._replace(bound=share)


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


def _nothing(one: Series, in_flight_ns: int, evidence: str) -> _Rest:
    bound = Bound(one.host, one.direction, "none", None, None, 0.0, 0.0, None, in_flight_ns, evidence)
    return _Rest(bound, np.empty((0, 2), np.int64))


def _of_job(found: Sequence[_Rest], least_bps: float) -> JobBound:
    """A rate below `least_bps`, a fair share of the slowest link of all hosts, was set by no link."""
    links = [rest for rest in found if rest.bound.bound == "link"]
    unsure = [
        rest.bound
        for rest in found
        if rest.bound.bound == "unknown" and (rest.bound.rate_bps or 0.0) >= least_bps * (1 - TOLERANCE)
    ]
    best = max(
        ((_held_share(rest, links), rest.bound) for rest in links), key=lambda one: one[0], default=None
    )
    if best is not None and best[0] >= LEAST_BOUND:
        share, bound = best
        much = "it" if share >= MOSTLY else "part of it"
        rate_bps = _usual_bps(bound.rate_bps or 0.0, [rest.bound for rest in links])
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
        why = f"whether a link bounded it could not be told: {where}, {longest.evidence}"
        return JobBound("unknown", None, None, None, longest.held_share, why)
    if all(rest.bound.bound == "none" and not rest.bound.in_flight_ns for rest in found):
        why = "whether a link bounded it could not be told: there are too few large packets"
        return JobBound("unknown", None, None, None, 0.0, why)
    why = "no link bounded it: no rate that a link would set was held"
    if best is not None:
        share, bound = best
        why = (
            f"no link bounded it: the one of about {show_bps(bound.rate_bps or 0.0)} at {bound.host} was "
            f"full only {share:.0%} of the time in flight"
        )
    return JobBound("none", None, None, None, best[0] if best else 0.0, why)


def _usual_bps(rate_bps: float, links: Sequence[Bound]) -> float:
    """Links of one kind read a little differently: the median of those near the rate, by bytes spaced so."""
    near = [one for one in links if abs(log((one.rate_bps or 1.0) / rate_bps)) <= SAME / 2]
    rates = np.array([one.rate_bps for one in near], np.float64)
    return weighted_median(rates, np.array([one.dispersed_share for one in near], np.float64))


def _held_share(rest: _Rest, links: Sequence[_Rest]) -> float:
    """How much of its host's time in flight the rate was held in either direction."""
    rate_bps = rest.bound.rate_bps or 0.0
    same = [
        other.held
        for other in links
        if other.bound.host == rest.bound.host and is_near(np.array([other.bound.rate_bps]), rate_bps).all()
    ]
    held = np.concatenate(same)
    held = held[np.argsort(held[:, 0])]
    ends = np.maximum.accumulate(held[:, 1])
    before = np.concatenate([held[:1, 0], ends[:-1]])
    held_ns = np.maximum(0, held[:, 1] - np.maximum(held[:, 0], before)).sum()
    return min(1.0, float(held_ns) / rest.bound.in_flight_ns)

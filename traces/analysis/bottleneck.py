"""Which link's rate the packets of each host show: from their spacing, and from how long a rate was held.

Two signs that must agree.  *Dispersion*: a link that is the slowest on a packet's way leaves each packet so
far from the next as it takes to send it, so many pairs of neighbours have one quotient of size over spacing
(packet pairs: Keshav, "A control-theoretic approach to flow control", 1991; pairs against trains: Dovrolis,
Ramanathan, Moore, "What do packet dispersion techniques measure?", 2001).  *Plateaus*: trains of packets
over 2 to 50 ms move at that rate, without a rest in them.  Spacing alone can be made by a processor, or by
the first packets of a burst that a shaper lets through; a rate alone by a window or by the application.

Rates count frames as a link with an MTU of 1500 bytes carries them, without preamble, checksum and gap
between frames: with segmentation offload a capture holds up to 64 KB as one packet, which costs its headers
once for each segment.  A link that counts such a packet's headers once only (a token bucket, by its length)
reads up to 5 % above its nominal rate.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from traces.analysis.bursts import Series, Way
from traces.packets.cover import Ints
from traces.units import show_bps

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
What = Literal["link", "share", "none", "unknown"]

HEADER_NBYTES = 66  # Ethernet, IPv4, TCP with time stamps
SEGMENT_NBYTES = 1448  # what a frame of an MTU of 1500 carries beside them
LARGE_NBYTES = 1000  # smaller packets are counted, but how they are spaced says nothing
TRAIN_NS = (2_000_000, 10_000_000, 20_000_000, 50_000_000)
TRAIN_PACKETS = 3  # of the largest size, at least
TOLERANCE = 0.05  # how far spacing and plateaus of one link may be apart
SAME = 0.16  # rates nearer than this are one link's: shapers save up what they then send faster
REST = 3.0  # times of the largest packet: a longer silence ends a train
LEAST_SPACING_NS = 5_000  # a host's own time per packet: closer packets say nothing of a link
LEAST_DISPERSED = 0.15  # of the bytes
LEAST_HELD = 0.1  # of the bytes
LEAST_CONTRAST = 3.0  # over the usual share of rates up to 40 % away
LEAST_TRAINS = 5  # that do not overlap
LEAST_BOUND = 0.2  # of the time in flight: a rate held for less bounded nothing
MOSTLY = 0.5
WHILE_FULL = 0.6  # of the time in which a rate was held: then what was full is what set it
MOST_CANDIDATES = 4  # of each sign
IN_FLIGHT_NS = 20_000_000  # a host's longer silence is no flight, but a rest
_BIN = 0.01  # of the logarithm of a rate
_BAND = round(TOLERANCE / _BIN)
_FLANK = 34  # bins: 40 %


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


class _Histogram(NamedTuple):
    """Weight by rate, in bins of one percent; `least` is the first bin's number."""

    least: int
    counts: Floats


class _Trains(NamedTuple):
    """`first`, `last`: positions of large packets; a train holds what is sent from one until the other."""

    first: Ints
    last: Ints
    bps: Floats
    nbytes: Floats  # of its first packet: each byte counts once
    histogram: _Histogram


class _Sight(NamedTuple):
    """One host and direction: its large packets, and what was sent from each until the next."""

    time_ns: Floats
    spacing_ns: Floats  # until the next large packet
    pair_nbytes: Floats
    far_bps: Floats  # of the pairs that are far enough apart to tell of a link
    far_nbytes: Floats
    far_histogram: _Histogram
    trains: tuple[_Trains, ...]  # for each of TRAIN_NS
    whole_nbytes: float
    longest_nbytes: float


class _Found(NamedTuple):
    rate_bps: float
    uncertainty: float
    dispersed_share: float
    dispersed_contrast: float
    held_share: float
    held: Ints  # rows of begin and end, ascending
    held_ns: float
    held_contrast: float
    n_trains: float

    @property
    def is_dispersed(self) -> bool:
        return self.dispersed_share >= LEAST_DISPERSED and self.dispersed_contrast >= LEAST_CONTRAST

    @property
    def is_held(self) -> bool:
        return (
            self.held_share >= LEAST_HELD
            and self.held_contrast >= LEAST_CONTRAST
            and self.n_trains >= LEAST_TRAINS
        )


def bounds(
    series: Sequence[Series],
    known_bps: Collection[int] = (),
    most_bps: float = inf,
    n_hosts: int = 1,
) -> tuple[tuple[Bound, ...], JobBound]:
    """For each host and direction the rates that both signs show, the one held longest first, or one Bound
    that says what is missing; and what they say of the job.

    `known_bps` are all rates that links of the fabric have, if those are known, and `n_hosts` how many can
    share one; `most_bps` is the rate of the hosts' links: what is seen and cannot be is "unknown".
    """
    busy: dict[str, list[Ints]] = {}
    for one in series:
        busy.setdefault(one.host, []).append(one.time_ns[one.nbytes >= LARGE_NBYTES])
    moving = {host: np.sort(np.concatenate(times)) for host, times in busy.items()}
    seen = [rest for one in series for rest in _bounds(one, moving[one.host])]
    possible = [_possible(rest, known_bps, most_bps) for rest in seen]
    found = [_shared(rest, possible) for rest in possible]
    return tuple(rest.bound for rest in found), _of_job(found, min(known_bps, default=0) / n_hosts)


def wire_nbytes(nbytes: Ints) -> Floats:
    """What the link carries of packets as captured: a header for each segment of a merged one."""
    segments = np.maximum(1, -((HEADER_NBYTES - nbytes) // SEGMENT_NBYTES))
    wire: Floats = (nbytes + HEADER_NBYTES * (segments - 1)).astype(np.float64)
    return wire


def _bounds(one: Series, moving_ns: Ints) -> Iterator[_Rest]:
    sight = _sight(one)
    if sight is None:
        yield _nothing(one, 0, "too few large packets for a rate")
        return
    candidates = [*_peaks(sight.far_histogram), *_peaks(sight.trains[1].histogram)]
    likely = [rate for rate in _distinct(candidates) if _train_contrast(sight, rate) >= LEAST_CONTRAST]
    seen = _apart([_seen(sight, rate) for rate in likely])
    held = [rate for rate in seen if rate.is_held]
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


def _sight(one: Series) -> _Sight | None:
    wire = wire_nbytes(one.nbytes)
    large = np.flatnonzero(one.nbytes >= LARGE_NBYTES)
    if len(large) <= LEAST_TRAINS * TRAIN_PACKETS:
        return None
    before = np.concatenate([[0.0], np.cumsum(wire)])
    time_ns = one.time_ns[large].astype(np.float64)
    total = before[large]
    spacing_ns, pair_nbytes = np.diff(time_ns), np.diff(total)
    longest_nbytes = float(np.percentile(wire[large], 99.5))
    is_far = spacing_ns >= LEAST_SPACING_NS
    far_nbytes = pair_nbytes[is_far]
    far_bps = far_nbytes * 8e9 / spacing_ns[is_far]
    full = np.searchsorted(total, total + TRAIN_PACKETS * longest_nbytes - 1)
    return _Sight(
        time_ns=time_ns,
        spacing_ns=spacing_ns,
        pair_nbytes=pair_nbytes,
        far_bps=far_bps,
        far_nbytes=far_nbytes,
        far_histogram=_histogram(far_bps, far_nbytes),
        trains=tuple(_trains(time_ns, total, pair_nbytes, full, least_ns) for least_ns in TRAIN_NS),
        whole_nbytes=float(before[-1]),
        longest_nbytes=longest_nbytes,
    )


def _trains(time_ns: Floats, total: Floats, pair_nbytes: Floats, full: Ints, least_ns: int) -> _Trains:
    """From each large packet to the first that is late enough and not before `full`: bytes enough."""
    last = np.maximum(np.searchsorted(time_ns, time_ns + least_ns), full)
    first = np.flatnonzero(last < len(time_ns))
    last = last[first]
    bps = (total[last] - total[first]) * 8e9 / (time_ns[last] - time_ns[first])
    nbytes = pair_nbytes[first]
    return _Trains(first, last, bps, nbytes, _histogram(bps, nbytes))


def _histogram(bps: Floats, weights: Floats) -> _Histogram:
    if not len(bps):
        return _Histogram(0, np.zeros(1))
    bins = np.floor(np.log(bps) / _BIN).astype(np.int64)
    least = int(bins.min())
    return _Histogram(least, np.bincount(bins - least, weights).astype(np.float64))


def _peaks(of: _Histogram) -> list[float]:
    """The rates near which most of the weight lies, the heaviest first."""
    near = np.convolve(of.counts, np.ones(2 * (_BAND // 2) + 1), "same")
    found = []
    for _ in range(MOST_CANDIDATES):
        best = int(np.argmax(near))
        if near[best] <= 0:
            break
        found.append(exp((best + of.least + 0.5) * _BIN))
        near[max(0, best - _BAND) : best + _BAND + 1] = 0
    return found


def _distinct(rates: Sequence[float]) -> list[float]:
    found: list[float] = []
    for rate in rates:
        if all(abs(log(rate / other)) > TOLERANCE / 2 for other in found):
            found.append(rate)
    return found


def _apart(found: Sequence[_Found]) -> list[_Found]:
    """The rate held longest of those near each other, where both signs count before one; longest first."""
    order = sorted(found, key=lambda one: (one.is_dispersed and one.is_held, one.held_ns), reverse=True)
    kept: list[_Found] = []
    for one in order:
        if all(abs(log(one.rate_bps / other.rate_bps)) > SAME for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: -one.held_ns)


def _seen(sight: _Sight, rate_bps: float) -> _Found:
    """What both signs say of one rate."""
    near = _near(sight.far_bps, rate_bps)
    dispersed = float(sight.far_nbytes[near].sum()) / sight.whole_nbytes
    rests = sight.spacing_ns > REST * sight.longest_nbytes * 8e9 / rate_bps
    rests_before = np.concatenate([[0], np.cumsum(rests)])
    covered = np.zeros(len(sight.time_ns), np.int64)
    found = [_median(sight.far_bps[near], sight.far_nbytes[near])] if near.any() else []
    for trains in sight.trains:
        at_rate = np.flatnonzero(_near(trains.bps, rate_bps))
        first, last = trains.first[at_rate], trains.last[at_rate]
        steady = rests_before[last] == rests_before[first]
        first, last, at_rate = first[steady], last[steady], at_rate[steady]
        covered += np.bincount(first, minlength=len(covered)) - np.bincount(last, minlength=len(covered))
        if len(at_rate):
            found.append(_median(trains.bps[at_rate], trains.nbytes[at_rate]))
    held = np.cumsum(covered)[: len(sight.spacing_ns)] > 0
    held_ns = float(sight.spacing_ns[held].sum())
    train_ns = max(TRAIN_NS[0], TRAIN_PACKETS * sight.longest_nbytes * 8e9 / rate_bps)
    middle = float(np.median(found)) if found else rate_bps
    spread = max((abs(one / middle - 1) for one in found), default=TOLERANCE)
    return _Found(
        rate_bps=middle,
        uncertainty=max(0.01, spread),
        dispersed_share=dispersed,
        dispersed_contrast=_contrast(sight.far_histogram, rate_bps),
        held_share=float(sight.pair_nbytes[held].sum()) / sight.whole_nbytes,
        held=_intervals(sight, held),
        held_ns=held_ns,
        held_contrast=_train_contrast(sight, rate_bps),
        n_trains=held_ns / train_ns,
    )


def _near(bps: Floats, rate_bps: float) -> Flags:
    return (bps >= rate_bps * (1 - TOLERANCE)) & (bps <= rate_bps * (1 + TOLERANCE))


def _train_contrast(sight: _Sight, rate_bps: float) -> float:
    return max(_contrast(trains.histogram, rate_bps) for trains in sight.trains)


def _contrast(of: _Histogram, rate_bps: float) -> float:
    """The weight within 5 % of the rate over that of the median bin from 8 to 40 % away."""
    at = int(log(rate_bps) / _BIN) - of.least + _FLANK
    padded = np.concatenate([np.zeros(_FLANK), of.counts, np.zeros(_FLANK + 1)])
    part = padded[max(0, at - _FLANK) : at + _FLANK + 1]
    if len(part) != 2 * _FLANK + 1:
        return 0.0
    here = float(part[_FLANK - _BAND : _FLANK + _BAND + 1].mean())
    inner = _FLANK - _BAND - 3
    flanks = np.concatenate([part[:inner], part[-inner:]])
    usual = float(np.median(np.convolve(flanks, np.ones(5) / 5, "valid")))
    if usual <= 0:
        return inf if here > 0 else 0.0
    return here / usual


def _median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _in_flight_ns(time_ns: Ints, rest_ns: int) -> int:
    spacing = np.diff(time_ns)
    return int(spacing[spacing <= rest_ns].sum())


def _intervals(sight: _Sight, held: Flags) -> Ints:
    edges = np.diff(np.concatenate([[0], held.astype(np.int8), [0]]))
    begin, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return np.stack([sight.time_ns[begin], sight.time_ns[end]], axis=1).astype(np.int64)


def _bound(one: Series, found: _Found, in_flight_ns: int, utilisation: float | None) -> _Rest:
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
        bound, bound="unknown", uncertainty=None, utilisation=None, evidence=f"{bound.evidence}; {why}"
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
    return rest._replace(
        bound=replace(bound, bound="share", uncertainty=None, utilisation=None, evidence=evidence)
    )


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
    return _median(rates, np.array([one.dispersed_share for one in near], np.float64))


def _held_share(rest: _Rest, links: Sequence[_Rest]) -> float:
    """How much of its host's time in flight the rate was held in either direction."""
    rate_bps = rest.bound.rate_bps or 0.0
    same = [
        other.held
        for other in links
        if other.bound.host == rest.bound.host and _near(np.array([other.bound.rate_bps]), rate_bps).all()
    ]
    held = np.concatenate(same)
    held = held[np.argsort(held[:, 0])]
    ends = np.maximum.accumulate(held[:, 1])
    before = np.concatenate([held[:1, 0], ends[:-1]])
    held_ns = np.maximum(0, held[:, 1] - np.maximum(held[:, 0], before)).sum()
    return min(1.0, float(held_ns) / rest.bound.in_flight_ns)

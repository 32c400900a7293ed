"""The link rates that a host's packets show in one direction: from their spacing, and from steady rates.

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

from collections.abc import Sequence
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.analysis.bursts import Series
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.jit import compiled

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

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
MOST_CANDIDATES = 4  # of each sign
MOST_SHIFTS, STAYS = 20, 0.005  # of a first guess to a rate that stays; in the samples it takes up to 6
MOST_LOOKS = 4  # at all pairs and trains, after that
_BIN = 0.01  # of the logarithm of a rate
_BAND = round(TOLERANCE / _BIN)
_FLANK = 34  # bins: 40 %


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


class Sight(NamedTuple):
    """One host and direction: its large packets, and what was sent from each until the next."""

    time_ns: Floats
    spacing_ns: Floats  # until the next large packet
    pair_nbytes: Floats
    far_bps: Floats  # of the pairs that are far enough apart to show a link
    far_nbytes: Floats
    far_histogram: _Histogram
    trains: tuple[_Trains, ...]  # for each of TRAIN_NS
    whole_nbytes: float
    longest_nbytes: float


class ShownRate(NamedTuple):
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


def wire_nbytes(nbytes: Ints) -> Floats:
    """What the link carries of packets as captured: a header for each segment of a merged one."""
    segments = np.maximum(1, -((HEADER_NBYTES - nbytes) // SEGMENT_NBYTES))
    wire: Floats = (nbytes + HEADER_NBYTES * (segments - 1)).astype(np.float64)
    return wire


def look(one: Series) -> Sight | None:
    """None if there are too few large packets for a rate."""
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
    full = _reaching(total, total + TRAIN_PACKETS * longest_nbytes - 1)
    return Sight(
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


def shown_rates(sight: Sight) -> list[ShownRate]:
    """The rates that trains held, the one held longest first."""
    candidates = [*_peaks(sight.far_histogram), *_peaks(sight.trains[1].histogram)]
    likely = [rate for rate in _distinct(candidates) if _train_contrast(sight, rate) >= LEAST_CONTRAST]
    settled = [rate for guess in likely if (rate := at_peak(sight, guess)) is not None]
    return [rate for rate in _apart(settled) if rate.is_held]


@compiled
def _reaching(values: Floats, least: Floats) -> Ints:
    """For each of `least` the place of the first value that reaches it, as np.searchsorted; both ascend."""
    places = np.empty(len(least), np.int64)
    place = 0
    for row in range(len(least)):
        while place < len(values) and values[place] < least[row]:
            place += 1
        places[row] = place
    return places


def _trains(time_ns: Floats, total: Floats, pair_nbytes: Floats, full: Ints, least_ns: int) -> _Trains:
    """From each large packet to the first that is late enough and not before `full`: bytes enough."""
    last = np.maximum(_reaching(time_ns, time_ns + least_ns), full)
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


def _apart(found: Sequence[ShownRate]) -> list[ShownRate]:
    """The rate held longest of those near each other, where both signs count before one; longest first."""
    order = sorted(found, key=lambda one: (one.is_dispersed and one.is_held, one.held_ns), reverse=True)
    kept: list[ShownRate] = []
    for one in order:
        if all(abs(log(one.rate_bps / other.rate_bps)) > SAME for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: -one.held_ns)


def at_peak(sight: Sight, rate_bps: float) -> ShownRate | None:
    """What both signs say of the rate to which a first guess leads: of a band of 5 % around one that is too
    low the upper part is missing, and its median is too low as well (mean shift: Comaniciu, Meer, 2002).
    None where it leads to none.
    """
    for _ in range(MOST_SHIFTS):  # by histograms, which takes next to no time
        before_bps, rate_bps = rate_bps, _middle_bps(sight, rate_bps)
        if abs(rate_bps / before_bps - 1) <= STAYS:
            break
    for _ in range(MOST_LOOKS):
        seen = _seen(sight, rate_bps)
        if abs(seen.rate_bps / rate_bps - 1) <= STAYS:
            return seen
        rate_bps = seen.rate_bps
    return None


def _middle_bps(sight: Sight, rate_bps: float) -> float:
    """The median of both signs' medians within 5 % of the rate, to half a bin."""
    found = [
        middle
        for of in (sight.far_histogram, *(trains.histogram for trains in sight.trains))
        if (middle := _median_bin(of, log(rate_bps) / _BIN)) is not None
    ]
    return exp(float(np.median(found)) * _BIN) if found else rate_bps


def _median_bin(of: _Histogram, at: float) -> float | None:
    """The bin, with its fraction, that halves the weight within a band around `at`; None if there is none."""
    first = max(0, int(at) - of.least - _BAND)
    counts = of.counts[first : max(0, int(at) - of.least + _BAND + 1)]
    total = np.cumsum(counts)
    if not len(total) or total[-1] <= 0:
        return None
    place = int(np.searchsorted(total, total[-1] / 2))
    before = total[place] - counts[place]
    return of.least + first + place + float((total[-1] / 2 - before) / counts[place])


def _seen(sight: Sight, rate_bps: float) -> ShownRate:
    """What both signs say of one rate."""
    near = is_near(sight.far_bps, rate_bps)
    dispersed = float(sight.far_nbytes[near].sum()) / sight.whole_nbytes
    rests = sight.spacing_ns > REST * sight.longest_nbytes * 8e9 / rate_bps
    rests_before = np.concatenate([[0], np.cumsum(rests)])
    covered = np.zeros(len(sight.time_ns), np.int64)
    found = [weighted_median(sight.far_bps[near], sight.far_nbytes[near])] if near.any() else []
    for trains in sight.trains:
        at_rate = np.flatnonzero(is_near(trains.bps, rate_bps))
        first, last = trains.first[at_rate], trains.last[at_rate]
        steady = rests_before[last] == rests_before[first]
        first, last, at_rate = first[steady], last[steady], at_rate[steady]
        covered += np.bincount(first, minlength=len(covered)) - np.bincount(last, minlength=len(covered))
        if len(at_rate):
            found.append(weighted_median(trains.bps[at_rate], trains.nbytes[at_rate]))
    held = np.cumsum(covered)[: len(sight.spacing_ns)] > 0
    held_ns = float(sight.spacing_ns[held].sum())
    train_ns = max(TRAIN_NS[0], TRAIN_PACKETS * sight.longest_nbytes * 8e9 / rate_bps)
    middle = float(np.median(found)) if found else rate_bps
    spread = max((abs(one / middle - 1) for one in found), default=TOLERANCE)
    return ShownRate(
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


def is_near(bps: Floats, rate_bps: float) -> Flags:
    return (bps >= rate_bps * (1 - TOLERANCE)) & (bps <= rate_bps * (1 + TOLERANCE))


def _train_contrast(sight: Sight, rate_bps: float) -> float:
    return max(_contrast(trains.histogram, rate_bps) for trains in sight.trains)


def _contrast(of: _Histogram, rate_bps: float) -> float:
    """The weight within 5 % of the rate over that of the median bin from 8 to 40 % away."""
    at = int(log(rate_bps) / _BIN) - of.least + _FLANK
    padded = np.concatenate([np.zeros(_FLANK), of.counts, np.zeros(_FLANK + 1)])
    part = padded[max(0, at - _FLANK) : at + _FLANK + 1]
    if len(part) != 2 * _FLANK + 1:
        return 0.0
    band = float(part[_FLANK - _BAND : _FLANK + _BAND + 1].mean())
    inner = _FLANK - _BAND - 3
    flanks = np.concatenate([part[:inner], part[-inner:]])
    usual = float(np.median(np.convolve(flanks, np.ones(5) / 5, "valid")))
    if usual <= 0:
        return inf if band > 0 else 0.0
    return band / usual


def weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _intervals(sight: Sight, held: Flags) -> Ints:
    edges = np.diff(np.concatenate([[0], held.astype(np.int8), [0]]))
    begin, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return np.stack([sight.time_ns[begin], sight.time_ns[end]], axis=1).astype(np.int64)

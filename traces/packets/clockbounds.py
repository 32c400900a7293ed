"""How far apart two clocks are, bounded by causality: no packet is received before it is sent.

A packet that leaves at `x` by one clock and is seen at `y` by the other says that the other is ahead by at
most y - x; one that comes back says by at least so much.  The smallest differences of both ways enclose
the offset, whatever queues are in between (Paxson 1998, "On calibrating measurements of packet transit
times"); over time the enclosed band has a slope, the drift (Moon, Skelly and Towsley 1999: lines between
the convex hulls).
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints

Floats = npt.NDArray[np.float64]
MAX_DRIFT = 500e-6  # a clock that is off by more is broken: the most that NTP corrects (RFC 5905, 7.1)
WINDOWS = 16  # of a pair's time, each with its smallest difference
TOLERANCE_NS = 10_000  # time stamps of µs, and capturing itself, are no better
BEND_NS = 2_000_000  # a clock that is being slewed does not follow a line; by this much it may leave it


@dataclass(frozen=True)
class Bounds:
    """At `x_ns` by the reference clock the other is ahead by at most `ahead_ns` (`upper`), or at least.

    Both have the same length; `is_upper` says which of the two each one is.
    """

    x_ns: Ints
    ahead_ns: Ints
    is_upper: npt.NDArray[np.bool_]

    @property
    def own_ns(self) -> Ints:
        """When the bounds were met, by the other clock."""
        times: Ints = self.x_ns + self.ahead_ns
        return times

    def part(self, first: int, end: int) -> "Bounds":
        return Bounds(self.x_ns[first:end], self.ahead_ns[first:end], self.is_upper[first:end])

    @property
    def is_two_way(self) -> bool:
        return bool(self.is_upper.any()) and not bool(self.is_upper.all())

    @property
    def allow_zero(self) -> bool:
        """Whether clocks that agree explain all of it."""
        return not np.any(np.where(self.is_upper, self.ahead_ns, -self.ahead_ns) < -TOLERANCE_NS)


@dataclass(frozen=True)
class Line:
    """The other clock is `ahead_ns` ahead at `at_ns` of the reference's, and by `drift` more each second."""

    at_ns: int
    ahead_ns: int
    drift: float
    uncertainty_ns: int

    def reference_ns(self, time_ns: Ints) -> Ints:
        """Times of the other clock, as the reference clock would have given them."""
        since = time_ns - (self.at_ns + self.ahead_ns)
        gained: Ints = np.rint(since * (self.drift / (1 + self.drift))).astype(np.int64)
        return self.at_ns + since - gained


def joined_bounds(parts: list[Bounds]) -> Bounds:
    return Bounds(
        np.concatenate([part.x_ns for part in parts]),
        np.concatenate([part.ahead_ns for part in parts]),
        np.concatenate([part.is_upper for part in parts]),
    )


def tightest(bounds: Bounds) -> Bounds:
    """The smallest upper and the largest lower bound of each of WINDOWS windows of the time."""
    first_ns = int(bounds.x_ns.min())
    width_ns = (int(bounds.x_ns.max()) - first_ns) // WINDOWS + 1
    window = (bounds.x_ns - first_ns) // width_ns * 2 + bounds.is_upper
    order = np.lexsort((np.where(bounds.is_upper, bounds.ahead_ns, -bounds.ahead_ns), window))
    rows = order[np.flatnonzero(np.diff(window[order], prepend=-1))]
    return Bounds(bounds.x_ns[rows], bounds.ahead_ns[rows], bounds.is_upper[rows])


@dataclass(frozen=True)
class ClockStep:
    """The other clock follows `before`, is set once, and follows `after`.

    It was set between `first_ns` and `last_ns` by the reference clock.
    """

    before: Line
    after: Line
    first_ns: int
    last_ns: int

    @property
    def set_ns(self) -> int:
        """By how much it was set forward; below 0: back."""
        since = self.after.at_ns - self.before.at_ns
        return self.after.ahead_ns - self.before.ahead_ns - round(since * self.before.drift)

    @property
    def uncertainty_ns(self) -> int:
        return max(self.before.uncertainty_ns, self.after.uncertainty_ns)

    def place(self, time_ns: Ints) -> int | None:
        """The first of the other clock's times, in the order of its packets, that it gave after it was set.

        None if several would do: where all pauses between packets are shorter than what it was set by, or
        it was set back, one place alone leaves the times in order.
        """
        if len(time_ns) < 2:
            return None
        before, after = self.before.reference_ns(time_ns[:-1]), self.after.reference_ns(time_ns[1:])
        room_ns = self.before.uncertainty_ns + self.after.uncertainty_ns + TOLERANCE_NS
        possible = (before <= self.last_ns + room_ns) & (after >= self.first_ns - room_ns)
        possible &= after - before >= -room_ns
        back = np.diff(time_ns) < -TOLERANCE_NS
        if back.any():
            possible &= back & (np.count_nonzero(back) == 1)
        places = np.flatnonzero(possible)
        return int(places[0]) + 1 if len(places) == 1 else None


def fit_step(bounds: Bounds, own_ns: Ints) -> ClockStep | None:
    """A clock that was set once while it was captured; None if that does not explain the bounds either.

    `own_ns` are all of its times, in the order of its packets.  What fits one line from the beginning ends
    where the clock had been set at the latest, what fits one to the end begins where it had at the earliest;
    only what is outside of both is used.
    """
    order = np.argsort(bounds.x_ns, kind="stable")
    some = Bounds(bounds.x_ns[order], bounds.ahead_ns[order], bounds.is_upper[order])
    n_fitting = _most(len(order), lambda n: _is_steady(some.part(0, n)))
    begin = len(order) - _most(len(order), lambda n: _is_steady(some.part(len(order) - n, len(order))))
    if not 0 < begin <= n_fitting < len(order):
        return None
    first, last = some.part(0, begin), some.part(n_fitting, len(order))
    before, after = fit(first, first.own_ns), fit(last, last.own_ns)
    if before is None or after is None:
        return None
    step = ClockStep(before, after, int(some.x_ns[begin - 1]), int(some.x_ns[n_fitting]))
    place = step.place(own_ns)
    if place is None:
        return None
    # Wherever it sent or received: also between the bounds that are used and the place.
    wider = fit(first, own_ns[:place]), fit(last, own_ns[place:])
    if wider[0] is None or wider[1] is None:
        return None
    step = ClockStep(wider[0], wider[1], step.first_ns, step.last_ns)
    proven_ns = step.before.uncertainty_ns + step.after.uncertainty_ns + BEND_NS
    return step if abs(step.set_ns) > proven_ns and step.place(own_ns) == place else None


def _is_steady(bounds: Bounds) -> bool:
    return not bounds.is_two_way or fit(bounds, bounds.own_ns) is not None


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """The most, up to `count`, that fits, where all that is less fits too."""
    return bisect_left(range(1, count + 1), 1, key=lambda n: not fits(n))


def fit(bounds: Bounds, own_ns: Ints) -> Line | None:
    """The line in the middle of all that the bounds allow; None if they allow none, or are not two-way.

    The uncertainty is half of the widest range of allowed lines at the ends of the time in which the other
    clock gave `own_ns`, also where that is longer than the bounds': a clock that runs evenly is inside it.
    """
    if not bounds.is_two_way:
        return None
    bounds = tightest(bounds)
    early = max(0, int(bounds.own_ns.min()) - int(own_ns.min()))
    late = max(0, int(own_ns.max()) - int(bounds.own_ns.max()))
    at_ns, base_ns = int(bounds.x_ns.min()), int(bounds.ahead_ns[np.argmax(bounds.is_upper)])
    x = (bounds.x_ns - at_ns).astype(np.float64)
    ahead = (bounds.ahead_ns - base_ns).astype(np.float64)
    upper, lower = bounds.is_upper, ~bounds.is_upper
    slopes = _corners(x[upper], ahead[upper], x[lower], ahead[lower])
    room = _room(slopes, x, ahead, upper)
    missing = -float(room.max())
    if missing > BEND_NS:
        return None
    slack = max(0.0, missing) / 2  # moved apart by so much, the bounds allow one line
    ahead = np.where(upper, ahead + slack, ahead - slack)
    allowed = _allowed(slopes, room + 2 * slack)
    begin, end = -float(early), float(x.max()) + late
    first, last = (_range(allowed, place, x, ahead, upper) for place in (begin, end))
    middle = (sum(first) / 2, sum(last) / 2)
    drift = (middle[1] - middle[0]) / (end - begin) if end > begin else 0.0
    half = max(first[1] - first[0], last[1] - last[0]) / 2
    return Line(at_ns, base_ns + round(middle[0] - begin * drift), drift, round(half + 2 * slack))


def _corners(upper_x: Floats, upper: Floats, lower_x: Floats, lower: Floats) -> Floats:
    """The slopes at which another point becomes the tightest bound, ascending, within MAX_DRIFT."""
    found = [np.array([-MAX_DRIFT, 0.0, MAX_DRIFT])]
    for x, ahead in ((upper_x, upper), (lower_x, lower)):
        first, second = np.triu_indices(len(x), 1)
        apart = x[second] - x[first]
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (ahead[second] - ahead[first]) / apart
        found.append(slope[np.isfinite(slope)])
    slopes: Floats = np.unique(np.concatenate(found))
    return slopes[np.abs(slopes) <= MAX_DRIFT]


def _room(slopes: Floats, x: Floats, ahead: Floats, upper: npt.NDArray[np.bool_]) -> Floats:
    """For each slope, by how much the lines of that slope can be moved up and down; negative if none fits."""
    level = ahead - slopes[:, None] * x
    room: Floats = level[:, upper].min(axis=1) - level[:, ~upper].max(axis=1)
    return room


def _allowed(slopes: Floats, room: Floats) -> Floats:
    """The slopes with room (concave, straight between neighbours), with both ends of their range."""
    fits = np.flatnonzero(room >= 0)
    if not len(fits):
        return slopes[[int(np.argmax(room))]]
    found = [slopes[fits]]
    for inside, outside in ((fits[0], fits[0] - 1), (fits[-1], fits[-1] + 1)):
        if 0 <= outside < len(slopes):
            share = room[inside] / (room[inside] - room[outside])
            found.append(slopes[[inside]] + share * (slopes[[outside]] - slopes[[inside]]))
    return np.concatenate(found)


def _range(
    slopes: Floats, place: float, x: Floats, ahead: Floats, upper: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """The least and the most that lines of these slopes can be at `place`."""
    level = ahead - slopes[:, None] * (x - place)
    most, least = level[:, upper].min(axis=1), level[:, ~upper].max(axis=1)
    return float(least.min()), float(most.max())

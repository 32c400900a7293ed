"""When each packet should leave: at its recorded time, or at a given pace."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.emu.inject.options import PPS, RECORDED, TOPSPEED, Pace

Ints = npt.NDArray[np.int64]

JITTER_NS = 10_000_000  # a capture on several processors writes packets some µs out of order, not 10 ms
MAX_DURATION_NS = 3600 * 10**9


@dataclass(frozen=True)
class Steady:
    """Times that never go backwards; `n_backward` of the recorded ones did, by `largest_ns` at most."""

    time_ns: Ints
    n_backward: int
    largest_ns: int


def steady(time_ns: Ints) -> Steady:
    """The recorded times of a file, made monotonic.

    A step back of up to JITTER_NS is two packets that change places: the later one waits.  A larger one
    means that the clock was set: all that follows is moved by as much, and the gaps after it are kept.
    """
    steps = np.diff(time_ns)
    backward = -steps[steps < 0]
    if not len(backward):
        return Steady(time_ns, 0, 0)
    clock_set = np.where(steps < -JITTER_NS, -steps, 0)
    moved = time_ns + np.concatenate(([0], np.cumsum(clock_set)))
    return Steady(np.maximum.accumulate(moved), len(backward), int(backward.max()))


def deadlines(pace: Pace, recorded_ns: Ints, wire_nbytes: Ints) -> Ints:
    """When each packet is to leave, in ns after the first; `recorded_ns` ascend.  Raise ValueError."""
    count = len(recorded_ns)
    due: npt.NDArray[Any]
    if pace.kind == TOPSPEED or not count:
        return np.zeros(count, np.int64)
    if pace.kind == RECORDED:
        due = (recorded_ns - recorded_ns[0]) / float(pace.value)
    elif pace.kind == PPS:
        due = np.arange(count) * (1e9 / float(pace.value))
    else:
        before = np.cumsum(wire_nbytes) - wire_nbytes
        due = before * (8e9 / float(pace.value))
    check_duration(due[-1])
    return due.astype(np.int64)


def check_duration(duration_ns: float) -> None:
    """Raise ValueError for what lasts too long."""
    if duration_ns > MAX_DURATION_NS:
        raise ValueError(
            f"sending would take {duration_ns / 1e9:,.0f} s, and the limit is one hour: use a higher "
            "--speed, --pps or --rate, use fewer loops, or cut the capture by time (editcap -A … -B …)"
        )


def period_ns(due_ns: Ints) -> int:
    """From the start of one loop to that of the next: all of it, and one mean gap."""
    if len(due_ns) < 2:
        return 0
    return int(due_ns[-1]) + int(due_ns[-1]) // (len(due_ns) - 1)

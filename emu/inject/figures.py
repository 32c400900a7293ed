"""Loss, delay, reordering and lateness of the injected packets, from the times of each packet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.emu.inject.timetable import Ints

NEVER = -1
QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
LATENESS_EDGES_S = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)
_SHARE = 10  # drift is between the first tenth and the last one


@dataclass(frozen=True, slots=True)
class TimePercentiles:
    """Percentiles of times, in seconds."""

    min: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Reordering:
    """RFC 4737: `reordered` packets came after one that was sent later; `max_extent` is the largest number of
    places that one of them came after the first such (section 4.2).
    """

    reordered: int
    max_extent: int


@dataclass(frozen=True)
class PacketTimes:
    """Every packet sent, in the order of its deadline; ns since 1970, NEVER where there is none.

    `due` is its deadline, `handed` when it was given to the host's port, `left` when it left there, `arrived`
    when the destination's port had it.
    """

    due_ns: Ints
    handed_ns: Ints
    left_ns: Ints
    arrived_ns: Ints

    @property
    def delay_ns(self) -> Ints:
        """The delay of each packet that arrived, port to port."""
        there = self.arrived_ns != NEVER
        delay: Ints = self.arrived_ns[there] - self.left_ns[there]
        return delay


def percentiles(values_ns: Ints) -> TimePercentiles | None:
    """None without values."""
    if not len(values_ns):
        return None
    return TimePercentiles(
        *(float(value) / 1e9 for value in np.quantile(values_ns, QUANTILES, method="nearest"))
    )


def reordering(sequence: Ints) -> Reordering:
    """`sequence`: the numbers in the order of sending of the packets of a flow, in the order of arrival."""
    if len(sequence) < 2:
        return Reordering(0, 0)
    highest = np.maximum.accumulate(sequence)
    late = np.flatnonzero(sequence < highest)
    if not len(late):
        return Reordering(0, 0)
    first_later = np.searchsorted(highest, sequence[late], "right")
    return Reordering(len(late), int((late - first_later).max()))


def lateness_histogram(late_ns: Ints) -> tuple[int, ...]:
    """How many packets were late by up to each of LATENESS_EDGES_S, and how many by more than the last."""
    edges = np.array([round(edge * 1e9) for edge in LATENESS_EDGES_S])
    return tuple(np.bincount(np.searchsorted(edges, late_ns), minlength=len(edges) + 1).tolist())


def drift_ppm(due_ns: Ints, late_ns: Ints) -> float:
    """How much later the last tenth is than the first (medians), in millionths of the time between."""
    n_each = len(due_ns) // _SHARE
    if not n_each:
        return 0.0
    first, last = slice(0, n_each), slice(len(due_ns) - n_each, None)
    apart = float(np.median(due_ns[last]) - np.median(due_ns[first]))
    grown = float(np.median(late_ns[last]) - np.median(late_ns[first]))
    return grown / apart * 1e6 if apart else 0.0


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """The figures of one flow; `flow` is its number."""

    flow: int
    sent: int
    nbytes: int
    lost: int
    delay: TimePercentiles | None
    reordering: Reordering


def flow_figures(flow: Ints, nbytes: Ints, times: PacketTimes) -> list[FlowFigures]:
    """By flow number; packets are in the order of sending."""
    order = np.argsort(flow, kind="stable")
    firsts = np.flatnonzero(np.diff(flow[order], prepend=NEVER))
    return [
        _one_flow(int(flow[rows[0]]), rows, nbytes, times)
        for rows in np.split(order, firsts[1:])
        if len(rows)
    ]


def _one_flow(number: int, rows: Ints, nbytes: Ints, times: PacketTimes) -> FlowFigures:
    arrived = times.arrived_ns[rows]
    there = rows[arrived != NEVER]
    delay = times.arrived_ns[there] - times.left_ns[there]
    in_order = np.argsort(times.arrived_ns[there], kind="stable")
    return FlowFigures(
        flow=number,
        sent=len(rows),
        nbytes=int(nbytes[rows].sum()),
        lost=len(rows) - len(there),
        delay=percentiles(delay),
        reordering=reordering(in_order),
    )


def flow_numbers(columns: Sequence[npt.NDArray[np.integer]]) -> tuple[Ints, Ints]:
    """The number of each packet's flow, and of each flow a packet: flows are equal in all `columns`."""
    stacked = np.column_stack([column.astype(np.int64) for column in columns])
    _, first, number = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # flows in the order of their first packets
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[number.ravel()], first[order]

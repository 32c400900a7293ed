"""Packets whose timestamp cannot be right: each is left out, counted and named.

A capture is written in the order of time, give or take what several processors and interfaces mix up.
So a packet that is far from its neighbours, and after which the times go on as before, has a wrong
time.  Times that stay elsewhere are a clock that was set, which is not decided here.
"""

from bisect import bisect_left, bisect_right
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.packets import Mistimed, Packets, only_rows

DISORDER_NS = 500_000_000  # how far back in time a writer of several interfaces may go between two packets
PAUSE_NS = 3600 * 10**9  # a longer silence before or after a few packets is taken for a wrong time
LONG_PAUSE_NS = 30 * 86400 * 10**9
FEW = 10  # packets beyond such a silence
MAX_RUN = 100  # consecutive packets: more that are elsewhere are a clock that was set
MAX_SHARE = 0.25  # of a file: if more packets are out of order, its order says nothing
MAX_NAMED = 3
_LEAST_NS, _MOST_NS = -(1 << 61), 1 << 62  # differences between these fit into 64 bits


def with_plausible_times(packets: Packets) -> Packets:
    """Without the packets whose time cannot be right; `n_mistimed` counts them, `mistimed` names some."""
    wrong = implausible(packets.time_ns)
    if not len(wrong):
        return packets
    keep = np.ones(len(packets), bool)
    keep[wrong] = False
    named = tuple(_named(packets, keep, int(row)) for row in wrong[:MAX_NAMED])
    return replace(only_rows(packets, keep), n_mistimed=len(wrong), mistimed=named)


def implausible(time_ns: Ints) -> Ints:
    """The rows of `time_ns`, in the order of the file, whose time cannot be right, ascending."""
    if len(time_ns) < 3:
        return np.empty(0, np.int64)
    steps = np.diff(time_ns)
    extent = (int(time_ns.min()), int(time_ns.max()))
    is_usual = extent[0] >= _LEAST_NS and extent[1] <= _MOST_NS  # else differences may overflow
    if is_usual and steps.min() >= -DISORDER_NS and steps.max() <= PAUSE_NS:
        return np.empty(0, np.int64)
    time_ns = np.clip(time_ns, _LEAST_NS, _MOST_NS)
    wrong = _out_of_order(time_ns)
    rows = np.flatnonzero(~wrong)
    wrong[rows[_far_off(time_ns[rows])]] = True
    return np.flatnonzero(wrong)


def _out_of_order(time_ns: Ints) -> npt.NDArray[np.bool_]:
    """What is not in the heaviest ascending chain of runs; nothing if that is too much to be mistakes."""
    cuts = np.flatnonzero(np.abs(np.diff(time_ns)) > DISORDER_NS) + 1
    starts = np.concatenate([[0], cuts])
    lengths = np.diff(starts, append=len(time_ns))
    lows, highs = np.minimum.reduceat(time_ns, starts), np.maximum.reduceat(time_ns, starts)
    in_chain = np.zeros(len(starts), bool)
    forwards = _heaviest_chain(lows.tolist(), highs.tolist(), lengths.tolist())
    backwards = _heaviest_chain((-highs[::-1]).tolist(), (-lows[::-1]).tolist(), lengths[::-1].tolist())
    chains = (np.array(forwards), len(starts) - 1 - np.array(backwards))
    # Of equally heavy ones that which takes less time: at the beginning only the backward search prefers it.
    in_chain[min(chains, key=lambda chain: int(highs[chain].max()) - int(lows[chain].min()))] = True
    wrong = np.repeat(~in_chain, lengths)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wrong, [False]]).astype(np.int8)))
    longest = int((edges[1::2] - edges[::2]).max(initial=0))
    if longest > MAX_RUN or np.count_nonzero(wrong) > MAX_SHARE * len(wrong):
        return np.zeros(len(wrong), bool)
    return wrong


def _heaviest_chain(lows: list[int], highs: list[int], weights: list[int]) -> list[int]:
    """Runs in file order, each beginning no more than DISORDER_NS before the last one ended, that hold most
    packets together.

    The patience method for longest increasing subsequences (Fredman 1975), with weights: `ends` and `sums`
    ascend, each entry the lightest-ending chain of its weight.
    """
    ends: list[int] = []
    sums: list[int] = []
    lasts: list[int] = []
    before = [-1] * len(lows)
    for run, (low, high, weight) in enumerate(zip(lows, highs, weights, strict=True)):
        place = bisect_right(ends, low + DISORDER_NS)
        total = weight + (sums[place - 1] if place else 0)
        before[run] = lasts[place - 1] if place else -1
        at = bisect_left(ends, high)
        if at and sums[at - 1] >= total:
            continue
        stop = bisect_right(sums, total, lo=at)
        ends[at:stop], sums[at:stop], lasts[at:stop] = [high], [total], [run]
    chain = []
    run = lasts[-1]
    while run >= 0:
        chain.append(run)
        run = before[run]
    return chain


def _far_off(time_ns: Ints) -> Ints:
    """The places of a few packets that a long silence parts from most others."""
    order = np.argsort(time_ns, kind="stable")
    gaps = np.diff(time_ns[order])
    cuts = np.flatnonzero(gaps > PAUSE_NS) + 1
    parts = np.split(order, cuts)
    main = max(range(len(parts)), key=lambda number: len(parts[number]))
    found = [np.empty(0, np.int64)]
    for number, part in enumerate(parts):
        pause_ns = (
            gaps[cuts[number] - 1] if number < main else gaps[cuts[number - 1] - 1] if number > main else 0
        )
        share = 4 if pause_ns > LONG_PAUSE_NS else 100
        if number != main and len(part) <= FEW and len(part) * share < len(time_ns):
            found.append(part)
    return np.concatenate(found)


def _named(packets: Packets, keep: npt.NDArray[np.bool_], row: int) -> Mistimed:
    kept = np.flatnonzero(keep)
    beside = int(kept[min(int(np.searchsorted(kept, row)), len(kept) - 1)])
    return Mistimed(
        number=row + 1,
        at=int(packets.frame_at[row]),
        time_ns=int(packets.time_ns[row]),
        beside_ns=int(packets.time_ns[beside]),
    )

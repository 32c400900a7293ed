"""What a receiver waits for before it announces that it is ready, and a source before it sends.

Algorithms list sends in an order in which they could be done one after the other, and say which bytes each
reads and writes.  What has to wait is found here.

*Early*.  A rank waits for its own earlier accesses to the same bytes, and for nothing else: a source for what
came into the bytes that it sends, a receiver for what it sent of, or received in, the bytes that come in.
Notices are out before the data are ready; where all come from one rank, as in a ring, many at a time
(ANNOUNCED_AHEAD).  A receiver to which several ranks send has two buffers for each, so that none gets far
ahead of the others: it announces when the last but one from there is in.

*Early in two buffers*.  As libraries do it: every receiver has them.

*Step*.  A rank begins a step, as a source and as a receiver, when it is done with the last step in which it
sent or received.  Ranks keep together, so steps that were made not to meet on a link do not; but each step
pays the latency of the notice besides that of the data.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.names import EARLY, STEP
from gradwire.traces.schedules.pieces import Ids, in_time, own_pieces, ranges
from gradwire.traces.schedules.sends import MAX_SENDS, Edges, Numbers, Sends, swaps
from gradwire.traces.units import one_of

ANNOUNCED_AHEAD = 32  # of the sends of a slot, more than have come; a receiver catches up when half are used
ALL_AHEAD = (1 << 31) - 1  # where data go both ways in the slot
MAX_WAITS = 4 * MAX_SENDS  # of the sends of one operation for others; 80 bytes each while they are sorted
_READS, _ADDS, _REPLACES = 0, 1, 2  # ways of accesses


def paced(sends: Sends, pace: str | None) -> Sends:
    """The sends of one operation, with all that they have to wait for; what they wait for already stays.

    None: they say all of that themselves.  With "step" they come in the order of their steps.  Raise
    ValueError for a pace that there is not, NotServedError for steps that are not in the order of the bytes,
    and for more than MAX_WAITS.
    """
    if pace is None:
        return sends
    one_of("pace", pace, _PACES)
    return _PACES[pace](sends)


def captured(algorithm: str, sends: Sends) -> Sends:
    """The sends of an allreduce, paced as the libraries are that do it by this algorithm."""
    return _CAPTURED[algorithm](sends)


def early(sends: Sends) -> Sends:
    """Each as soon as the bytes allow, and two buffers where several ranks send to a receiver."""
    pairs = np.unique(np.stack((sends.dst, sends.src)), axis=1)
    n_sources = np.bincount(pairs[0], minlength=int(sends.dst.max(initial=0)) + 1)
    return two_buffers(_in_order_of_bytes(sends), n_sources[sends.dst] > 1)


def early_in_two_buffers(sends: Sends) -> Sends:
    """Each as soon as the bytes allow, with two buffers for each rank that sends to a receiver."""
    return two_buffers(_in_order_of_bytes(sends))


def two_buffers(sends: Sends, buffered: NDArray[np.bool_] | None = None) -> Sends:
    """Receivers announce when the last but one from the same rank is in: of all sends, or of these."""
    slot = _key(sends.src, sends.dst)
    order = np.argsort(slot, kind="stable")
    later, earlier = order[2:], order[:-2]
    same = slot[later] == slot[earlier]
    if buffered is not None:
        same &= buffered[later]
    return replace(sends, ready=_with(sends.ready, later[same], earlier[same]))


def by_step(sends: Sends) -> Sends:
    """Each when its ranks are done with the step before; within a step as the bytes demand."""
    ordered = _in_order_of_steps(_in_order_of_bytes(sends))
    before = _last_steps(ordered)
    return replace(
        ordered,
        needs=_with(_within_steps(ordered, ordered.needs), *before(ordered.src)),
        ready=_with(_within_steps(ordered, ordered.ready), *before(ordered.dst)),
    )


_PACES: dict[str, Callable[[Sends], Sends]] = {EARLY: early, STEP: by_step}
_CAPTURED = {
    "ring": two_buffers,
    "halving-doubling": by_step,
    "recursive-doubling": by_step,
    "all-pairs": early_in_two_buffers,
}


def _in_order_of_bytes(sends: Sends) -> Sends:
    """Accesses to the same bytes of a rank come in the order of the ids, unless both read or both add.

    The accesses to a place, one after the other, fall into groups: reads, additions, or one replacement.
    Each waits for the group before (see traces.schedules.races, which checks it).  Both halves of a swap are
    added when both are read, which the agents see to; so who waits for one that comes in waits for the other.
    """
    pieces = own_pieces(sends, np.unique(np.concatenate((sends.src, sends.dst))).tolist())
    partner = np.full(len(sends), -1, np.int64)
    pairs = swaps(sends)
    partner[list(pairs)] = list(pairs.values())
    starts, events = in_time(pieces, partner)
    send = events // 2
    way = np.where(events % 2 == 0, _READS, np.where(sends.reduce[send], _ADDS, _REPLACES))
    place = np.repeat(np.arange(len(pieces.keys)), np.diff(starts))
    later, earlier = _group_before(place, way)
    owner, other = send[later], send[earlier]
    reads = way[later] == _READS
    if pairs:
        halves = np.where(way[earlier] == _ADDS, partner[other], -1)
        owner, other, reads = np.tile(owner, 2), np.concatenate((other, halves)), np.tile(reads, 2)
    counts = (other >= 0) & (other < owner) & (partner[owner] != other)
    return replace(
        sends,
        needs=_with(sends.needs, owner[counts & reads], other[counts & reads]),
        ready=_with(sends.ready, owner[counts & ~reads], other[counts & ~reads]),
    )


def _group_before(place: Ids, way: NDArray[np.int64]) -> tuple[Ids, Ids]:
    """Positions of accesses, and for each of one of the group before its own at the same place.

    Accesses are sorted by place, then by time.
    """
    is_first = np.ones(len(place), np.bool_)
    is_first[1:] = (place[1:] != place[:-1]) | (way[1:] != way[:-1]) | (way[1:] == _REPLACES)
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=len(place))
    follows = np.zeros(len(starts), np.bool_)
    follows[1:] = place[starts[1:]] == place[starts[:-1]]
    before = np.where(follows, np.roll(sizes, 1), 0)  # how many each of a group waits for
    counts = np.repeat(before, sizes)
    _check_few(int(counts.sum()))
    return np.repeat(np.arange(len(place)), counts), ranges(np.repeat(starts - before, sizes), counts)


def _in_order_of_steps(sends: Sends) -> Sends:
    """Numbered again if they are not.  Raise NotServedError for a send that waits for one of a later step."""
    if np.all(np.diff(sends.step) >= 0):
        return sends
    for edges in (sends.needs, sends.ready):
        late = np.flatnonzero(sends.step[edges.ids] > sends.step[edges.owners])
        if len(late):
            one, other = int(edges.owners[late[0]]), int(edges.ids[late[0]])
            raise NotServedError(
                f"send {one} of step {sends.step[one]} comes after send {other} of step {sends.step[other]}, "
                "so its ranks cannot go step by step; choose the pace early"
            )
    order = np.argsort(sends.step, kind="stable")
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    ordered = sends.chosen(order, keep_edges=True)
    return replace(ordered, needs=ordered.needs.renumbered(new), ready=ordered.ready.renumbered(new))


def _within_steps(sends: Sends, edges: Edges) -> Edges:
    """Those to sends of the same step: what is of an earlier one is over when the step before is."""
    same = sends.step[edges.ids] == sends.step[edges.owners]
    return _with(Edges.none(len(sends)), edges.owners[same], edges.ids[same])


def _last_steps(sends: Sends) -> Callable[[Numbers], tuple[Ids, Ids]]:
    """A function of a rank for each send, which pairs sends with those that their ranks sent or received in
    the last step before in which they did either: the last of each pair, as these come in their order.
    """
    pair = np.lexsort((sends.step, sends.dst, sends.src))  # stable, so that ids ascend
    columns = (sends.src[pair], sends.dst[pair], sends.step[pair])
    is_last = np.ones(len(sends), np.bool_)
    is_last[:-1] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    last_ids = np.sort(pair[is_last])
    ids = np.concatenate((last_ids, last_ids))
    keys = _key(np.concatenate((sends.src[last_ids], sends.dst[last_ids])), sends.step[ids])
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    parts, sizes = keys[order[starts]], np.diff(starts, append=len(keys))

    def before(ranks: Numbers) -> tuple[Ids, Ids]:
        last = np.searchsorted(parts, _key(ranks, sends.step)) - 1
        counts = np.where((last >= 0) & (parts[last] >> 32 == ranks), sizes[last], 0)
        _check_few(int(counts.sum()))
        return np.repeat(np.arange(len(sends)), counts), ids[order[ranges(starts[last], counts)]]

    return before


def _key(high: Numbers, low: Numbers) -> Ids:
    """A number for each two, in their order."""
    made: Ids = high.astype(np.int64) << 32 | low
    return made


def _with(edges: Edges, owners: Ids, others: Ids) -> Edges:
    """The edges, and one from each of `owners` to the one of `others`; each once, in the order of the ids."""
    n_sends = len(edges.starts) - 1
    had = edges.owners.astype(np.int64) * n_sends + edges.ids
    keys = np.sort(np.concatenate((had, owners * n_sends + others)))  # np.unique takes ten times as long
    keys = keys[np.diff(keys, prepend=-1) != 0]
    _check_few(len(keys))
    owner, ids = np.divmod(keys, max(n_sends, 1))
    starts = np.zeros(n_sends + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=n_sends), out=starts[1:])
    return Edges(starts, ids.astype(np.int32))


def _check_few(n_waits: int) -> None:
    if n_waits > MAX_WAITS:
        raise NotServedError(
            f"its sends would wait for each other in {n_waits:,} ways, and {MAX_WAITS:,} is the most; choose "
            "fewer ranks"
        )

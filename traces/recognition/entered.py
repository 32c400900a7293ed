"""When messages entered their sources' ports, where captures say how long packets queued there.

That is when they were written, as far as nothing held them before (traces.recognition.starts); when they left
says it only of an idle port.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import by_direction, window_shifts
from gradwire.traces.packets.packets import NOT_KNOWN, Packets
from gradwire.traces.recognition.departures import Times, connection
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.trace import Trace

# How much earlier than one ahead of it a packet may seem to have entered: the kernel takes the time before it
# locks the queue, and a virtual processor may be stopped in between.  If more than MAX_ODD of a capture's
# packets seem to have entered earlier than that, none of its times is used.
MAX_SKEW_NS, MAX_ODD = 1_000_000, 0.01


class Entry(NamedTuple):
    """When a message's first packet entered its source's port, and since when its destination's window had
    room for that; ns, the second 0 where the capture does not show it.
    """

    entered_ns: int
    offered_ns: int


def entries(trace: Trace, some: Sequence[Operation]) -> tuple[dict[int, Entry], list[str]]:
    """By the place in `some`, of the messages of which it is known; and a note on each capture whose delays
    are not used.

    A port sends what enters it in that order, so a time of entry that goes back is none.
    """
    if not any(one.kind == "message" for one in some):
        return {}, []
    rank_of = {address: rank for rank, address in enumerate(trace.addresses)}
    found: defaultdict[tuple[int, int], list[tuple[Times, Times, Times]]] = defaultdict(list)
    notes = []
    for packets in trace.captures:
        if packets.queued_ns is None:
            continue
        is_known = _is_known(packets, packets.queued_ns)
        if is_known is None:
            notes.append(f"{packets.path}: how long packets queued contradicts when they left: not used")
            continue
        (rows_of,) = by_direction([packets])
        shift_of = window_shifts(packets, rows_of)
        for direction, rows in rows_of.items():
            rows = rows[is_known[rows]]  # noqa: PLW2901
            if not len(rows) or direction.src not in rank_of or direction.dst not in rank_of:
                continue
            offered_ns = np.zeros(len(rows), np.int64)
            if {direction, direction.reverse} <= shift_of.keys():
                back = rows_of[direction.reverse]
                offered_ns = _offered_ns(packets, rows, back, shift_of[direction.reverse])
            columns = packets.time_ns[rows], packets.time_ns[rows] - packets.queued_ns[rows], offered_ns
            found[rank_of[direction.src], rank_of[direction.dst]].append(columns)
    return _of_messages(some, {ends: _in_order(parts) for ends, parts in found.items()}), notes


def _is_known(packets: Packets, queued_ns: Ints) -> npt.NDArray[np.bool_] | None:
    """Of which packets it is known how long they queued; None if too many of these times cannot be."""
    is_known: npt.NDArray[np.bool_] = queued_ns != NOT_KNOWN
    rows = np.flatnonzero(is_known)
    rows = rows[np.argsort(packets.time_ns[rows], kind="stable")]
    entered_ns = packets.time_ns[rows] - queued_ns[rows]
    latest_ns = np.maximum.accumulate(np.append(packets.time_ns.min(), entered_ns))
    odd = rows[latest_ns[1:] - entered_ns > MAX_SKEW_NS]
    if len(odd) > MAX_ODD * len(rows):
        return None
    is_known[odd] = False
    return is_known


def _offered_ns(packets: Packets, rows: Ints, back: Ints, shift: int) -> Times:
    """When an acknowledgement offered the room for each of the `rows`; 0 where none that was captured did."""
    sent, answers = connection(packets, rows, back, shift)
    place = np.searchsorted(answers.offered, sent.end)
    return np.append(answers.came_ns, 0)[place]


def _in_order(parts: Sequence[tuple[Times, Times, Times]]) -> tuple[Times, Times, Times]:
    left_ns, entered_ns, offered_ns = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(left_ns, kind="stable")
    return left_ns[order], entered_ns[order], offered_ns[order]


def _of_messages(
    some: Sequence[Operation], by_ends: dict[tuple[int, int], tuple[Times, Times, Times]]
) -> dict[int, Entry]:
    found = {}
    for number, one in enumerate(some):
        if one.kind != "message" or (one.src, one.dst) not in by_ends:
            continue
        left_ns, entered_ns, offered_ns = by_ends[one.src, one.dst]
        place = int(np.searchsorted(left_ns, one.begun[one.src]))
        if place < len(left_ns) and left_ns[place] == one.begun[one.src]:
            found[number] = Entry(int(entered_ns[place]), int(offered_ns[place]))
    return found

"""How long packets queued in their sender's port, from two captures of that host.

The one at the port shows when they left; the other, from before its queue, when they entered it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import by_direction, unwrapped
from gradwire.traces.packets.packets import NOT_KNOWN, Packets

MAX_DELAY_NS = (1 << 32) - 1


class QueueingDelays(NamedTuple):
    """Where the bytes of packets begin in a capture, ascending, and how long each queued.  int64 both."""

    frame_at: Ints
    delay_ns: Ints


def queueing_delays(left: Packets, entered: Packets) -> QueueingDelays:
    """Of the packets of data that both captures of a host have; `entered` is from before its port's queue, by
    the same clock.

    Left out is what TCP sent again, as its bytes may have entered before and been dropped in the queue; what
    queued for less than no time, or for longer than MAX_DELAY_NS.
    """
    none = np.empty(0, np.int64)
    parts = [(none, none), *_by_direction(left, entered)]
    rows, delay_ns = (np.concatenate(column) for column in zip(*parts, strict=True))
    can_be = (delay_ns >= 0) & (delay_ns <= MAX_DELAY_NS)
    rows, delay_ns = rows[can_be], delay_ns[can_be]
    order = np.argsort(left.frame_at[rows])
    return QueueingDelays(left.frame_at[rows][order], delay_ns[order])


def _by_direction(left: Packets, entered: Packets) -> Iterator[tuple[Ints, Ints]]:
    """Rows of `left`, and how long each queued."""
    rows_of, entries_of = by_direction([left, entered])
    for direction in rows_of.keys() & entries_of.keys():
        rows, entries = rows_of[direction], entries_of[direction]
        rows, entries = rows[left.payload_nbytes[rows] > 0], entries[entered.payload_nbytes[entries] > 0]
        if not len(entries):
            continue
        first = entered.seq[entries[:1]]
        begin = unwrapped(entered.seq[entries], first)
        furthest = np.maximum.accumulate(begin + entered.payload_nbytes[entries])
        is_new = np.append(True, begin[1:] >= furthest[:-1])
        entries, begin = entries[is_new], begin[is_new]
        place = np.searchsorted(begin, unwrapped(left.seq[rows], first)).clip(max=len(begin) - 1)
        is_same = left.seq[rows] == entered.seq[entries[place]]
        for name in ("ip_id", "payload_nbytes"):  # Linux sends a packet again with another ip_id
            is_same &= getattr(left, name)[rows] == getattr(entered, name)[entries[place]]
        rows, entries = rows[is_same], entries[place[is_same]]
        yield rows, left.time_ns[rows] - entered.time_ns[entries]


def with_delays(packets: Packets, delays: QueueingDelays | None) -> Packets:
    """The packets of a capture with how long each queued, as far as `delays` have it; None: as they are."""
    if delays is None:
        return packets
    place = np.searchsorted(delays.frame_at, packets.frame_at)
    is_known = np.append(delays.frame_at, -1)[place] == packets.frame_at
    return replace(packets, queued_ns=np.where(is_known, np.append(delays.delay_ns, 0)[place], NOT_KNOWN))

"""When what a host sent had come to its port at the latest, as the host's own capture shows.

Linux lets a connection have two segments in queues, or as many as `gradwire capture` sets
(tcp_limit_output_bytes), and sends the next one when one of these is gone.  On a virtual cable (veth) a
segment counts until it has arrived, wherever in the fabric it waits.  So one had come when the segment so
many places before it was acknowledged.

It may also have waited for room in TCP's windows and in its socket.  The congestion window allows a segment
once no more is unacknowledged than was before; the receiver's window once an acknowledgement offers the room
(RFC 9293, 3.8.6); and a rank that waits for its socket goes on when a third of that is free
(`sk_stream_wspace`, net/core/stream.c).  The capture shows all of it, so a segment had come by the latest of
these times.  Where hosts' routes have a window to begin with (`initcwnd`), the congestion window bounds
nothing.

All this is known of the hosts of `gradwire capture`.  Others may queue otherwise: fq_codel lets a new
connection overtake.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.directions import by_direction, unwrapped, window_shifts
from gradwire.traces.packets.packets import ACK, SYN, Packets
from gradwire.traces.tcpmemory import FILLED, LINUX_SEGMENTS, SEGMENT_OVERHEAD_NBYTES
from gradwire.traces.trace import Trace

Times = npt.NDArray[np.int64]

LEAST_NBYTES = 1_000  # of a packet that counts: how late a small one leaves timers decide


class Departures(NamedTuple):
    """Large packets to one peer (a rank), in order of time: when each left, and when it had come to the port
    at the latest.  Both are int64 ns, one entry for each packet.
    """

    left_ns: Times
    came_ns: Times


class Sent(NamedTuple):
    """Packets of data of one connection, in order of time: when each left, and where in the stream it begins
    and ends, in bytes from the first one on.  int64 all.
    """

    left_ns: Times
    begin: Times
    end: Times


class Answers(NamedTuple):
    """The acknowledgements of a connection, in order of time: when each came, what is acknowledged by then,
    and up to where there is room.  int64; bytes as in Sent, of which none goes back.
    """

    came_ns: Times
    acked: Times
    offered: Times


def departures(trace: Trace, rank: int, captures: Sequence[Packets]) -> dict[int, Departures]:
    """By peer, of a rank whose own `captures` they are; none to which it has several connections."""
    if not trace.is_emulated:
        return {}
    found: defaultdict[int, list[Departures]] = defaultdict(list)
    for packets in captures:
        for peer, some in _of_connections(trace, rank, packets):
            found[peer].append(some)
    return {peer: some[0] for peer, some in found.items() if len(some) == 1}


def _of_connections(trace: Trace, rank: int, packets: Packets) -> Iterator[tuple[int, Departures]]:
    """Those that have large packets."""
    own = trace.addresses[rank]
    rank_of = {address: number for number, address in enumerate(trace.addresses) if address != own}
    (rows_of,) = by_direction([packets])
    shift_of = window_shifts(packets, rows_of)
    for direction, rows in rows_of.items():
        if direction.src != own or direction.dst not in rank_of:
            continue
        rows = rows[packets.payload_nbytes[rows] > 0]  # noqa: PLW2901
        is_large = packets.wire_nbytes[rows] >= LEAST_NBYTES
        if not is_large.any():
            continue
        came_ns = left_ns = packets.time_ns[rows]
        if not packets.n_copies and {direction, direction.reverse} <= shift_of.keys():
            answers = rows_of[direction.reverse]
            sent, answered = connection(packets, rows, answers, shift_of[direction.reverse])
            came_ns = when_come_ns(
                sent,
                answered,
                n_queued=trace.queued_segments or LINUX_SEGMENTS,
                socket_nbytes=trace.messages.socket_nbytes,
                cwnd_bounds=trace.cwnd_bounds,
            )
        yield rank_of[direction.dst], Departures(left_ns[is_large], came_ns[is_large])


def connection(packets: Packets, rows: Times, back: Times, shift: int) -> tuple[Sent, Answers]:
    """What the `rows` of `packets` sent, data all of them, and the acknowledgements among the rows that came
    `back`, whose windows are scaled by `shift` (RFC 7323, 2.2).
    """
    first = packets.seq[rows[:1]]
    begin = unwrapped(packets.seq[rows], first)
    sent = Sent(packets.time_ns[rows], begin, begin + packets.payload_nbytes[rows])
    back = back[packets.flags[back] & (ACK | SYN) == ACK]  # a SYN's window is never scaled
    acked = unwrapped(packets.ack[back], first)
    offered = acked + (packets.window[back].astype(np.int64) << shift)
    answers = Answers(packets.time_ns[back], np.maximum.accumulate(acked), np.maximum.accumulate(offered))
    return sent, answers


def when_come_ns(
    sent: Sent, answers: Answers, *, n_queued: int, socket_nbytes: int | None = None, cwnd_bounds: bool = True
) -> Times:
    """When each packet had come to the port at the latest: not after it left, and then where captures do not
    show it.  int64 ns.

    `n_queued` segments of the connection may be in queues; `socket_nbytes` is the memory of its socket, None
    if it is as large as can be.  Without `cwnd_bounds` no congestion window bounds anything.  Once
    packets were sent again, or where the capture lacks some, nothing is known.
    """
    left_ns, begin, end = sent
    furthest = np.maximum.accumulate(end)
    is_next = np.append(True, begin[1:] == furthest[:-1])
    was_again = np.maximum.accumulate(~is_next & np.append(False, begin[1:] < furthest[:-1]))
    before = np.searchsorted(answers.came_ns, left_ns, "right") - 1  # the last answer when each left
    under_way = end - np.append(answers.acked, 0)[before]
    shown = np.append(0, np.maximum.accumulate(under_way)[:-1])
    needed = [np.searchsorted(answers.offered, end)]
    if cwnd_bounds:
        needed.append(np.searchsorted(answers.acked, end - shown))
    if socket_nbytes is not None:
        largest_nbytes = int((end - begin).max())
        filled_nbytes = FILLED * socket_nbytes * largest_nbytes / (largest_nbytes + SEGMENT_OVERHEAD_NBYTES)
        needed.append(np.searchsorted(answers.acked, end - int(filled_nbytes)))
    freed = np.append(np.zeros(n_queued, np.int64), np.searchsorted(answers.acked, end[:-n_queued]))
    needed.append(freed[: len(end)])
    last = np.max(needed, axis=0)
    lacks = np.cumsum(~is_next)
    has_all = lacks == np.append(np.zeros(n_queued, np.int64), lacks)[: len(lacks)]
    is_known = has_all & ~was_again & (last <= before)
    return np.where(is_known, np.append(answers.came_ns, 0)[np.where(is_known, last, -1)], left_ns)

"""Connections that send segments through queues: what TCP, ports and their first-in first-out queues do.

A port shapes by a token bucket (HTB): it lets a segment go at once when it may send at all, and then nothing
more until the time that the segment takes on its link is over.  So a lone segment crosses any number of
idle links in no time, and what comes next waits, at each of them, for what it owes.  A port that was idle has
saved up to a burst.

An item is what a rank sends without a break.  Of a connection no more than SMALL_QUEUE_SEGMENTS are under
way: a veth pair keeps a segment's socket until its receiver's IP takes it, so that TCP small queues count
what waits in all queues of the fabric, not only in the host's own (`tcp_small_queue_check` in
net/ipv4/tcp_output.c).  That was measured too: with a receive window's worth in the fabric, parameter servers
that share an uplink would take 10 % longer than they do.  TCP has *taken* an item, so that its sender goes
on, when all but a buffer of it has arrived; it has *arrived* when its last segment has.

TCP gives a segment half of the congestion window at most (`tcp_cwnd_test` in net/ipv4/tcp_output.c).  Where a
window's worth is always under way that matters little, and the window grows; but a message of a few packets
is then two segments, the second of which is late.  So the segments of such an item are cut by a window
within WINDOW_PACKETS that goes by the item's number.  Without it ranks keep step as none do, and an allreduce
of such messages is 10 % faster or slower than measured.

A notice, by which a receiver says that it is ready, has next to no bytes but keeps its place: behind the data
of its own connection and of all others in the queues that it comes to.  On one connection a rank writes what
it announces before what it sends at the same instant.  (If it wrote all notices before all data, rings would
be 15 % faster than was measured.)

Acknowledgements take no time: ports send them ahead of data (emu.network.shaping).  Losses are left out, and
slow start, for a connection begins with ten packets once in a run (emu.network.net).
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from controller.model.connections import Event, What

SAME_TIME_S = 1e-12  # times that differ by less are the same, but for rounding
ROUNDING_NBYTES = 1.0  # what rounding may leave of bytes that have arrived
GOLDEN = 0.6180339887498949  # the fractions of its multiples lie as evenly as can be (Weyl)
SMALL_QUEUE_SEGMENTS = 2
# Windows of 23 to 33 packets were seen in replays, and in live trainings at 100 Mb/s 14 % (star) and 28 %
# (BiGraph) of the messages of 15 packets were cut.  Up to 40 packets cut 41 % of them, up to 48 packets 28 %:
# with 40 the rows of trust and bench are nearest to the model, bench of 256 KiB 0.99 to 1.07 and not 0.86.
WINDOW_PACKETS = (23, 40)
NOTICE_NBYTES = 66  # headers and nothing else, of the same order as gloo's 48 bytes and its headers
MOST_STEPS = 600_000  # segments times links, each of which takes 3 µs


class _Segment(NamedTuple):
    flow: int
    nbytes: float
    event: Event


_PART = Event(What.PART, -1)


class Segments:
    """`paths` are those of all connections, by the number of their flow (trees of sums have none); `capacity`
    is that of each link in bytes of payload per second.
    """

    def __init__(
        self,
        paths: Sequence[Sequence[int]],
        capacity: Sequence[float],
        *,
        segment_nbytes: float,
        packet_nbytes: float,
        burst_nbytes: float,
        buffer_nbytes: float,
    ) -> None:
        self._paths = paths
        self._capacity = capacity
        self._segment = segment_nbytes
        self._half_windows = [packet_nbytes * count / 2 for count in WINDOW_PACKETS]
        self._burst = burst_nbytes
        self._buffer = buffer_nbytes
        self._free_s = [0.0] * len(capacity)  # from when on each port may send
        self._queues: list[deque[tuple[_Segment, int]]] = [deque() for _ in capacity]  # and hop of its path
        self._due: list[tuple[float, int]] = []  # (when, port): it has something to send and may
        self._to_send: list[deque[_Segment]] = [deque() for _ in paths]
        self._under_way = [0] * len(paths)  # segments of each connection
        self._arrived = [0.0] * len(paths)
        self._handed = [0.0] * len(paths)
        self._buffered: list[deque[tuple[float, int]]] = [deque() for _ in paths]  # (bytes, item) to be TAKEN
        self._handed_now: dict[int, int] = {}  # segments of data that connections were handed at this instant
        self._events: list[Event] = []

    def add(self, flow: int, item: int, nbytes: float, _now_s: float) -> list[Event]:
        """A connection is handed an item; returns what happens at once."""
        self._handed[flow] += nbytes
        self._buffered[flow].append((self._handed[flow] - self._buffer, item))
        low, high = self._half_windows
        most = self._segment
        if nbytes <= 2 * high:
            most = min(most, low + (high - low) * (item * GOLDEN % 1))
        n_parts = max(1, ceil(nbytes / most)) - 1
        self._to_send[flow] += [_Segment(flow, most, _PART)] * n_parts
        self._to_send[flow].append(_Segment(flow, nbytes - n_parts * most, Event(What.ARRIVED, item)))
        self._handed_now[flow] = self._handed_now.get(flow, 0) + n_parts + 1
        self._take(flow)
        return self._happened()

    def announce(self, flow: int, item: int) -> None:
        """A connection is handed the notice about an item."""
        to_send, n_now = self._to_send[flow], self._handed_now.setdefault(flow, 0)
        to_send.insert(len(to_send) - n_now, _Segment(flow, NOTICE_NBYTES, Event(What.NOTICE, item)))

    def next_s(self, now_s: float) -> float:
        """When a port goes on next: now, if anything was handed over; infinity if nothing is to be sent."""
        if self._handed_now:
            return now_s
        return self._due[0][0] if self._due else inf

    def happened(self, now_s: float) -> list[Event]:
        """Let all ports go on that may by now."""
        handed, self._handed_now = self._handed_now, {}
        for flow in handed:
            self._send(flow, now_s)
        while self._due and self._due[0][0] <= now_s + SAME_TIME_S:
            self._serve(heappop(self._due)[1], now_s)
        return self._happened()

    def _happened(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _send(self, flow: int, now_s: float) -> None:
        """Let a connection hand its own host's port what it may."""
        to_send = self._to_send[flow]
        while to_send and self._under_way[flow] < SMALL_QUEUE_SEGMENTS:
            self._under_way[flow] += 1
            self._enter(to_send.popleft(), 0, now_s)

    def _enter(self, segment: _Segment, hop: int, now_s: float) -> None:
        link = self._paths[segment.flow][hop]
        queue = self._queues[link]
        queue.append((segment, hop))
        if len(queue) == 1:
            if hop and self._free_s[link] <= now_s + SAME_TIME_S:
                self._serve(link, now_s)
            else:  # at its own host's port too: one that may send lets many small ones go
                heappush(self._due, (max(now_s, self._free_s[link]), link))

    def _serve(self, link: int, now_s: float) -> None:
        """A port that may send lets the first segment go, and has to wait before the next."""
        segment, hop = self._queues[link].popleft()
        capacity = self._capacity[link]
        saved_s = max(self._free_s[link], now_s - self._burst / capacity)
        self._free_s[link] = saved_s + segment.nbytes / capacity
        if self._queues[link]:
            heappush(self._due, (max(now_s, self._free_s[link]), link))
        if hop + 1 < len(self._paths[segment.flow]):
            self._enter(segment, hop + 1, now_s)
        else:
            self._arrive(segment)
            self._send(segment.flow, now_s)

    def _arrive(self, segment: _Segment) -> None:
        flow, nbytes, event = segment
        self._under_way[flow] -= 1
        if event.what is not What.NOTICE:
            self._arrived[flow] += nbytes
            self._take(flow)
        if event is not _PART:
            self._events.append(event)

    def _take(self, flow: int) -> None:
        buffered = self._buffered[flow]
        while buffered and buffered[0][0] <= self._arrived[flow] + ROUNDING_NBYTES:
            self._events.append(Event(What.TAKEN, buffered.popleft()[1]))


def n_steps(segment_nbytes: float, sends: Sequence[tuple[float, int]]) -> int:
    """Segments times links of `sends`, each (bytes, links of its path), without what windows cut."""
    return sum(ceil(nbytes / segment_nbytes) * n_links for nbytes, n_links in sends)

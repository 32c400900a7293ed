"""Connections that send segments through queues: models TCP, ports and their FIFO queues.

A port shapes by a token bucket (HTB): it lets a segment go at once when it may send at all, and then nothing
more until the time that the segment takes on its link is over.  So a lone segment crosses any number of
idle links in no time, and what comes next waits, at each of them, for what it owes.  A port that was idle has
saved up to a burst.  Where the processors rested, its timer wakes it late, by less than a burst, so it keeps
its rate.  It then sends at once all that is due: a notice and the data that follow arrive at the same moment.

A rank hands TCP messages: items, which are what it sends without a break, and notices.  TCP makes segments of
them, and how many of these are under way is bounded by the bytes of its own that a connection has in queues:
a veth pair keeps a segment's socket until its receiver's IP takes it, so that all queues of the fabric count,
not only the host's own.  That was measured: with a receive window's worth in the fabric, parameter servers
that share an uplink would take 10 % longer than they do.  Two rules of net/ipv4 follow from it:

- with two segments of a connection or more under way the next waits while they weigh more than
  `small_queue_nbytes` (TCP small queues, `tcp_small_queue_check` in tcp_output.c, with the limit that hosts
  have: emu.network.net);
- what is written and is less than a segment waits while what is under way weighs as much or more, whatever
  TCP_NODELAY says (autocorking, `tcp_should_autocork` in tcp.c).  What is written meanwhile joins it, and the
  next of the connection's segments that arrives releases it.  So a notice waits for one that is under way.
  The kernel keeps the end of a longer write back too; here that goes with the write's whole segments, for
  with it rings of 256 KiB with 8 ranks come out 8 % longer than measured, and no other row changes.

What a segment weighs is its bytes and the kernel's own for it.

What an arrival lets a connection send leaves `release_s` later, and of connections that are released within
that time the last first: the kernel does it in a tasklet, whose list grows at its head (`tcp_wfree` in
tcp_output.c).  So where a notice crosses a link just before data, the next data get ahead of the next notice,
which then waits for both.  Without it, or without late timers, two directions of a shared cable keep step as
none do: rings over an oversubscribed leaf-spine came out 10 % faster than measured.

TCP has *taken* an item, so that its sender goes on, when its last byte is in the socket's buffer; it has
*arrived* when its last byte has.  A sender fills the buffer, whose limit the last segment in it may cross
(`sk_stream_memory_free` in include/net/sock.h), and is woken when a third of it is free
(`sk_stream_is_writeable`).  So a message is taken in steps: the last byte of 170 kB at 20 Mb/s when 91 kB
have arrived, 35.3 ms after the first, as measured.  Where nothing is in its way, the first segment arrives
and is acknowledged, within 10 µs, while the sender still copies, so one more finds room: over 100 Mb/s a
message of 170 kB is taken at once, not after 4 ms.  Who had to wait goes on after the tasklet above.

That a rank is ready to receive (a notice about an item of the other direction), and that it is ready to send,
are bytes of their connection, and keep their place in all queues.  Who hands over says in which order
(planning.model.progress).

Acknowledgements take no time: hosts send them at once and ports ahead of data (emu.network.net, .shaping).
Losses are left out, and congestion windows, which bound nothing from the beginning.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from gradwire.planning.model.hosts import POLLED_S
from gradwire.planning.model.network import EventKind, NetworkEvent
from gradwire.planning.model.socketbuffer import Socket
from gradwire.planning.transport import small_queue_nbytes
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES
from gradwire.traces.tcpmemory import SEGMENT_OVERHEAD_NBYTES

SAME_TIME_S = 1e-12  # times that differ by less are the same, but for rounding
ROUNDING_NBYTES = 0.01  # what rounding may leave of bytes that have arrived
GOLDEN = 0.6180339887498949  # the fractions of its multiples lie as evenly as can be (Weyl)
MOST_STEPS = 600_000  # segments times links, each of which takes up to 3 µs


class Delays(NamedTuple):
    """The kernel's: until it lets a connection send what an arrival allows, and from where to where a port's
    timer is late.
    """

    release_s: float
    late_s: tuple[float, float]


class _Segment(NamedTuple):
    flow: int
    nbytes: float


class _Message(NamedTuple):
    nbytes: float
    event: NetworkEvent  # what its arrival is


class SegmentNetwork:
    """`paths` are those of all connections, by the number of their flow; `capacity` is that of each link in
    bytes of payload per second.  A small packet takes as long there as `lone_nbytes` of a full one.
    After it was idle each link's port may be `bursts_s` ahead of its rate.  `delays` are the kernel's.
    """

    def __init__(
        self,
        paths: Sequence[Sequence[int]],
        capacity: Sequence[float],
        *,
        segment_nbytes: float,
        bursts_s: Sequence[float],
        buffer_nbytes: float,
        lone_nbytes: float,
        delays: Delays,
    ) -> None:
        self._paths = paths
        self._capacity = capacity
        self._segment_nbytes = segment_nbytes
        self._small_queue_nbytes = small_queue_nbytes(segment_nbytes)
        self._socket = Socket.of(buffer_nbytes, segment_nbytes)
        self._lone_nbytes = lone_nbytes
        # From when on each port may send.  All were idle before, and have saved a burst.
        self._free_s = [-burst_s for burst_s in bursts_s]
        self._bursts_s = bursts_s
        self._queues: list[deque[tuple[_Segment, int]]] = [deque() for _ in capacity]  # and hop of its path
        self._due: list[tuple[float, int]] = []  # (when, port): it has something to send and may
        self._handed_over: dict[int, list[_Message]] = {}  # just now
        self._unsent_nbytes = [0.0] * len(paths)  # bytes of each connection
        self._n_under_way = [0] * len(paths)  # segments
        self._weight_nbytes = [0.0] * len(paths)  # of those, in bytes of the kernel's memory
        self._written_nbytes = [0.0] * len(paths)  # bytes of each connection
        self._arrived_nbytes = [0.0] * len(paths)
        self._ends: list[deque[tuple[float, NetworkEvent]]] = [
            deque() for _ in paths
        ]  # (bytes that make it happen, it)
        self._buffered: list[deque[tuple[float, NetworkEvent]]] = [
            deque() for _ in paths
        ]  # likewise, of what is TAKEN
        self._filled_from_nbytes = [0.0] * len(paths)  # what had arrived when its sender filled the buffer
        self._events: list[NetworkEvent] = []
        self._woken: deque[tuple[float, NetworkEvent]] = deque()  # (when, TAKEN), of who had to wait
        self._released: list[int] = []  # connections whose segments arrived while they had more to send
        self._release_s = inf  # when they send it
        self._late_s = delays.late_s
        self._n_rests = 0
        self._last_s = -inf  # when anything last happened, in the network or at a rank, on any processor
        # On fast links a tasklet is not waited for longer than a segment lasts: others are under way.
        self._release_after_s = min(delays.release_s, segment_nbytes / max(capacity, default=inf))

    def add(self, flow: int, item: int, nbytes: float, _now_s: float) -> list[NetworkEvent]:
        event = NetworkEvent(EventKind.ARRIVED, item)
        self._handed_over.setdefault(flow, []).append(_Message(PREAMBLE_NBYTES + nbytes, event))
        return []

    def receiver_ready(self, flow: int, item: int) -> list[NetworkEvent]:
        event = NetworkEvent(EventKind.NOTICE, item)
        self._handed_over.setdefault(flow, []).append(_Message(PREAMBLE_NBYTES, event))
        return []

    def sender_ready(self, flow: int, item: int) -> list[NetworkEvent]:
        event = NetworkEvent(EventKind.ASKED, item)
        self._handed_over.setdefault(flow, []).append(_Message(PREAMBLE_NBYTES, event))
        return []

    def advance(self, now_s: float, until_s: float) -> tuple[float, list[NetworkEvent]]:
        """Let ports go on, from one instant to the next, until something happens that concerns a rank."""
        next_s = now_s if self._handed_over else min(self._next_s(), until_s)
        while next_s < inf:
            now_s = max(now_s, next_s)
            self._go_on(now_s)
            if self._events or until_s <= now_s + SAME_TIME_S:
                events, self._events = self._events, []
                return now_s, events
            next_s = min(self._next_s(), until_s)
        return inf, []

    def _next_s(self) -> float:
        """When a port goes on, which is late if nothing happened before, or who was woken; infinity if none
        will.
        """
        next_s = self._due[0][0] if self._due else inf
        if self._last_s + POLLED_S < next_s < inf:
            low_s, high_s = self._late_s
            late_s = low_s + (high_s - low_s) * (self._n_rests * GOLDEN % 1)
            next_s += late_s
        if self._woken and self._woken[0][0] < next_s:
            next_s = self._woken[0][0]
        return min(next_s, self._release_s)

    def _go_on(self, now_s: float) -> None:
        """Let all ports go on that may by now."""
        self._n_rests += now_s - self._last_s > POLLED_S
        self._last_s = now_s
        if self._handed_over:
            written, self._handed_over = self._handed_over, {}
            for flow, messages in written.items():
                for message in messages:
                    self._write(flow, message, now_s)
        due, same_s = self._due, now_s + SAME_TIME_S
        while due and due[0][0] <= same_s:
            segment, hop = self._leave(heappop(due)[1], now_s)
            self._enter(segment, hop + 1, now_s)
        if self._release_s <= same_s:
            released, self._released, self._release_s = self._released, [], inf
            for flow in reversed(released):
                self._send(flow, now_s)
        while self._woken and self._woken[0][0] <= same_s:
            self._events.append(self._woken.popleft()[1])

    def _write(self, flow: int, message: _Message, now_s: float) -> None:
        """Add to what a connection has to send; let it send, if that is not to wait."""
        self._unsent_nbytes[flow] += message.nbytes
        self._written_nbytes[flow] += message.nbytes
        self._ends[flow].append((self._written_nbytes[flow] - ROUNDING_NBYTES, message.event))
        unsent = self._unsent_nbytes[flow]
        if unsent >= self._segment_nbytes or self._weight_nbytes[flow] < unsent + SEGMENT_OVERHEAD_NBYTES:
            self._send(flow, now_s)
        if message.event.what is EventKind.ARRIVED:
            taken = NetworkEvent(EventKind.TAKEN, message.event.item)
            self._buffered[flow].append((self._taken_nbytes(flow) - ROUNDING_NBYTES, taken))
            self._events += self._reached(self._buffered[flow], flow)

    def _taken_nbytes(self, flow: int) -> float:
        """How much has arrived when all that is written is in the buffer of the connection's socket."""
        if not self._buffered[flow]:
            self._filled_from_nbytes[flow] = self._arrived_nbytes[flow]
        return self._socket.taken_nbytes(self._filled_from_nbytes[flow], self._written_nbytes[flow])

    def _send(self, flow: int, now_s: float) -> None:
        """Let a connection hand its own host's port what it may."""
        while (unsent := self._unsent_nbytes[flow]) > 0:
            if self._n_under_way[flow] > 1 and self._weight_nbytes[flow] > self._small_queue_nbytes:
                return
            nbytes = min(unsent, self._segment_nbytes)
            self._unsent_nbytes[flow] -= nbytes
            self._n_under_way[flow] += 1
            self._weight_nbytes[flow] += nbytes + SEGMENT_OVERHEAD_NBYTES
            self._enter(_Segment(flow, nbytes), 0, now_s)

    def _enter(self, segment: _Segment, hop: int, now_s: float) -> None:
        """A segment goes on from this hop of its path, over as many ports as may send at once."""
        path = self._paths[segment.flow]
        while hop < len(path):
            link = path[hop]
            queue, free_s = self._queues[link], self._free_s[link]
            if queue or free_s > now_s + SAME_TIME_S:
                if not queue:
                    heappush(self._due, (free_s, link))
                queue.append((segment, hop))
                return
            self._occupy(link, segment.nbytes, now_s)
            hop += 1
        self._arrive(segment, now_s)

    def _leave(self, link: int, now_s: float) -> tuple[_Segment, int]:
        """A port that may send lets the first segment go, and has to wait before the next."""
        queue = self._queues[link]
        segment, hop = queue.popleft()
        free_s = self._occupy(link, segment.nbytes, now_s)
        if queue:
            heappush(self._due, (free_s, link))
        return segment, hop

    def _occupy(self, link: int, nbytes: float, now_s: float) -> float:
        """Until when a port may send nothing more after these bytes."""
        capacity, free_s = self._capacity[link], self._free_s[link]
        saved_s = now_s - self._bursts_s[link]
        begins_s = max(free_s, saved_s)
        occupied = max(nbytes, self._lone_nbytes)
        self._free_s[link] = free_s = begins_s + occupied / capacity
        return free_s

    def _arrive(self, segment: _Segment, now_s: float) -> None:
        flow, nbytes = segment
        self._n_under_way[flow] -= 1
        self._weight_nbytes[flow] -= nbytes + SEGMENT_OVERHEAD_NBYTES
        self._arrived_nbytes[flow] += nbytes
        self._events += self._reached(self._ends[flow], flow)
        release_s = now_s + self._release_after_s
        self._woken += [(release_s, taken) for taken in self._reached(self._buffered[flow], flow)]
        if self._unsent_nbytes[flow] > 0 and flow not in self._released:
            self._released.append(flow)
            self._release_s = min(self._release_s, release_s)

    def _reached(self, waiting: deque[tuple[float, NetworkEvent]], flow: int) -> list[NetworkEvent]:
        """What the arrival of that many bytes makes happen, which waits no longer."""
        reached = list[NetworkEvent]()
        while waiting and waiting[0][0] <= self._arrived_nbytes[flow]:
            reached.append(waiting.popleft()[1])
        return reached


def n_steps(segment_nbytes: float, sends: Sequence[tuple[float, int]]) -> int:
    """Segments and notices times links of `sends`, each (bytes, links of its path), windows left out."""
    return sum((ceil(nbytes / segment_nbytes) + 2) * n_links for nbytes, n_links in sends)

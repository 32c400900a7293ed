"""How long a host's port had been busy when a packet left it, as the host's own capture shows.

A port that always has something to send spaces packets by their length over its rate.  The rate is that of
the fastest runs of a few packets: a single one may follow early, by a token bucket's burst.  Of a port that
is never busy for so long it comes out too low, and the port seems busy for too long.

What a port sends next to one peer while it also sends to others tells more.  Linux hands a connection's next
segment to the port when one of the two that it may have there has left.  So what left between two segments of
another connection had come to the port before the first of them began to leave, or the second would have been
ahead of it.  A virtual cable (veth) has done with a segment when it begins to leave, not when it has left:
there the bound is a segment earlier, when the one before those two began to leave, and where a connection may
have three segments there, as `gradwire capture` sets it, one more.  (By their logs workers had written 1,717
pushes on nine such fabrics 0.05 ms before that at the latest, the median 0.2 ms.)

That takes a port that sends in the order in which packets come, and a connection that nothing else held up.
A segment may also have waited for TCP's windows: for an acknowledgement with which no more was under way
than had been before, since packets were last lost, and for one that offers its receiver's room (RFC 9293,
3.8.6).  Both are in the capture, so it had come when the last of the three was there.  Where hosts' routes
have a window to begin with (`initcwnd`), as `gradwire capture` sets it, the first need not be shown.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.directions import by_direction, first_syns, own_address
from gradwire.traces.packets.packets import ACK, NO_SHIFT, SYN, Packets
from gradwire.traces.threads import in_threads
from gradwire.traces.trace import Trace
from gradwire.traces.workload import MAX_GAP_NS

RUN, FASTEST = 4, 0.99  # packets; on links of 20 and 100 Mb/s 0.97 to 1.15 of the rate, of one in three less
LEAST_NBYTES = 1_000  # of a packet that counts: how late a small one leaves timers decide
SLACK, SLACK_NS = 0.25, 300_000  # beyond a packet's own time: bursts, and how late a shaper's timer may be
QUEUED_SEGMENTS = 2  # of a connection, as Linux has it (`tcp_small_queue_check`, net/ipv4)
QUEUED_WHERE_SET = 3  # where a manifest has tcp_limit_output_bytes: planning.transport.SMALL_QUEUE_SEGMENTS
QUEUED_NBYTES = QUEUED_SEGMENTS * 64 * 1024

_MOST_NBYTES = 1 << 40  # more than TCP's windows can be

Times = npt.NDArray[np.int64]
MOST_SHIFT = 14
IDLE_NS = 200_000_000  # after a retransmission timeout, this at least, Linux forgets a congestion window


class Data(NamedTuple):
    """Large packets to a peer, in order: when they left, and when TCP's windows had let each of them go at
    the latest.
    """

    left_ns: Times
    let_go_ns: Times


@dataclass(frozen=True)
class HostPort:
    """`left_ns`: when packets left, in order; `since_ns`: since when the port had been busy then;
    `free_ns`: until when it was, at least, if nothing else came.  `data` is by peer (rank).
    `queued_segments` and `queued_nbytes`: how much of a connection may wait in the port.
    """

    left_ns: Times
    since_ns: Times
    free_ns: Times
    rate: float  # bytes per ns
    data: Mapping[int, Data] = field(default_factory=dict)
    is_virtual: bool = False
    queued_segments: int = QUEUED_SEGMENTS
    queued_nbytes: int = QUEUED_NBYTES

    @property
    def queue_ns(self) -> int:
        """How long what a connection may have in the port's queue takes."""
        return round(self.queued_nbytes / self.rate)

    def busy_since_ns(self, at_ns: int) -> int:
        """`at_ns` itself if the port was idle before."""
        place = int(np.searchsorted(self.left_ns, at_ns, "right")) - 1
        return int(self.since_ns[place]) if place >= 0 and self.free_ns[place] >= at_ns else at_ns

    def came_ns(self, at_ns: int, since_ns: Mapping[int, int]) -> int:
        """When at the latest what left at `at_ns` had come to the port, by the data for each peer that left
        before and after, of the message to it that began to leave at its `since_ns`.  `at_ns` itself where
        they do not tell.
        """
        found = [at_ns]
        before = self.queued_segments - (0 if self.is_virtual else 1)
        for peer, begun_ns in since_ns.items():
            if peer not in self.data:
                continue
            left_ns, let_go_ns = self.data[peer]
            place = int(np.searchsorted(left_ns, at_ns, "left"))
            if 0 < place < len(left_ns) and self.busy_since_ns(int(left_ns[place])) <= at_ns:
                found.append(max(begun_ns, int(left_ns[max(place - before, 0)]), int(let_go_ns[place])))
        return min(found)


def ports(trace: Trace) -> dict[int, HostPort]:
    """By rank, for those whose own captures are there and show a rate."""
    files = defaultdict(list)
    for packets in trace.captures:
        host = own_address(packets)
        if host in trace.addresses:
            files[trace.addresses.index(host)].append(packets)
    found = in_threads(partial(_port, trace), [*files], [*files.values()])
    return {rank: port for rank, port in zip(files, found, strict=True) if port is not None}


def _port(trace: Trace, rank: int, captures: Sequence[Packets]) -> HostPort | None:
    """Of a rank, whose own `captures` they are."""
    sent = [(packets, _is_sent(trace, rank, packets)) for packets in captures]
    left_ns, nbytes = (
        np.concatenate([getattr(packets, name)[is_sent] for packets, is_sent in sent]).astype(np.int64)
        for name in ("time_ns", "wire_nbytes")
    )
    order = np.argsort(left_ns, kind="stable")
    port = port_of(left_ns[order], nbytes[order])
    if port is None:
        return None
    parts: defaultdict[int, list[Data]] = defaultdict(list)
    for packets in captures:
        for peer, data in _sent(trace, rank, packets):
            parts[peer].append(data)
    return replace(
        port,
        data={peer: _in_order(some) for peer, some in parts.items()},
        is_virtual=trace.is_emulated,
        queued_segments=QUEUED_WHERE_SET if trace.queued_nbytes else QUEUED_SEGMENTS,
        queued_nbytes=trace.queued_nbytes or QUEUED_NBYTES,
    )


def _is_sent(trace: Trace, rank: int, packets: Packets) -> npt.NDArray[np.bool_]:
    """Which packets are the rank's own."""
    own = packets.addresses.index(trace.addresses[rank])
    return np.asarray((packets.src == own) & (packets.protocol != 0))


def _sent(trace: Trace, rank: int, packets: Packets) -> Iterator[tuple[int, Data]]:
    """What a rank sent to others on each connection."""
    rank_of = {address: rank for rank, address in enumerate(trace.addresses)}
    (rows_of,) = by_direction([packets])
    syn_of = first_syns(packets, rows_of)
    for direction, rows in rows_of.items():
        if direction.src != trace.addresses[rank] or direction.dst not in rank_of:
            continue
        sent = rows[packets.payload_nbytes[rows] > 0]
        is_large = packets.wire_nbytes[sent] >= LEAST_NBYTES
        if not is_large.any():
            continue
        left_ns = packets.time_ns[sent]
        let_go_ns, back = left_ns, direction.reverse
        if back in rows_of and {direction, back} <= syn_of.keys():
            shifts = [int(packets.window_shift[syn_of[each]]) for each in (back, direction)]
            # Scaled only where both offer it, and by 14 at most (RFC 7323, 1.3 and 2.3).
            shift = 0 if NO_SHIFT in shifts else min(shifts[0], MOST_SHIFT)
            is_open, forgets = trace.has_open_windows, not trace.is_emulated
            let_go_ns = when_let_go_ns(packets, sent, rows_of[back], shift, is_open=is_open, forgets=forgets)
        yield rank_of[direction.dst], Data(left_ns[is_large], let_go_ns[is_large])


def when_let_go_ns(
    packets: Packets, rows: Times, answers: Times, shift: int, *, is_open: bool, forgets: bool
) -> Times:
    """When TCP's windows had let each packet of data in `rows` go at the latest, by the connection's
    `answers`, whose windows are scaled by `shift`; when it left where they do not show it.

    With `is_open` no congestion window bounds anything until packets are sent again.  Where it `forgets`, one
    that was shown is taken for lost when nothing was sent for IDLE_NS (RFC 5681, 4.1).
    """
    left_ns, first = packets.time_ns[rows], packets.seq[rows[:1]]
    answers = answers[packets.flags[answers] & (ACK | SYN) == ACK]
    if not len(answers):
        return left_ns
    came_ns, acked = packets.time_ns[answers], _unwrapped(packets.ack[answers], first)
    offered = np.maximum.accumulate(acked + (packets.window[answers].astype(np.int64) << shift))
    acked = np.maximum.accumulate(acked)
    end = _unwrapped(packets.seq[rows], first) + packets.payload_nbytes[rows]
    before = np.searchsorted(came_ns, left_ns, "left") - 1
    begins = np.append(True, end[1:] <= np.maximum.accumulate(end)[:-1])  # sent again: some were lost
    opens = (np.cumsum(begins) == 1) & is_open
    if forgets:
        begins[1:] |= np.diff(left_ns) > IDLE_NS
    window = _most_before(end - np.where(before >= 0, acked[before], 0), begins)
    window[opens] = _MOST_NBYTES
    needed = np.maximum(np.searchsorted(acked, end - window), np.searchsorted(offered, end))
    return np.where((window > 0) & (needed <= before), came_ns[np.minimum(needed, before)], left_ns)


def _unwrapped(numbers: npt.NDArray[np.uint32], first: npt.NDArray[np.uint32]) -> Times:
    """Sequence numbers from the first on, which wrap around at 2^32."""
    steps = np.diff(numbers, prepend=first).astype(np.int32).astype(np.int64)
    return np.cumsum(steps)


def _most_before(values: Times, begins: npt.NDArray[np.bool_]) -> Times:
    """Of each value the largest before it, none from before the last of `begins`; 0 at these."""
    group = np.cumsum(begins) * _MOST_NBYTES
    most = np.maximum.accumulate(np.clip(values, 0, _MOST_NBYTES - 1) + group)
    return np.where(begins, 0, np.append(0, most[:-1]) - group)


def _in_order(parts: Sequence[Data]) -> Data:
    left_ns, let_go_ns = (np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True))
    order = np.argsort(left_ns, kind="stable")
    return Data(left_ns[order], let_go_ns[order])


def port_of(left_ns: Times, nbytes: Times) -> HostPort | None:
    """Of packets in order; None where too few are large to show a rate."""
    rate = _rate(left_ns, nbytes)
    if rate is None:
        return None
    took_ns = np.minimum(nbytes / rate * (1 + SLACK), MAX_GAP_NS)  # of packets that are years apart too
    free_ns = left_ns + took_ns.astype(np.int64) + SLACK_NS
    begins = np.append(True, left_ns[1:] > free_ns[:-1])
    first = np.maximum.accumulate(np.where(begins, np.arange(len(left_ns)), 0))
    return HostPort(left_ns, left_ns[first], free_ns, rate)


def _rate(left_ns: Times, nbytes: Times) -> float | None:
    large = nbytes >= LEAST_NBYTES
    left_ns, before = left_ns[large], np.append(0, np.cumsum(nbytes[large]))
    run = min(RUN, len(left_ns) - 1)
    if run < 1:
        return None
    took_ns = left_ns[run:] - left_ns[:-run]
    rates = (before[run:-1] - before[: -run - 1])[took_ns > 0] / took_ns[took_ns > 0]
    return float(np.quantile(rates, FASTEST)) if len(rates) else None

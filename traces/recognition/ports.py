"""How long a host's port had been busy when a packet left it, as the host's own capture shows.

A port that always has something to send spaces packets by their length over its rate.  The rate is that of
the fastest runs of a few packets: a single one may follow early, by a token bucket's burst.  Of a port that
is never busy for so long it comes out too low, and the port seems busy for too long.

What a port sends next to one peer while it also sends to others tells more.  What left before a segment of
another connection had come to the port before it, if the port sends in the order in which packets come, as in
`gradwire capture`.  When that segment had come at the latest may be known (traces.recognition.departures); of
several connections the earliest such time counts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.directions import own_address
from gradwire.traces.packets.packets import Packets
from gradwire.traces.recognition.departures import (
    LEAST_NBYTES,
    Departures,
    Times,
    departures,
)
from gradwire.traces.tcpmemory import LINUX_SEGMENTS
from gradwire.traces.threads import in_threads
from gradwire.traces.trace import Trace
from gradwire.traces.workload import MAX_GAP_NS

RUN, FASTEST = 4, 0.99  # packets; on links of 20 and 100 Mb/s 0.97 to 1.15 of the rate, of one in three less
SLACK = 0.25  # beyond a packet's own time: bursts
TIMER_LATE_NS = 300_000  # how late a shaper's timer may be
SURE_NS = 4 * TIMER_LATE_NS  # a run of packets that long shows a rate, whatever the timer
Spans = tuple[Times, Times]  # where each begins and ends, in order and apart
QUEUED_NBYTES = LINUX_SEGMENTS * 64 * 1024


@dataclass(frozen=True)
class HostPort:
    """`left_ns`: when packets left, in order; `since_ns`: since when the port had been busy then;
    `free_ns`: until when it was, at least, if nothing else came; `large_ns`: when large packets left;
    `rate`: bytes per ns.  `data` is by peer (rank), as far as it is known when that came, and
    `queued_nbytes` how much of a connection may wait in the port.
    """

    left_ns: Times
    since_ns: Times
    free_ns: Times
    large_ns: Times
    rate: float
    data: Mapping[int, Departures] = field(default_factory=dict)
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
        for peer, begun_ns in since_ns.items():
            if peer not in self.data:
                continue
            left_ns, came_ns = self.data[peer]
            place = int(np.searchsorted(left_ns, at_ns, "left"))
            if 0 < place < len(left_ns) and self.busy_since_ns(int(left_ns[place])) <= at_ns:
                found.append(max(begun_ns, int(came_ns[place])))
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
    own = trace.messages.where((trace.messages.src == rank) & trace.messages.is_data)
    port = port_of(left_ns[order], nbytes[order], _spans(own.first_ns, own.last_ns))
    if port is None:
        return None
    return replace(
        port,
        data=departures(trace, rank, captures),
        queued_nbytes=trace.queued_nbytes or QUEUED_NBYTES,
    )


def _is_sent(trace: Trace, rank: int, packets: Packets) -> npt.NDArray[np.bool_]:
    """Which packets are the rank's own."""
    own = packets.addresses.index(trace.addresses[rank])
    return np.asarray((packets.src == own) & (packets.protocol != 0))


def _spans(first_ns: Times, last_ns: Times) -> Spans:
    """When at least one message was leaving; from the times of each, in order of the first."""
    until_ns = np.maximum.accumulate(last_ns)
    begins = np.append(True, first_ns[1:] > until_ns[:-1])[: len(first_ns)]
    return first_ns[begins], until_ns[np.append(begins[1:], True)[: len(first_ns)]]


def port_of(left_ns: Times, nbytes: Times, spans: Spans | None = None) -> HostPort | None:
    """Of packets in order; None where too few are large to show a rate.

    `spans` are when messages were leaving.  Between them the rank may compute, so packets of two spans may be
    further apart than the link's rate makes them.  None: all belong together.
    """
    rate = _rate(left_ns, nbytes, spans)
    if rate is None:
        return None
    took_ns = np.minimum(nbytes / rate * (1 + SLACK), MAX_GAP_NS)  # of packets that are years apart too
    free_ns = left_ns + took_ns.astype(np.int64) + TIMER_LATE_NS
    begins = np.append(True, left_ns[1:] > free_ns[:-1])
    first = np.maximum.accumulate(np.where(begins, np.arange(len(left_ns)), 0))
    return HostPort(left_ns, left_ns[first], free_ns, left_ns[nbytes >= LEAST_NBYTES], rate)


def _rate(left_ns: Times, nbytes: Times, spans: Spans | None) -> float | None:
    """That of all packets, or of those within one message where these were clearly faster.

    None where no message has two large packets: then nothing tells the link from computing.
    """
    large = nbytes >= LEAST_NBYTES
    left_ns, before = left_ns[large], np.append(0, np.cumsum(nbytes[large]))
    begin_ns, end_ns = spans or (left_ns[:1], left_ns[-1:])
    place = np.searchsorted(begin_ns, left_ns, "right") - 1
    is_within = (place >= 0) & (left_ns <= np.append(end_ns, 0)[place])
    usual = None
    for run in range(min(RUN, len(left_ns) - 1), 0, -1):
        took_ns = left_ns[run:] - left_ns[:-run]
        rates = (before[run:-1] - before[: -run - 1]) / np.maximum(took_ns, 1)
        if usual is None and (took_ns > 0).any():
            usual = float(np.quantile(rates[took_ns > 0], FASTEST))
        is_one = (took_ns > 0) & is_within[run:] & is_within[:-run] & (place[run:] == place[:-run])
        if usual is not None and is_one.any():
            is_sure = is_one & (took_ns >= SURE_NS)
            within = float(np.quantile(rates[is_sure], FASTEST)) if is_sure.any() else usual
            return within if within > (1 + SLACK) * usual else usual
    return None

"""How long a host's port had been busy when a packet left it, as the host's own capture shows.

A port that always has something to send spaces packets by their length over its rate.  The rate is that of
the fastest runs of a few packets: a single one may follow early, by a token bucket's burst.  Of a port that
is never busy for so long it comes out too low, and the port seems busy for too long.

What a port sends next to one peer while it also sends to others tells more.  Linux hands a connection's next
segment to the port when one of the two that it may have there has left.  So what left between two segments of
another connection had come to the port before the first of them began to leave, or the second would have been
ahead of it.  A virtual cable (veth) has done with a segment when it begins to leave, not when it has left:
there the bound is a segment earlier, when the one before those two began to leave.  (Workers of 330 pushes on
four such fabrics had written them 0.06 ms before that at the latest by their logs, the median 0.1 ms.)

That takes a port that sends in the order in which packets come, and a connection that this port holds up: one
that waits for another link, for its window or for its receiver says too early a time.  So of several
connections the one with the latest time decides.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.directions import own_address
from gradwire.traces.packets.packets import Packets
from gradwire.traces.threads import in_threads
from gradwire.traces.trace import Trace
from gradwire.traces.workload import MAX_GAP_NS

RUN, FASTEST = 4, 0.99  # packets; on links of 20 and 100 Mb/s 0.97 to 1.15 of the rate, of one in three less
LEAST_NBYTES = 1_000  # of a packet that counts: how late a small one leaves timers decide
SLACK, SLACK_NS = 0.25, 300_000  # beyond a packet's own time: bursts, and how late a shaper's timer may be
QUEUED_NBYTES = 2 * 64 * 1024  # Linux: two segments of a connection (`tcp_small_queue_check`, net/ipv4)

Times = npt.NDArray[np.int64]
_NONE: Times = np.empty(0, np.int64)


@dataclass(frozen=True)
class HostPort:
    """`left_ns`: when packets left, in order; `since_ns`: since when the port had been busy then;
    `free_ns`: until when it was, at least, if nothing else came.  `data_ns`: by peer (rank), when large
    packets to it left.  `queued_nbytes`: how much of a connection may wait in the port.
    """

    left_ns: Times
    since_ns: Times
    free_ns: Times
    rate: float  # bytes per ns
    data_ns: Mapping[int, Times] = field(default_factory=dict)
    is_virtual: bool = False
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
        found = []
        before = 2 if self.is_virtual else 1
        for peer, begun_ns in since_ns.items():
            times_ns = self.data_ns.get(peer, _NONE)
            place = int(np.searchsorted(times_ns, at_ns, "left"))
            if 0 < place < len(times_ns) and self.busy_since_ns(int(times_ns[place])) <= at_ns:
                found.append(max(begun_ns, int(times_ns[max(place - before, 0)])))
        return max(found, default=at_ns)


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
    parts = [_sent(trace, rank, packets) for packets in captures]
    left_ns, nbytes, peers = (np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True))
    order = np.argsort(left_ns, kind="stable")
    left_ns, nbytes, peers = left_ns[order], nbytes[order], peers[order]
    port = port_of(left_ns, nbytes)
    if port is None:
        return None
    large = nbytes >= LEAST_NBYTES
    data_ns = {peer: left_ns[large & (peers == peer)] for peer in np.unique(peers[large]).tolist()}
    queued_nbytes = trace.queued_nbytes or QUEUED_NBYTES
    return replace(port, data_ns=data_ns, is_virtual=trace.is_emulated, queued_nbytes=queued_nbytes)


def _sent(trace: Trace, rank: int, packets: Packets) -> tuple[Times, Times, Times]:
    """When packets of a rank left, how large they are on the wire, and to which ranks; -1 for others."""
    is_sent = (packets.src == packets.addresses.index(trace.addresses[rank])) & (packets.protocol != 0)
    rank_of = {address: rank for rank, address in enumerate(trace.addresses)}
    peers = np.array([rank_of.get(address, -1) for address in packets.addresses], np.int64)
    return packets.time_ns[is_sent], packets.wire_nbytes[is_sent], peers[packets.dst[is_sent]]


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

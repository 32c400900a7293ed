"""Settings of TCP and of ports that make a slow link behave like a fast link, slowed down.

At 100 Gb/s a 64 KB segment lasts 5 µs, at 50 Mb/s 10 ms: with the kernel's defaults a contention-free
collective measures 2.1 times its ideal here.  So what is a number of bytes scales with the link rate.
"""

from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES, Fabric
from gradwire.planning.fabrics.paths import access_switch, distances
from gradwire.traces.tcpmemory import SEGMENT_OVERHEAD_NBYTES, SMALL_QUEUE_SEGMENTS

TCP_HEADERS_NBYTES = 20 + 20 + 12  # IPv4, TCP and its timestamp option (RFC 7323, appendix A)

CONGESTION_CONTROL = "cubic"
# What a port may send at once: for so long at its rate, or so many frames if these last longer.  Its timer is
# late at times (LATE_S of planning.model.hosts), and what is later than the burst is lost to the rate.
BURST_S, BURST_FRAMES = 100e-6, 2
SEGMENT_S = 0.002  # a store-and-forward hop costs one segment; below 1 ms the CPU becomes the bottleneck
MAX_SEGMENTS_PER_S = 8000  # of all hosts together: what two cores carry with a sixth of their time to spare
# Five hops hold one each; ACKs come back ahead of data.  Where Linux sizes sockets, 64 to 190 KB are under
# way at 100 Mb/s; with twice as much a source is done with its sends earlier, and an iteration 6 % shorter.
RECEIVE_WINDOW_SEGMENTS = 5
MIN_RCVBUF_NBYTES = 128 * 1024
MAX_RCVBUF_NBYTES = 4 * 1024 * 1024
MAX_GSO_NBYTES = 64 * 1024
MIN_UNSENT_NBYTES = 256 * 1024
# Ten times a window in a round trip (tcp_pacing_ca_ratio, emu.network.net) is 2.6 MB at 100 Mb/s: three
# segments in a millisecond while that is shorter than 40 ms.  With eight windows it may be 300 ms long.
PACES = 8
HEADROOM_NBYTES = 320 + 1  # of the largest segment, for headers (`sk_setup_caps` in net/core/sock.c)


def port_burst_nbytes(nbytes_per_s: float, frame_nbytes: int) -> int:
    """What a port that was idle may send at once.

    With two frames, which last 24 us at 1 Gb/s, a port there was 1.5 % slower than its rate.
    """
    return max(BURST_FRAMES * frame_nbytes, int(BURST_S * nbytes_per_s))


@dataclass(frozen=True, slots=True)
class Transport:
    """How the hosts' TCP and the ports are set; scaled with the link rate (`fabric_transport`)."""

    congestion_control: str
    rcvbuf_nbytes: int
    sndbuf_nbytes: int
    gso_max_nbytes: int


def tcp_payload_nbytes(mtu_nbytes: int) -> int:
    """What a full packet carries."""
    return mtu_nbytes - TCP_HEADERS_NBYTES


def payload_efficiency(mtu_nbytes: int) -> float:
    """The share of a link's rate that is TCP's payload, in full frames."""
    return tcp_payload_nbytes(mtu_nbytes) / (ETHERNET_NBYTES + mtu_nbytes)


def transport_for(
    rate_bps: int,
    mtu_nbytes: int,
    queue_nbytes: int | None = None,
    round_trip_s: float = 0.0,
    n_hosts: int = 1,
) -> Transport:
    """Socket buffers as Linux would size them, and for five segments, segments of about 2 ms of link time.

    They are longer with more than 16 hosts: whatever the rate, work is done by the segment, and all hosts
    share the machine's processors.
    `round_trip_s` is what the cables delay on their own: so much more must be under way.
    Of an explicit queue a segment takes a quarter at most: a larger one than the queue would never pass.
    A segment is two packets at least, one where a queue has no room for two; a window is that many segments
    at least, however few bytes the rate asks for.
    """
    segment_s = max(SEGMENT_S, n_hosts / MAX_SEGMENTS_PER_S)
    longest = MAX_GSO_NBYTES if queue_nbytes is None else min(MAX_GSO_NBYTES, queue_nbytes // 4)
    is_tiny = queue_nbytes is not None and queue_nbytes < 2 * (ETHERNET_NBYTES + mtu_nbytes)
    gso = mtu_nbytes if is_tiny else max(min(int(rate_bps / 8 * segment_s), longest), 2 * mtu_nbytes)
    window = int(rate_bps / 8 * (RECEIVE_WINDOW_SEGMENTS * segment_s + round_trip_s))
    least = max(RECEIVE_WINDOW_SEGMENTS * gso, MIN_RCVBUF_NBYTES)
    rcvbuf = min(max(window, least), MAX_RCVBUF_NBYTES)
    return Transport(
        congestion_control=CONGESTION_CONTROL,
        rcvbuf_nbytes=rcvbuf,
        sndbuf_nbytes=rcvbuf // 2,
        gso_max_nbytes=gso,
    )


def buffered_nbytes(sndbuf_nbytes: int) -> int:
    """The memory that a sender's socket has if SO_SNDBUF was set to so much; Linux doubles it (socket(7))."""
    return 2 * sndbuf_nbytes


def segment_nbytes(gso_max_nbytes: float, mtu_nbytes: int) -> int:
    """What the kernel's largest segment carries: whole packets, one at least."""
    payload_nbytes = tcp_payload_nbytes(mtu_nbytes)
    return max(1, int(gso_max_nbytes - HEADROOM_NBYTES) // payload_nbytes) * payload_nbytes


def small_queue_nbytes(segment_nbytes: float) -> float:
    """The limit on a connection's queued memory, above which TCP sends no further segment
    (tcp_limit_output_bytes, ip-sysctl.rst).  It lies between two and three segments, so that a third one
    leaves and a fourth does not.
    """
    return (SMALL_QUEUE_SEGMENTS - 0.5) * (segment_nbytes + SEGMENT_OVERHEAD_NBYTES)


def initial_window_packets(fabric: Fabric, transport: Transport) -> int | None:
    """The congestion window with which connections begin: PACES times all that a receiver's memory holds, so
    that neither it bounds what is sent nor the pace that Linux makes of it.  None, for Linux's own ten, where
    TCP has to find out: what queues of a given length take, and how much is under way on cables that delay
    (netem has a segment leave its socket).

    What slow start ends with hangs on delays of microseconds, and a connection keeps it for a whole run.  TCP
    gives a segment half of its window at most, so of some connections every message took a segment more than
    of others, and asynchronous servers an iteration of 80 or 92 ms.
    """
    if any(link.queue_nbytes is not None or link.delay_ns for link in fabric.links):
        return None
    return PACES * -(-2 * transport.rcvbuf_nbytes // tcp_payload_nbytes(fabric.mtu_nbytes))


def unsent_nbytes(transport: Transport) -> int:
    """What a rank hands to TCP of one connection before it is sent, at most (TCP_NOTSENT_LOWAT): a fifth of
    the receive buffer, which is 2 ms of the rate with up to 16 hosts, no delays and up to 3.3 Gb/s; 256 KiB
    if that is more.  TCP asks for more when half of it is left.

    To copy a whole buffer, 1.2 MB at 1 Gb/s, takes half a millisecond of a processor, in which other ranks
    begin nothing.
    """
    return max(MIN_UNSENT_NBYTES, transport.rcvbuf_nbytes // RECEIVE_WINDOW_SEGMENTS)


def held_nbytes(transport: Transport) -> int:
    """The memory that a rank's sends fill before it has to wait: the buffer, or less if it is large."""
    most = unsent_nbytes(transport) + SMALL_QUEUE_SEGMENTS * transport.gso_max_nbytes
    return min(buffered_nbytes(transport.sndbuf_nbytes), most)


def fabric_transport(fabric: Fabric) -> Transport:
    """The transport for a fabric's slowest host link and its smallest queue."""
    slowest_bps = min(rate for end, rate in fabric.rates.items() if end.node in fabric.hosts)
    queues = [link.queue_nbytes for link in fabric.links if link.queue_nbytes is not None]
    return transport_for(
        slowest_bps,
        fabric.mtu_nbytes,
        min(queues, default=None),
        longest_round_trip_s(fabric),
        len(fabric.hosts),
    )


def longest_round_trip_s(fabric: Fabric) -> float:
    """What the delays of cables add up to, there and back, on no path more than this."""
    if not any(link.delay_ns for link in fabric.links):
        return 0.0
    at_hosts, inner = ([link.delay_ns for link in some] for some in (fabric.host_links, fabric.inner_links))
    starts = {access_switch(fabric, host) for host in fabric.hosts}
    n_inner = max(max(distances(fabric, start).values()) for start in starts)
    return 2e-9 * (2 * max(at_hosts) + n_inner * max(inner, default=0))

"""The bytes that a plan's flows put on the wire: payload, gloo's framing, and TCP/IP headers.

A counter of packets and bytes tells how many bytes of TCP's stream passed: every packet has the same
headers, and an acknowledgement nothing else, so `nbytes - HEADERS_NBYTES * packets` leaves the stream,
and what only some packets have: the options of SYN packets and of selective acknowledgements.
"""

from collections.abc import Sequence

import numpy as np

from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES
from gradwire.planning.plan import Flow, Plan
from gradwire.planning.transport import TCP_HEADERS_NBYTES, tcp_payload_nbytes
from gradwire.traces.framing.gloo import HELLO_NBYTES, PREAMBLE_NBYTES
from gradwire.traces.schedules.sends import Nbytes, totals

HEADERS_NBYTES = ETHERNET_NBYTES + TCP_HEADERS_NBYTES
# MSS 4, SACK permitted 2, timestamps 10, no-operation 1, window scale 3, less the 12 of every packet.
SYN_OPTIONS_NBYTES = 8
MOST_SACK_NBYTES = 28  # what timestamps leave of 40 bytes of options: three blocks (RFC 2018, section 3)
# Before the first repeat the kernels' counts do not begin: a SYN (8 bytes of options) or a hello (8
# bytes) may have been sent again, a few times.
SET_UP_SPARE_NBYTES = 64
# Of packets that overtake each other without any loss, one in this many may be acknowledged selectively.
REORDERED = 100


def wire_nbytes(nbytes: int, n_packets: int, mtu_nbytes: int) -> int:
    """Bytes on the wire, as the shaper counts them, of what a port's counters call packets.

    With segmentation offload such a packet is many frames, but only one header was counted.
    """
    payload = nbytes - HEADERS_NBYTES * n_packets
    return payload + HEADERS_NBYTES * max(n_packets, -(-payload // tcp_payload_nbytes(mtu_nbytes)))


def payload_nbytes(plan: Plan) -> list[int]:
    """The payload of each flow in one repeat."""
    nbytes = _by_pair(plan, plan.schedule.sends.nbytes)
    return [nbytes.get((flow.src, flow.dst), 0) for flow in plan.flows]


def framing_nbytes(plan: Plan) -> list[int]:
    """The framing of each flow in one repeat.

    A send is announced by a preamble, led by another, and answered in the other direction by its
    receiver's notice that it is ready: three preambles.
    """
    n_sends = _by_pair(plan, np.ones(len(plan.schedule.sends), np.int64))
    return [
        (2 * n_sends.get((flow.src, flow.dst), 0) + n_sends.get((flow.dst, flow.src), 0)) * PREAMBLE_NBYTES
        for flow in plan.flows
    ]


def _by_pair(plan: Plan, of_send: Nbytes) -> dict[tuple[int, int], int]:
    """The sum of a figure of each send by source and destination."""
    sends, n_ranks = plan.schedule.sends, plan.n_ranks
    keys, where = np.unique(sends.src.astype(np.int64) * n_ranks + sends.dst, return_inverse=True)
    sums = totals(where, of_send, len(keys)).tolist()
    return {divmod(key, n_ranks): of_pair for key, of_pair in zip(keys.tolist(), sums, strict=True)}


def stream_nbytes(plan: Plan, repeats: int) -> list[int]:
    """What each flow's packets hold besides HEADERS_NBYTES, from its SYN to the end of the last repeat.

    The rank with the higher number opens the connection, and says hello.
    """
    return [
        repeats * (payload + framing) + SYN_OPTIONS_NBYTES + (HELLO_NBYTES if flow.src > flow.dst else 0)
        for flow, payload, framing in zip(plan.flows, payload_nbytes(plan), framing_nbytes(plan), strict=True)
    ]


def again_nbytes(
    plan: Plan, flows: Sequence[Flow], packets: int, resent: Sequence[int], n_moves: int = 0
) -> int:
    """What this many packets of these flows may hold besides their streams, each of which passes once.

    That is segments sent again, `resent[r]` by rank r, and selective acknowledgements: while something is
    missing before what has arrived, every segment that arrives is answered with one (RFC 2018, section 4),
    and so may be one that comes twice (RFC 2883).  Missing is a lost segment, or, `n_moves` times, all that
    is still under way on the old path of a flow that was moved and is overtaken on the new one.  Those
    segments are at most a window, for which the kernel takes twice the receive buffer.
    """
    if not flows:
        return 0
    segment_nbytes = tcp_payload_nbytes(plan.fabric.mtu_nbytes)
    sources = {flow.src for flow in flows}
    holes = sum(resent[rank] for rank in sources | {flow.dst for flow in flows}) + n_moves * len(flows)
    window = 2 * plan.transport.rcvbuf_nbytes // segment_nbytes + 1
    selective = min(packets, packets // REORDERED + len(flows) + holes * window)
    return sum(resent[rank] for rank in sources) * segment_nbytes + selective * MOST_SACK_NBYTES

"""Flows as a network engineer sees them: one for each direction of a connection."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.traces.analysis.percentiles import Percentiles, percentiles
from gradwire.traces.framing.framings import Choice
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Direction, Rows, by_direction, first_syns
from gradwire.traces.packets.jit import compiled
from gradwire.traces.packets.packets import ACK, NO_SHIFT, RST, SYN, Packets
from gradwire.traces.packets.streams import Stream
from gradwire.traces.trace import Trace


@dataclass(frozen=True)
class FlowFigures:
    """What went one way, seen nearest its source, each packet and byte once.

    `payload_nbytes` were delivered, `wire_nbytes` are all its packets as the wire carried them, repeats and
    pure ACKs included.  `start_ns` counts from the trace's origin; `duration_ns`, the flow's completion time,
    lasts from its first payload byte until the last had arrived.  `rtt_ns` is from a segment's departure to
    the ACK of its last byte, at the point nearest the source; repeated segments are left out (Karn).
    `window_nbytes` is what the receiver offered, scaled (RFC 7323; None if its SYN was not seen).  `delay_ns`
    is from the source's capture to the destination's, by their clocks; where these cannot be compared it is
    None, and the duration lasts until the last byte was sent.  `reset`: it ended with an RST.
    """

    src: str
    sport: int
    dst: str
    dport: int
    number: int
    src_rank: int | None
    dst_rank: int | None
    framing: str
    training: bool
    packets: int
    payload_nbytes: int
    wire_nbytes: int
    start_ns: int
    duration_ns: int
    goodput_bps: float | None
    retransmitted: int
    out_of_order: int
    reset: bool
    rtt_ns: Percentiles | None
    window_nbytes: Percentiles | None
    delay_ns: Percentiles | None


def flows(trace: Trace) -> tuple[FlowFigures, ...]:
    """Every flow with payload, the largest first."""
    rows_of = by_direction(trace.captures)
    syns = [first_syns(packets, rows) for packets, rows in zip(trace.captures, rows_of, strict=True)]
    ranks = {address: rank for rank, address in enumerate(trace.addresses)}
    origin_ns = origin(trace)
    found = [
        _flow(trace, choice, stream, rows_of, syns, ranks, origin_ns)
        for choice in trace.choices
        for stream in choice.connection.streams
    ]
    return tuple(sorted(found, key=lambda flow: (-flow.payload_nbytes, flow.start_ns)))


def origin(trace: Trace) -> int:
    """The time, since 1970, of the first message; of the first packet if there is no message."""
    if len(trace.messages):
        return int(trace.messages.first_ns.min())
    return min((file.first_ns for file in trace.files), default=0)


def _flow(
    trace: Trace,
    choice: Choice,
    stream: Stream,
    rows_of: list[Rows],
    syns: list[dict[Direction, int]],
    ranks: Mapping[str, int],
    origin_ns: int,
) -> FlowFigures:
    direction = stream.direction
    first_ns = int(stream.sent.time_ns.min())
    can_compare = trace.clocks.between(direction.src, direction.dst)
    arrived = stream.received if can_compare else stream.sent
    duration_ns = max(0, int(arrived.time_ns.max()) - first_ns)
    seen = [(trace.captures[n], rows_of[n].get(direction)) for n in stream.near_src]
    with_rows = [(packets, rows) for packets, rows in seen if rows is not None]
    nbytes = stream.nbytes - stream.unseen_nbytes
    return FlowFigures(
        src=direction.src,
        sport=direction.sport,
        dst=direction.dst,
        dport=direction.dport,
        number=direction.number,
        src_rank=ranks.get(direction.src),
        dst_rank=ranks.get(direction.dst),
        framing=choice.framing.name if choice.framing else "unknown",
        training=choice.framing is not None and choice.framing.is_training,
        packets=sum(len(rows) for _, rows in with_rows),
        payload_nbytes=nbytes,
        wire_nbytes=sum(int(packets.wire_nbytes[rows].sum(dtype=np.int64)) for packets, rows in with_rows),
        start_ns=first_ns - origin_ns,
        duration_ns=duration_ns,
        goodput_bps=nbytes * 8e9 / duration_ns if duration_ns else None,
        retransmitted=len(stream.retransmitted_at),
        out_of_order=_out_of_order(stream),
        reset=any(bool((packets.flags[rows] & RST).any()) for packets, rows in with_rows),
        rtt_ns=_rtt(trace, stream, rows_of),
        window_nbytes=_window(trace, direction.reverse, rows_of, syns),
        delay_ns=_delay(stream) if can_compare else None,
    )


def _out_of_order(stream: Stream) -> int:
    """Pieces that were seen near the source after later ones, and were no repeats."""
    times = stream.sent.time_ns
    return int(np.count_nonzero(times[:-1] > np.minimum.accumulate(times[::-1])[::-1][1:]))


def _rtt(trace: Trace, stream: Stream, rows_of: list[Rows]) -> Percentiles | None:
    """Departure to the first ACK of exactly a segment's end, where both were seen at the same point."""
    acks = [_acks(trace.captures[n], rows_of[n].get(stream.direction.reverse)) for n in stream.near_src]
    numbers, times = acks[0]
    if len(acks) > 1:
        numbers = np.concatenate([ack for ack, _ in acks])
        times = np.concatenate([time_ns for _, time_ns in acks])
    if not len(numbers):
        return None
    if not _ascends(times):
        order = np.argsort(times, kind="stable")
        numbers, times = numbers[order], times[order]
    sent = stream.sent
    repeated = np.sort(stream.retransmitted_at)
    return percentiles(
        _delays(numbers, times, stream.first_seq, sent.cover.start, sent.cover.end, sent.time_ns, repeated)
    )


@compiled
def _delays(
    numbers: npt.NDArray[np.uint32],
    times: Ints,
    first_seq: int,
    start: Ints,
    end: Ints,
    sent_ns: Ints,
    repeated: Ints,
) -> Ints:
    """How long after its departure each piece of a stream was acknowledged, in the order of the ACKs.

    Of the pieces, which ascend, those that the first ACK of their end ends at; but for those that begin at
    one of `repeated`, which ascend too.
    """
    delays = np.empty(len(numbers), np.int64)
    n_delays, piece, repeat = 0, 0, 0
    last, offset, reached = np.int64(first_seq), np.int64(0), np.int64(-1)
    for row in range(len(numbers)):
        number = np.int64(numbers[row])
        offset += ((number - last + 0x80000000) & 0xFFFFFFFF) - 0x80000000  # numbers wrap around
        last = number
        if offset <= reached or offset < 0:
            continue
        reached = offset
        while piece < len(end) and end[piece] < offset:
            piece += 1
        if piece == len(end):
            break
        if end[piece] != offset:
            continue
        while repeat < len(repeated) and repeated[repeat] < start[piece]:
            repeat += 1
        is_repeated = repeat < len(repeated) and repeated[repeat] == start[piece]
        delay = times[row] - sent_ns[piece]
        if not is_repeated and delay >= 0:
            delays[n_delays] = delay
            n_delays += 1
    return delays[:n_delays]


def _ascends(times: Ints) -> bool:
    return bool((times[1:] >= times[:-1]).all())


def _acks(packets: Packets, rows: Ints | None) -> tuple[npt.NDArray[np.uint32], Ints]:
    if rows is None:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    rows = rows[packets.flags[rows] & ACK != 0]
    return packets.ack[rows], packets.time_ns[rows]


def _window(
    trace: Trace, direction: Direction, rows_of: list[Rows], syns: list[dict[Direction, int]]
) -> Percentiles | None:
    """Of the windows in one direction's packets, where the SYNs say how they are scaled."""
    for packets, rows, syn_of in zip(trace.captures, rows_of, syns, strict=True):
        if direction not in syn_of:
            continue
        offered = {
            int(packets.window_shift[syn_of[d]]) for d in (direction, direction.reverse) if d in syn_of
        }
        # Scaled only where both offer it (RFC 7323, 1.3).
        shift = 0 if NO_SHIFT in offered else int(packets.window_shift[syn_of[direction]])
        part = rows[direction]
        windows = packets.window[part[packets.flags[part] & SYN == 0]]
        return percentiles(windows.astype(np.int64) << shift)
    return None


def _delay(stream: Stream) -> Percentiles | None:
    if stream.near_src == stream.near_dst:
        return None
    start = stream.sent.cover.start
    return percentiles(stream.received.first_seen_ns(start) - stream.sent.time_ns)

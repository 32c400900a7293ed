"""Compiled loops over the packets and pieces of all flows at once: for a few packets numpy takes too long."""

from typing import NamedTuple

import numpy as np

from gradwire.traces.packets.columns import Counts, Ints, Octets, Shorts, Words
from gradwire.traces.packets.jit import compiled
from gradwire.traces.packets.packets import ACK, RST, SYN


class TcpPackets(NamedTuple):
    """Columns of packets; `rows` are those of TCP, one direction after the other, each by time."""

    rows: Ints
    time_ns: Ints
    wire_nbytes: Counts
    flags: Octets
    ack: Words
    window: Shorts


class Spans(NamedTuple):
    """Packets of flow i: `rows` from `begin[j]` until `end[j]`, for each j from `at[i]` until `at[i + 1]`."""

    at: Ints
    begin: Ints
    end: Ints


class Pieces(NamedTuple):
    """The pieces of flow i, which ascend: from `at[i]` until `at[i + 1]`.

    `sent_ns` is when each was seen near the source.
    """

    at: Ints
    start: Ints
    end: Ints
    sent_ns: Ints


class Counted(NamedTuple):
    """Of each flow; `reset` is not 0 where it has an RST, `out_of_order` counts pieces that came after later
    ones.
    """

    packets: Ints
    wire_nbytes: Ints
    reset: Octets
    out_of_order: Ints


def nothing_counted(n_flows: int) -> Counted:
    """Zeros."""
    return Counted(
        packets=np.zeros(n_flows, np.int64),
        wire_nbytes=np.zeros(n_flows, np.int64),
        reset=np.zeros(n_flows, np.uint8),
        out_of_order=np.zeros(n_flows, np.int64),
    )


@compiled
def count(packets: TcpPackets, spans: Spans, pieces: Pieces, counted: Counted) -> None:
    """Fill `counted` from each flow's own packets and pieces."""
    for flow in range(len(counted.packets)):
        for span in range(spans.at[flow], spans.at[flow + 1]):
            counted.packets[flow] += spans.end[span] - spans.begin[span]
            for row in packets.rows[spans.begin[span] : spans.end[span]]:
                counted.wire_nbytes[flow] += packets.wire_nbytes[row]
                counted.reset[flow] |= packets.flags[row] & RST
        last = pieces.at[flow + 1] - 1
        earliest = pieces.sent_ns[last] if last >= pieces.at[flow] else 0
        for piece in range(last, pieces.at[flow] - 1, -1):
            counted.out_of_order[flow] += pieces.sent_ns[piece] > earliest
            earliest = min(earliest, pieces.sent_ns[piece])


@compiled
def round_trips(
    packets: TcpPackets,
    answers: Spans,
    pieces: Pieces,
    first_seq: Ints,
    repeated_at: Ints,
    repeated: Ints,
    delays: Ints,
) -> Ints:
    """Write to `delays` how long after its departure each piece was acknowledged, in the order of the ACKs,
    one flow after the other; return where each flow's end.

    Of the pieces those that the first ACK of their end ends at, but for those that begin at one of the
    flow's `repeated`, which ascend: from `repeated_at[i]` until `repeated_at[i + 1]`.
    """
    n_delays = 0
    ends = np.empty(len(first_seq), np.int64)
    for flow in range(len(first_seq)):
        acks = _acks(packets, answers, flow)
        piece, last_piece = pieces.at[flow], pieces.at[flow + 1]
        repeat, last_repeat = repeated_at[flow], repeated_at[flow + 1]
        last, offset, reached = first_seq[flow], np.int64(0), np.int64(-1)
        for row in acks:
            number = np.int64(packets.ack[row])
            offset += ((number - last + 0x80000000) & 0xFFFFFFFF) - 0x80000000  # numbers wrap around
            last = number
            if offset <= reached or offset < 0:
                continue
            reached = offset
            while piece < last_piece and pieces.end[piece] < offset:
                piece += 1
            if piece == last_piece:
                break
            if pieces.end[piece] != offset:
                continue
            while repeat < last_repeat and repeated[repeat] < pieces.start[piece]:
                repeat += 1
            is_repeated = repeat < last_repeat and repeated[repeat] == pieces.start[piece]
            delay = packets.time_ns[row] - pieces.sent_ns[piece]
            if not is_repeated and delay >= 0:
                delays[n_delays] = delay
                n_delays += 1
        ends[flow] = n_delays
    return ends


@compiled
def _acks(packets: TcpPackets, answers: Spans, flow: int) -> Ints:
    """The rows of the packets with ACK, in the order of time."""
    n_rows = 0
    for span in range(answers.at[flow], answers.at[flow + 1]):
        n_rows += answers.end[span] - answers.begin[span]
    rows = np.empty(n_rows, np.int64)
    n_acks, ascends = 0, True
    for span in range(answers.at[flow], answers.at[flow + 1]):
        for row in packets.rows[answers.begin[span] : answers.end[span]]:
            if packets.flags[row] & ACK:
                rows[n_acks] = row
                ascends &= n_acks == 0 or packets.time_ns[row] >= packets.time_ns[rows[n_acks - 1]]
                n_acks += 1
    rows = rows[:n_acks]
    return rows if ascends else rows[np.argsort(packets.time_ns[rows], kind="mergesort")]


@compiled
def offered_windows(packets: TcpPackets, begin: Ints, end: Ints, shift: Ints, windows: Ints) -> Ints:
    """Write to `windows` those of each flow's packets but its SYNs, scaled, one flow after the other; return
    where each flow's end.
    """
    n_windows = 0
    ends = np.empty(len(begin), np.int64)
    for flow in range(len(begin)):
        for row in packets.rows[begin[flow] : end[flow]]:
            if not packets.flags[row] & SYN:
                windows[n_windows] = np.int64(packets.window[row]) << shift[flow]
                n_windows += 1
        ends[flow] = n_windows
    return ends

"""Flows as a network engineer sees them: one for each direction of a connection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.analysis.flowloops import (
    Pieces,
    Spans,
    TcpPackets,
    count,
    nothing_counted,
    offered_windows,
    round_trips,
)
from gradwire.traces.analysis.percentiles import Percentiles, grouped, percentiles
from gradwire.traces.framing.framings import Choice
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Direction, Rows, by_direction, concatenated, first_syns
from gradwire.traces.packets.packets import NO_SHIFT, Packets
from gradwire.traces.packets.streams import Stream
from gradwire.traces.trace import Trace

Column = npt.NDArray[Any]


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
    ranks = {address: rank for rank, address in enumerate(trace.addresses)}
    origin_ns = origin(trace)
    streams = [(choice, stream) for choice in trace.choices for stream in choice.connection.streams]
    columns = _columns(trace, [stream for _, stream in streams])
    found = [
        _flow(trace, choice, stream, figures, ranks, origin_ns)
        for (choice, stream), figures in zip(streams, columns, strict=True)
    ]
    return tuple(sorted(found, key=lambda flow: (-flow.payload_nbytes, flow.start_ns)))


def origin(trace: Trace) -> int:
    """The time, since 1970, of the first message; of the first packet if there is no message."""
    if len(trace.messages):
        return int(trace.messages.first_ns.min())
    return min((file.first_ns for file in trace.files), default=0)


class _Figures(NamedTuple):
    """What is found of all flows at once."""

    packets: int
    wire_nbytes: int
    reset: int
    out_of_order: int
    rtt_ns: Percentiles | None
    window_nbytes: Percentiles | None


def _flow(
    trace: Trace,
    choice: Choice,
    stream: Stream,
    figures: _Figures,
    ranks: Mapping[str, int],
    origin_ns: int,
) -> FlowFigures:
    direction = stream.direction
    first_ns = stream.first_ns
    can_compare = trace.clocks.between(direction.src, direction.dst)
    duration_ns = max(0, (stream.arrived_ns if can_compare else stream.last_ns) - first_ns)
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
        packets=figures.packets,
        payload_nbytes=nbytes,
        wire_nbytes=figures.wire_nbytes,
        start_ns=first_ns - origin_ns,
        duration_ns=duration_ns,
        goodput_bps=nbytes * 8e9 / duration_ns if duration_ns else None,
        retransmitted=stream.n_retransmitted,
        out_of_order=figures.out_of_order,
        reset=bool(figures.reset),
        rtt_ns=figures.rtt_ns,
        window_nbytes=figures.window_nbytes,
        delay_ns=_delay(stream) if can_compare else None,
    )


def _columns(trace: Trace, streams: Sequence[Stream]) -> Iterator[_Figures]:
    rows_of = by_direction(trace.captures)
    packets, place_of = _tcp_packets(trace.captures, rows_of)
    parts = [stream.seen.sent_pieces for stream in streams]
    pieces = Pieces(
        _ends([len(start) for start, _, _ in parts]),
        *(_joined([part[i] for part in parts]) for i in range(3)),
    )
    own = _spans([[place_of[n].get(s.direction) for n in s.near_src] for s in streams])
    counted = nothing_counted(len(streams))
    count(packets, own, pieces, counted)
    rtts = _round_trips(packets, place_of, pieces, streams)
    windows = _windows(packets, place_of, streams, _window_shifts(trace.captures, rows_of))
    return map(_Figures, *(column.tolist() for column in counted), rtts, windows)


_Place = tuple[int, int]  # of a direction's packets: from one row until another


def _tcp_packets(
    captures: Sequence[Packets], rows_of: Sequence[Rows]
) -> tuple[TcpPackets, list[dict[Direction, _Place]]]:
    """The TCP packets of all files, and where those of each file's directions are."""
    place_of: list[dict[Direction, _Place]] = []
    parts: list[TcpPackets] = []
    begin = 0
    for packets, rows_by in zip(captures, rows_of, strict=True):
        rows, ends = concatenated(rows_by)
        cuts = [begin, *(ends + begin).tolist()]
        place_of.append(dict(zip(rows_by, pairwise(cuts), strict=True)))
        parts.append(TcpPackets(*(getattr(packets, name)[rows] for name in TcpPackets._fields)))
        begin = cuts[-1]
    return TcpPackets._make(_joined(columns) for columns in zip(*parts, strict=True)), place_of


def _round_trips(
    packets: TcpPackets,
    place_of: Sequence[Mapping[Direction, _Place]],
    pieces: Pieces,
    streams: Sequence[Stream],
) -> list[Percentiles | None]:
    """Departure to the first ACK of exactly a segment's end, where both were seen at the same point."""
    answers = _spans([[place_of[n].get(s.direction.reverse) for n in s.near_src] for s in streams])
    none = np.empty(0, np.int64)
    repeated = [np.sort(s.retransmitted_at) if s.n_retransmitted else none for s in streams]
    delays = np.empty(int((answers.end - answers.begin).sum()), np.int64)
    ends = round_trips(
        packets,
        answers,
        pieces,
        np.array([stream.first_seq for stream in streams], np.int64),
        _ends([len(some) for some in repeated]),
        _joined(repeated),
        delays,
    )
    return grouped(delays, ends)


def _windows(
    packets: TcpPackets,
    place_of: Sequence[Mapping[Direction, _Place]],
    streams: Sequence[Stream],
    shift_of: Mapping[Direction, tuple[int, int]],
) -> list[Percentiles | None]:
    """Of the windows that each stream's receiver offered, where the SYNs say how they are scaled."""
    begin, end, shift = (np.zeros(len(streams), np.int64) for _ in range(3))
    for number, stream in enumerate(streams):
        receiver = stream.direction.reverse
        if receiver in shift_of:
            file, shift[number] = shift_of[receiver]
            begin[number], end[number] = place_of[file][receiver]
    windows = np.empty(int((end - begin).sum()), np.int64)
    return grouped(windows, offered_windows(packets, begin, end, shift, windows))


def _window_shifts(captures: Sequence[Packets], rows_of: Sequence[Rows]) -> dict[Direction, tuple[int, int]]:
    """For each direction with a SYN the first file that has it, and how its windows are scaled."""
    found: dict[Direction, tuple[int, int]] = {}
    for number, (packets, rows) in enumerate(zip(captures, rows_of, strict=True)):
        syn_of = first_syns(packets, rows)
        shifts = packets.window_shift[np.fromiter(syn_of.values(), np.int64, len(syn_of))].tolist()
        shift_of = dict(zip(syn_of, shifts, strict=True))
        for direction, shift in shift_of.items():
            if direction not in found:
                # Scaled only where both offer it (RFC 7323, 1.3).
                is_scaled = NO_SHIFT not in (shift, shift_of.get(direction.reverse))
                found[direction] = number, shift if is_scaled else 0
    return found


def _spans(places: Sequence[Sequence[_Place | None]]) -> Spans:
    """Of each flow those of its places that there are."""
    known = [[place for place in some if place is not None] for some in places]
    all_places = np.array([place for some in known for place in some], np.int64).reshape(-1, 2)
    return Spans(_ends([len(some) for some in known]), *(column.copy() for column in all_places.T))


def _ends(lengths: Sequence[int]) -> Ints:
    """Where each of some parts begins, one after the other, and where the last one ends."""
    return np.cumsum(np.array([0, *lengths], np.int64))


def _joined(columns: Sequence[Column]) -> Column:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)


def _delay(stream: Stream) -> Percentiles | None:
    if stream.near_src == stream.near_dst:
        return None
    start = stream.sent.cover.start
    return percentiles(stream.received.first_seen_ns(start) - stream.sent.time_ns)

"""Flows as a network engineer sees them: one for each direction of a connection."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from gradwire.traces.packets.directions import Direction, Rows, by_direction, concatenated, window_shifts
from gradwire.traces.packets.packets import Packets
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
    packets_of = _PacketsOf(trace.captures)
    counted: list[tuple[int, ...]] = [()] * len(streams)
    rtts: list[Percentiles | None] = [None] * len(streams)
    for files, numbers in _grouped_by([stream.near_src for stream in streams]):
        some = [streams[number] for number in numbers]
        packets, spans_of = packets_of(files)
        pieces = _pieces(some)
        own = spans_of([stream.direction for stream in some])
        counts = nothing_counted(len(some))
        count(packets, own, pieces, counts)
        figures = zip(*(column.tolist() for column in counts), strict=True)
        answers = spans_of([stream.direction.reverse for stream in some])
        found = _round_trips(packets, answers, pieces, some)
        for number, one, rtt in zip(numbers, figures, found, strict=True):
            counted[number], rtts[number] = one, rtt
    windows = _windows(packets_of, streams)
    for (n_packets, wire_nbytes, reset, out_of_order), rtt, window in zip(
        counted, rtts, windows, strict=True
    ):
        yield _Figures(n_packets, wire_nbytes, reset, out_of_order, rtt, window)


class _PacketsOf:
    """The TCP packets of files, each direction's in the order of time."""

    def __init__(self, captures: Sequence[Packets]) -> None:
        self.captures = captures
        self.rows_of = by_direction(captures)
        self._number_of = [{direction: n for n, direction in enumerate(rows)} for rows in self.rows_of]

    def __call__(self, files: Sequence[int]) -> tuple[TcpPackets, Callable[[Sequence[Direction]], Spans]]:
        """The packets of some files, and a function for where those of directions are: at each file's place.

        Of one file the columns are its own.
        """
        captures = [self.captures[file] for file in files]
        rows, ends = zip(*(concatenated(self.rows_of[file]) for file in files), strict=True)
        first = np.cumsum([0, *map(len, captures)]).tolist()
        begins = np.cumsum([0, *map(len, rows)]).tolist()
        packets = TcpPackets(
            _joined([some + before for some, before in zip(rows, first, strict=False)]),
            *(_joined([getattr(one, name) for one in captures]) for name in TcpPackets._fields[1:]),
        )

        def spans_of(directions: Sequence[Direction]) -> Spans:
            begin, end = np.empty((2, len(directions), len(files)), np.int64)
            for place, file in enumerate(files):
                number_of, cuts = self._number_of[file], begins[place] + np.append(0, ends[place])
                # -1, of a direction that this file lacks: its end is not above its begin.
                numbers = np.array([number_of.get(one, -1) for one in directions], np.int64)
                begin[:, place], end[:, place] = cuts[numbers], cuts[numbers + 1]
            is_there = end > begin
            return Spans(_ends(np.count_nonzero(is_there, axis=1)), begin[is_there], end[is_there])

        return packets, spans_of


def _pieces(streams: Sequence[Stream]) -> Pieces:
    parts = [stream.seen.sent_pieces for stream in streams]
    columns = (_joined([part[column] for part in parts]) for column in range(3))
    return Pieces(_ends([len(start) for start, _, _ in parts]), *columns)


def _round_trips(
    packets: TcpPackets, answers: Spans, pieces: Pieces, streams: Sequence[Stream]
) -> list[Percentiles | None]:
    """Departure to the first ACK of exactly a segment's end, where both were seen at the same point."""
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


def _windows(packets_of: _PacketsOf, streams: Sequence[Stream]) -> list[Percentiles | None]:
    """Of the windows that each stream's receiver offered, where the SYNs say how they are scaled."""
    shift_of = _window_shifts(packets_of.captures, packets_of.rows_of)
    receivers = [stream.direction.reverse for stream in streams]
    known = [number for number, receiver in enumerate(receivers) if receiver in shift_of]
    windows: list[Percentiles | None] = [None] * len(streams)
    for files, places in _grouped_by([shift_of[receivers[number]][:1] for number in known]):
        packets, spans_of = packets_of(files)
        numbers = [known[one] for one in places]
        spans = spans_of([receivers[number] for number in numbers])
        shift = np.array([shift_of[receivers[number]][1] for number in numbers], np.int64)
        values = np.empty(int((spans.end - spans.begin).sum()), np.int64)
        found = grouped(values, offered_windows(packets, spans.begin, spans.end, shift, values))
        for number, window in zip(numbers, found, strict=True):
            windows[number] = window
    return windows


def _grouped_by(keys: Sequence[tuple[int, ...]]) -> Iterable[tuple[tuple[int, ...], list[int]]]:
    """The places of each key."""
    found: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        found[key].append(place)
    return found.items()


def _window_shifts(captures: Sequence[Packets], rows_of: Sequence[Rows]) -> dict[Direction, tuple[int, int]]:
    """For each direction with a SYN the first file that has it, and how its windows are scaled."""
    found: dict[Direction, tuple[int, int]] = {}
    for number, (packets, rows) in enumerate(zip(captures, rows_of, strict=True)):
        for direction, shift in window_shifts(packets, rows).items():
            found.setdefault(direction, (number, shift))
    return found


def _ends(lengths: Sequence[int] | Ints) -> Ints:
    """Where each of some parts begins, one after the other, and where the last one ends."""
    return np.cumsum(np.array([0, *lengths], np.int64))


def _joined(columns: Sequence[Column]) -> Column:
    """One column itself, not a copy."""
    return np.concatenate(columns) if len(columns) > 1 else columns[0]


def _delay(stream: Stream) -> Percentiles | None:
    if stream.near_src == stream.near_dst:
        return None
    start = stream.sent.cover.start
    return percentiles(stream.received.first_seen_ns(start) - stream.sent.time_ns)

"""TCP streams, reassembled from packets: when each byte was seen, and where to read it.

A stream is one direction of one connection.  A packet between two captured hosts is in both hosts'
files, so every stream has a vantage, the point nearest its source, which alone decides counts and times;
what was missed there is taken from the others.  Which file is whose is inferred: a host's own file has
that host in every packet.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints, Readable, Timeline, Visible, cover, distinct
from gradwire.traces.packets.directions import Direction, Rows, by_direction, own_address, points
from gradwire.traces.packets.inorder import NO_SYN, SeenInOrder, in_order
from gradwire.traces.packets.packets import ACK, Packets
from gradwire.traces.packets.payloadcolumns import PayloadColumns, payload_columns
from gradwire.traces.threads import in_threads


@dataclass(frozen=True)
class Segments:
    """What one point saw of a stream: an entry per packet with payload, in the order of time.

    `offset` counts from the stream's first byte; `file` is the number of the capture that has the packet,
    `at` where its payload begins there.  `pushed` is not 0 where PSH is set.
    """

    time_ns: Ints
    offset: Ints
    nbytes: Ints
    visible_nbytes: Ints
    pushed: npt.NDArray[np.uint8]
    file: Ints
    at: Ints


SentPieces = tuple[Ints, Ints, Ints]
"""The pieces that were seen near the source: start and end of each, and when."""


class Seen(Protocol):
    """What the packets of a stream show; see `Stream`."""

    @property
    def retransmitted_at(self) -> Ints: ...

    @property
    def pushed_at(self) -> Ints: ...

    @property
    def sent(self) -> Timeline: ...

    @property
    def sent_pieces(self) -> SentPieces: ...

    @property
    def received(self) -> Timeline: ...

    @property
    def visible(self) -> Readable: ...


@dataclass(frozen=True)
class SeenPieces:
    """A `Seen` whose parts are known."""

    retransmitted_at: Ints
    pushed_at: Ints
    sent: Timeline
    received: Timeline
    visible: Readable

    @property
    def sent_pieces(self) -> SentPieces:
        return self.sent.cover.start, self.sent.cover.end, self.sent.time_ns


@dataclass(frozen=True)
class Stream:
    """`opener` says whether `src` opened the connection; None if that was before the capture.

    `sent` and `received` give the time at which each byte was first seen nearest the source and nearest
    the destination; byte 0 is the first after the SYN, or the first one seen, and has sequence number
    `first_seq`.  `retransmitted_at` are the offsets of packets that brought nothing new to the vantage, whose
    captures are `near_src`; those of the point nearest the destination are `near_dst`, the same ones if it
    was captured at one point only.  `pushed_at` are the ends of packets with PSH, thus of the
    application's writes.  `nbytes` is where the last byte that was seen ends, `unseen_nbytes` counts those
    before it that no file has: dropped by every capture.  `n_packets` were seen at the vantage,
    `n_retransmitted` of them repeats.  `first_ns` and `last_ns` are when the first and the last piece were
    sent, `arrived_ns` is when the last had been received.
    """

    direction: Direction
    opener: bool | None
    first_seq: int
    near_src: tuple[int, ...]
    near_dst: tuple[int, ...]
    n_packets: int
    n_retransmitted: int
    nbytes: int
    unseen_nbytes: int
    first_ns: int
    last_ns: int
    arrived_ns: int
    seen: Seen

    @cached_property
    def retransmitted_at(self) -> Ints:
        return self.seen.retransmitted_at

    @cached_property
    def pushed_at(self) -> Ints:
        return self.seen.pushed_at

    @cached_property
    def sent(self) -> Timeline:
        return self.seen.sent

    @cached_property
    def received(self) -> Timeline:
        return self.seen.received

    @cached_property
    def visible(self) -> Readable:
        return self.seen.visible

    def showing(self, visible: Readable) -> "Stream":
        """The same stream, whose bytes are read elsewhere."""
        seen = SeenPieces(self.retransmitted_at, self.pushed_at, self.sent, self.received, visible)
        return replace(self, seen=seen)


@dataclass(frozen=True)
class Connection:
    """Both directions of a connection that carry payload: the opener's first, else that which sent first."""

    streams: tuple[Stream, ...]

    @property
    def listener_port(self) -> int | None:
        """The port that the connection was opened to, None if that was before the capture."""
        first = self.streams[0]
        if first.opener is None:
            return None
        return first.direction.dport if first.opener else first.direction.sport


def connections(streams: Mapping[Direction, Stream]) -> list[Connection]:
    """In the order in which their first streams are in `streams`."""
    found: dict[frozenset[Direction], list[Stream]] = {}
    for direction, stream in streams.items():
        found.setdefault(frozenset((direction, direction.reverse)), []).append(stream)
    return [Connection(tuple(sorted(both, key=_precedence))) for both in found.values()]


def _precedence(stream: Stream) -> tuple[bool, int]:
    return not stream.opener, stream.first_ns


def assemble(captures: Sequence[Packets], rows_of: Sequence[Rows] | None = None) -> dict[Direction, Stream]:
    """Every stream that carries payload, each packet counted once however many files have it.

    `rows_of` are the captures' directions if they are known already.
    """
    owners = [own_address(packets) for packets in captures]
    at_points = points(captures, owners)
    if rows_of is None:
        rows_of = by_direction(captures)
    seen: defaultdict[Direction, list[int]] = defaultdict(list)
    for number, rows in enumerate(rows_of):
        for direction in rows:
            seen[direction].append(number)
    with_payload = in_threads(payload_columns, captures, rows_of)
    simple = in_threads(_simple_streams, range(len(captures)), captures, with_payload)
    others = [d for d, numbers in seen.items() if len(numbers) > 1 or d not in simple[numbers[0]]]

    def joined(direction: Direction) -> Stream | None:
        files = {number: with_payload[number] for number in seen[direction]}
        return _stream(direction, captures, owners, at_points, files)

    found = dict(zip(others, in_threads(joined, others), strict=True))
    streams = {}
    for direction, numbers in seen.items():
        stream = found[direction] if direction in found else simple[numbers[0]][direction]
        if stream is not None:
            streams[direction] = stream
    return streams


def _simple_streams(number: int, packets: Packets, file: PayloadColumns) -> dict[Direction, Stream | None]:
    """Of the directions in a file those that it saw in order, and None for those that carry nothing."""
    syn_rows = np.array([file.syn.get(direction, NO_SYN) for direction in file.number], np.int64)
    has_syn = syn_rows != NO_SYN
    syn_seq = np.where(has_syn, packets.seq[syn_rows].astype(np.int64), NO_SYN)
    is_opener = (packets.flags[syn_rows] & ACK == 0).tolist()
    columns = in_order(file, packets.data, syn_seq)
    placed = columns.placed
    n_packets = placed.end - placed.begin
    found: dict[Direction, Stream | None] = {}
    rows = zip(
        file.number,
        n_packets.tolist(),
        has_syn.tolist(),
        is_opener,
        *(column.tolist() for column in placed[2:]),
        strict=True,
    )
    here = (number,)
    for place, (direction, n, knows, opens, first_seq, nbytes, unseen, first, last, is_ordered) in enumerate(
        rows
    ):
        if not n:
            found[direction] = None
        elif is_ordered:
            opener, seen = opens if knows else None, SeenInOrder(columns, place)
            found[direction] = Stream(
                direction, opener, first_seq, here, here, n, 0, nbytes, unseen, first, last, last, seen
            )
    return found


def _stream(
    direction: Direction,
    captures: Sequence[Packets],
    owners: Sequence[str | None],
    at_points: Sequence[int],
    files: Mapping[int, PayloadColumns],
) -> Stream | None:
    """None for a stream without payload; `files` are those that have its packets."""
    by_point: defaultdict[int, list[int]] = defaultdict(list)
    for number, file in files.items():
        if file.has(direction):
            by_point[at_points[number]].append(number)
    if not by_point:
        return None
    first_seq, opener = _beginning(direction, captures, files)
    seen = {
        point: _segments(direction, {number: files[number] for number in some}, first_seq)
        for point, some in by_point.items()
    }
    seen = {point: segments for point, segments in seen.items() if len(segments.offset)}
    if not seen:
        return None
    nearest_src = nearest_dst = list(seen)
    if len(seen) > 1:
        owner = {point: owners[by_point[point][0]] for point in seen}
        by_time = sorted(seen, key=lambda point: int(seen[point].time_ns[0]))
        nearest_src = sorted(by_time, key=lambda point: owner[point] != direction.src)
        by_time.reverse()
        nearest_dst = sorted(by_time, key=lambda point: owner[point] != direction.dst)
    vantage = seen[nearest_src[0]]
    vantage_line = _timeline([vantage])
    sent = vantage_line if len(seen) == 1 else _timeline([seen[point] for point in nearest_src])
    received = sent if len(seen) == 1 else _timeline([seen[point] for point in nearest_dst])
    repeated = np.ones(len(vantage.offset), bool)
    repeated[vantage_line.cover.source] = False
    nbytes = int(sent.cover.end[-1]) if len(sent.cover.end) else 0
    return Stream(
        direction=direction,
        opener=opener,
        first_seq=first_seq,
        near_src=tuple(by_point[nearest_src[0]]),
        near_dst=tuple(by_point[nearest_dst[0]]),
        n_packets=len(vantage.offset),
        n_retransmitted=int(np.count_nonzero(repeated)),
        nbytes=nbytes,
        unseen_nbytes=nbytes - int((sent.cover.end - sent.cover.start).sum()),
        first_ns=int(sent.time_ns.min()),
        last_ns=int(sent.time_ns.max()),
        arrived_ns=int(received.time_ns.max()),
        seen=SeenPieces(
            retransmitted_at=vantage.offset[repeated],
            pushed_at=distinct((vantage.offset + vantage.nbytes)[vantage.pushed != 0]),
            sent=sent,
            received=received,
            visible=_visible([seen[point] for point in nearest_src], captures),
        ),
    )


def _beginning(
    direction: Direction, captures: Sequence[Packets], files: Mapping[int, PayloadColumns]
) -> tuple[int, bool | None]:
    """The sequence number of byte 0, and whether the source opened the connection."""
    for number, file in files.items():
        row = file.syn.get(direction)
        if row is not None:
            packets = captures[number]
            return (int(packets.seq[row]) + 1) % (1 << 32), not packets.flags[row] & ACK
    carrying = [file for file in files.values() if file.has(direction)]
    base = int(carrying[0].seq[carrying[0].part(direction)][0])
    lowest = min(int(file.offsets(direction, base).min()) for file in carrying)
    return (base + lowest) % (1 << 32), None


def _segments(direction: Direction, files: Mapping[int, PayloadColumns], first_seq: int) -> Segments:
    """What the files of one point saw; a packet that two of them have counts once."""
    parts = []
    for number, file in files.items():
        part, offset = file.part(direction), file.offsets(direction, first_seq)
        one = Segments(
            time_ns=file.time_ns[part],
            offset=offset,
            nbytes=file.nbytes[part].astype(np.int64),
            visible_nbytes=file.visible[part].astype(np.int64),
            pushed=file.pushed[part],
            file=np.full(len(offset), number),
            at=file.at[part],
        )
        is_before = offset < 0  # the connection's first byte, as what a connection before it had
        if is_before.any():
            one = Segments(*(getattr(one, field.name)[~is_before] for field in fields(one)))
        parts.append(one)
    if len(parts) == 1:
        return parts[0]
    names = ("time_ns", "offset", "nbytes", "visible_nbytes", "pushed", "file", "at")
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.lexsort((whole["offset"], whole["nbytes"], whole["time_ns"]))
    same = np.logical_and.reduce(
        [np.diff(whole[name][order]) == 0 for name in ("time_ns", "offset", "nbytes")]
    )
    order = order[np.concatenate([[True], ~same])] if len(order) else order
    return Segments(**{name: column[order] for name, column in whole.items()})


def _timeline(segments: Sequence[Segments]) -> Timeline:
    """Earlier entries of `segments` have priority."""
    start = _joined([s.offset for s in segments])
    nbytes = _joined([s.nbytes for s in segments])
    time_ns = _joined([s.time_ns for s in segments])
    covered = cover(start, start + nbytes)
    return Timeline(covered, time_ns[covered.source])


def _visible(segments: Sequence[Segments], captures: Sequence[Packets]) -> Visible:
    start = _joined([s.offset for s in segments])
    nbytes = _joined([s.visible_nbytes for s in segments])
    at = _joined([s.at for s in segments])
    file = _joined([s.file for s in segments])
    return Visible(cover(start, start + nbytes), [packets.data for packets in captures], (file, at - start))


def _joined(columns: Sequence[Ints]) -> Ints:
    return np.concatenate(columns) if len(columns) > 1 else columns[0]

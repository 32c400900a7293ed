"""TCP streams put together from packets: which byte of a stream was seen when, and where it can be
read.

A stream is one direction of one connection.  A packet between two captured hosts is in both hosts'
files, so every stream has a vantage, the file nearest its source, which alone decides counts and times;
what that file missed is taken from the others.  Which file is whose is inferred: a host's own file has
that host in every packet.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traces.packets.cover import Ints, Timeline, Visible, cover
from traces.packets.packets import ACK, SYN, TCP, Packets


class Direction(NamedTuple):
    """Addresses and ports of one direction of a connection; `number` counts reuses."""

    src: str
    sport: int
    dst: str
    dport: int
    number: int = 0

    @property
    def reverse(self) -> "Direction":
        return Direction(self.dst, self.dport, self.src, self.sport, self.number)


@dataclass(frozen=True)
class Segments:
    """What one file saw of a stream: an entry per packet with payload, in the order of time."""

    packets: Packets
    rows: Ints
    offset: Ints


@dataclass(frozen=True)
class Stream:
    """`opener` says whether `src` opened the connection; None if that was before the capture.

    `sent` and `received` give the time at which each byte was first seen nearest the source and nearest
    the destination; byte 0 is the first after the SYN, or the first one seen.  `retransmitted_at` are the
    offsets of packets that brought nothing new to the vantage.
    """

    direction: Direction
    opener: bool | None
    n_packets: int
    retransmitted_at: Ints
    sent: Timeline
    received: Timeline
    visible: Visible

    @property
    def nbytes(self) -> int:
        """Where the last byte that was seen ends."""
        return int(self.sent.cover.end[-1]) if len(self.sent.cover.end) else 0

    @property
    def unseen_nbytes(self) -> int:
        """Bytes that no file has: dropped by every capture."""
        return self.nbytes - int((self.sent.cover.end - self.sent.cover.start).sum())


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
    return not stream.opener, int(stream.sent.time_ns.min())


def own_address(packets: Packets) -> str | None:
    """The host at which a file was captured: the only one that takes part in every conversation; None
    if there is none.

    A switch floods what it has not learned yet, so a host also sees packets of others, but in one
    direction only.
    """
    tcp = packets.protocol == TCP
    both = packets.src[tcp].astype(np.uint64) << np.uint64(32) | packets.dst[tcp]
    pairs = {(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for pair in np.unique(both)}
    mutual = {frozenset(pair) for pair in pairs if (pair[1], pair[0]) in pairs}
    talks = mutual or {frozenset(pair) for pair in pairs}
    if not talks:
        return None
    common = frozenset.intersection(*talks)
    return packets.addresses[min(common)] if len(common) == 1 else None


def assemble(captures: Sequence[Packets]) -> dict[Direction, Stream]:
    """Every stream that carries payload, each packet counted once however many files have it.

    A 4-tuple that is used again by a later connection keeps its last connection only.
    """
    owners = [own_address(packets) for packets in captures]
    seen: defaultdict[Direction, list[int]] = defaultdict(list)
    rows_of = [_rows_by_direction(packets) for packets in captures]
    for number, rows in enumerate(rows_of):
        for direction in rows:
            seen[direction].append(number)
    streams = {}
    for direction, numbers in seen.items():
        found = {number: rows_of[number][direction] for number in numbers}
        stream = _stream(direction, captures, owners, found)
        if stream is not None:
            streams[direction] = stream
    return streams


def _rows_by_direction(packets: Packets) -> dict[Direction, Ints]:
    """The rows of SYNs and of packets with payload."""
    has_syn = packets.flags & SYN != 0
    rows = np.flatnonzero((packets.protocol == TCP) & ((packets.payload_nbytes > 0) | has_syn))
    if not len(rows):
        return {}
    source = packets.src[rows].astype(np.uint64) << np.uint64(16) | packets.sport[rows]
    target = packets.dst[rows].astype(np.uint64) << np.uint64(16) | packets.dport[rows]
    order = np.lexsort((packets.time_ns[rows], target, source))
    rows, source, target = rows[order], source[order], target[order]
    cuts = np.flatnonzero((np.diff(source) != 0) | (np.diff(target) != 0)) + 1
    firsts = [0, *cuts.tolist()]
    return {
        _direction(packets.addresses, int(source[first]), int(target[first])): part
        for first, part in zip(firsts, np.split(rows, cuts), strict=True)
    }


def _direction(addresses: Sequence[str], source: int, target: int) -> Direction:
    return Direction(addresses[source >> 16], source & 0xFFFF, addresses[target >> 16], target & 0xFFFF)


def _stream(
    direction: Direction,
    captures: Sequence[Packets],
    owners: Sequence[str | None],
    rows: Mapping[int, Ints],
) -> Stream | None:
    """None for a stream without payload."""
    rows = {number: _last_connection(captures[number], part) for number, part in rows.items()}
    segments, opener = _segments(captures, rows)
    if not segments:
        return None
    by_time = sorted(segments, key=lambda n: int(captures[n].time_ns[segments[n].rows[0]]))
    nearest_src = sorted(by_time, key=lambda n: owners[n] != direction.src)
    by_time.reverse()
    nearest_dst = sorted(by_time, key=lambda n: owners[n] != direction.dst)
    vantage = segments[nearest_src[0]]
    own = _timeline([vantage])
    sent = own if len(segments) == 1 else _timeline([segments[n] for n in nearest_src])
    received = sent if len(segments) == 1 else _timeline([segments[n] for n in nearest_dst])
    repeated = np.ones(len(vantage.rows), bool)
    repeated[own.cover.source] = False
    return Stream(
        direction=direction,
        opener=opener,
        n_packets=len(vantage.rows),
        retransmitted_at=vantage.offset[repeated],
        sent=sent,
        received=received,
        visible=_visible([segments[n] for n in nearest_src]),
    )


def _last_connection(packets: Packets, rows: Ints) -> Ints:
    syns = np.flatnonzero(packets.flags[rows] & SYN != 0)
    numbers = packets.seq[rows[syns]]
    others = np.flatnonzero(numbers != numbers[-1:])
    return rows[syns[others[-1] + 1] :] if len(others) else rows


def _segments(
    captures: Sequence[Packets], rows: Mapping[int, Ints]
) -> tuple[dict[int, Segments], bool | None]:
    """What each file saw, on one scale of offsets, and whether the source opened the connection."""
    opener, base = None, None
    for number, part in rows.items():
        for row in part[captures[number].flags[part] & SYN != 0][:1]:
            opener = not captures[number].flags[row] & ACK
            base = int(captures[number].seq[row]) + 1
    if base is None:
        number, part = next(iter(rows.items()))
        base = int(captures[number].seq[part[0]])
    offsets = {number: _offsets(captures[number].seq[part], base) for number, part in rows.items()}
    if opener is None:
        lowest = min(int(offset.min()) for offset in offsets.values())
        offsets = {number: offset - lowest for number, offset in offsets.items()}
    segments = {}
    for number, part in rows.items():
        keep = (captures[number].payload_nbytes[part] > 0) & (offsets[number] >= 0)
        if keep.any():
            segments[number] = Segments(captures[number], part[keep], offsets[number][keep])
    return segments, opener


def _offsets(seq: npt.NDArray[np.uint32], base: int) -> Ints:
    """Distances from `base`, across the wrap at 4 GiB: each number is taken as the nearest to the one
    before.
    """
    steps = np.diff(seq, prepend=np.uint32(base % (1 << 32))).view(np.int32)
    return np.cumsum(steps.astype(np.int64))


def _timeline(segments: Sequence[Segments]) -> Timeline:
    """Earlier entries of `segments` have priority."""
    start = np.concatenate([s.offset for s in segments])
    nbytes = np.concatenate([s.packets.payload_nbytes[s.rows] for s in segments])
    time_ns = np.concatenate([s.packets.time_ns[s.rows] for s in segments])
    made = cover(start, start + nbytes)
    return Timeline(made, time_ns[made.source])


def _visible(segments: Sequence[Segments]) -> Visible:
    start = np.concatenate([s.offset for s in segments])
    nbytes = np.concatenate([s.packets.visible_nbytes[s.rows] for s in segments])
    at = np.concatenate([s.packets.payload_at[s.rows] for s in segments])
    file = np.repeat(np.arange(len(segments)), [len(s.rows) for s in segments])
    return Visible(cover(start, start + nbytes), [s.packets.data for s in segments], (file, at - start))

"""Packets that were captured at two points: when each left one and reached the other.

A packet is known again by its connection, sequence and acknowledgement numbers, also where it was cut up
on its way (segmentation offload): the first piece keeps them.  A number pair that either point saw twice
is left out: nothing shows which one is which.  Files that hold only what their host sent have no
packet in common; there an acknowledgement shows that the bytes had arrived when it left.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Direction, Rows, unwrapped
from gradwire.traces.packets.packets import ACK, Packets

MAX_CONNECTIONS = 3  # of a pair of points, those with most packets
MAX_SAMPLES = 512  # packets of a connection's direction, about
_WINDOWS = 64  # of a pair's time, each with its fastest packet
_MIX = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B))  # odd, bits evenly mixed (Knuth; xxHash)


@dataclass(frozen=True)
class Exchanged:
    """`times[first, second]`: of packets from one point to another, when each was at either, by its clock.

    Only the fastest of each of _WINDOWS windows of either point's time.  `peers` are a point's that it
    exchanged any with.
    """

    times: Mapping[tuple[int, int], tuple[Ints, Ints]]
    peers: Mapping[int, tuple[int, ...]]


_Pair = tuple[int, int]
_ByPair = defaultdict[_Pair, list[tuple[int, Direction]]]


class _Seen(NamedTuple):
    """One direction of a connection at one point: the file and its rows that say most."""

    file: int
    rows: Ints


def exchanged(
    captures: Sequence[Packets],
    rows_of: Sequence[Rows],
    files: Mapping[int, Sequence[int]],
    owner: Mapping[int, str | None],
) -> Exchanged:
    """`files` are the captures of each point, `owner` the host that it is, None for a switch."""
    at = _where(rows_of, files)
    hashes = [_hash(packets) for packets in captures]
    both, answered, unknown = _pairs(at, owner)
    found: dict[_Pair, tuple[Ints, Ints]] = {}
    for (first, second), some in both.items():
        parts = [
            _common(captures, hashes, at[direction][first], at[direction][second])
            for _, direction in nlargest(MAX_CONNECTIONS, some)
        ]
        _keep(found, (first, second), parts)
    for (first, second), some in unknown.items():
        samples = [
            _either_way(captures, hashes, at, direction, (first, second))
            for _, direction in nlargest(MAX_CONNECTIONS, some)
        ]
        _keep(found, (first, second), [there for there, _ in samples])
        _keep(found, (second, first), [back for _, back in samples])
    for (first, second), some in answered.items():
        if (first, second) not in found:
            parts = [
                _answered(captures, at[direction][first], at[direction.reverse][second])
                for _, direction in nlargest(MAX_CONNECTIONS, some)
            ]
            _keep(found, (first, second), parts)
    peers: defaultdict[int, set[int]] = defaultdict(set)
    for first, second in found:
        peers[first].add(second)
        peers[second].add(first)
    return Exchanged(found, {point: tuple(sorted(some)) for point, some in peers.items()})


def _where(rows_of: Sequence[Rows], files: Mapping[int, Sequence[int]]) -> dict[Direction, dict[int, _Seen]]:
    """By direction and point the file that has most of it."""
    at: defaultdict[Direction, dict[int, _Seen]] = defaultdict(dict)
    for point, some in files.items():
        for file in some:
            for direction, rows in rows_of[file].items():
                known = at[direction].get(point)
                if known is None or len(known.rows) < len(rows):
                    at[direction][point] = _Seen(file, rows)
    return at


def _pairs(
    at: Mapping[Direction, Mapping[int, _Seen]], owner: Mapping[int, str | None]
) -> tuple[_ByPair, _ByPair, _ByPair]:
    """For each pair of points the directions that both saw, in the order of the way; those whose packets the
    first sent and whose answers the second did; and those that both saw, in an order that is not known.
    """
    unknown: _ByPair = defaultdict(list)
    both: _ByPair = defaultdict(list)
    answered: _ByPair = defaultdict(list)
    for direction, seen in at.items():
        on_way = _on_way(direction, seen, owner)
        for number, first in enumerate(on_way):
            for second in on_way[number + 1 :]:
                count = min(len(seen[first].rows), len(seen[second].rows))
                if owner[first] is not None or owner[second] is not None:
                    both[first, second].append((count, direction))
                elif direction < direction.reverse:
                    unknown[first, second].append((count, direction))
        back = at.get(direction.reverse, {})
        source = _sender(direction.src, seen, back, owner)
        target = _sender(direction.dst, back, seen, owner)
        if source is not None and target is not None:
            answered[source, target].append((len(seen[source].rows), direction))
    return both, answered, unknown


def _sender(
    host: str,
    sent: Mapping[int, _Seen],
    answers: Mapping[int, _Seen],
    owner: Mapping[int, str | None],
) -> int | None:
    """The point that is `host`; of two hosts that talk to nobody else, the one that has only what it sent."""
    lone = next((point for point in sent if owner[point] is None and point not in answers), None)
    return next((point for point in sent if owner[point] == host), lone)


def _on_way(direction: Direction, seen: Mapping[int, _Seen], owner: Mapping[int, str | None]) -> list[int]:
    """The points that a packet passes, in order; a bystander, whom a switch floods, is not one of them."""
    place = {direction.src: 0, None: 1, direction.dst: 2}
    return sorted((point for point in seen if owner[point] in place), key=lambda n: place[owner[n]])


def _hash(packets: Packets) -> npt.NDArray[np.uint32]:
    """The same for the same packet in every file: which packets are looked at follows from it."""
    mixed = (packets.seq ^ (packets.ack * _MIX[0])) * _MIX[1]
    mixed ^= mixed >> np.uint32(15)
    return mixed * _MIX[0]


def _common(
    captures: Sequence[Packets], hashes: Sequence[npt.NDArray[np.uint32]], first: _Seen, second: _Seen
) -> tuple[Ints, Ints]:
    count = min(len(first.rows), len(second.rows))
    keys, times = [], []
    for seen in (first, second):
        packets, rows = captures[seen.file], seen.rows
        if count > MAX_SAMPLES:
            rows = rows[hashes[seen.file][rows] < np.uint32((MAX_SAMPLES << 32) // count)]
        key = packets.seq[rows].astype(np.uint64) << np.uint64(32) | packets.ack[rows]
        key, place, repeats = np.unique(key, return_index=True, return_counts=True)
        keys.append(key[repeats == 1])
        times.append(packets.time_ns[rows[place[repeats == 1]]])
    _, left, right = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    return times[0][left], times[1][right]


def _either_way(
    captures: Sequence[Packets],
    hashes: Sequence[npt.NDArray[np.uint32]],
    at: Mapping[Direction, Mapping[int, _Seen]],
    direction: Direction,
    pair: _Pair,
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Packets from the first point to the second, and back, of a connection that passes both.

    Which of its directions goes which way is not known; but whatever the clocks' offset, the packets of
    one way seem later at the second point than those of the other.
    """
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    found = []
    for way in (direction, direction.reverse):
        seen = at.get(way, {})
        if pair[0] not in seen or pair[1] not in seen:
            return nothing, nothing
        found.append(_common(captures, hashes, seen[pair[0]], seen[pair[1]]))
    if any(not len(first) for first, _ in found):
        return nothing, nothing
    there, back = sorted(found, key=lambda times: -float(np.median(times[1] - times[0])))
    return there, back[::-1]


def _answered(captures: Sequence[Packets], sent: _Seen, answers: _Seen) -> tuple[Ints, Ints]:
    """When bytes first left, and when the first acknowledgement of all of them did, at the other end."""
    packets, rows = captures[sent.file], sent.rows
    rows = rows[packets.payload_nbytes[rows] > 0]
    theirs, acks = captures[answers.file], answers.rows
    acks = acks[theirs.flags[acks] & ACK != 0]
    if not len(rows) or not len(acks):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    base = packets.seq[rows[:1]]
    end = unwrapped(packets.seq[rows], base) + packets.payload_nbytes[rows]
    is_new = np.diff(np.maximum.accumulate(end), prepend=-1) > 0
    rows, end = rows[is_new], end[is_new]
    some = slice(None, None, len(rows) // MAX_SAMPLES + 1)
    rows, end = rows[some], end[some]
    known = np.maximum.accumulate(unwrapped(theirs.ack[acks], base))
    place = np.searchsorted(known, end)
    rows, place = rows[place < len(acks)], place[place < len(acks)]
    return packets.time_ns[rows], theirs.time_ns[acks[place]]


def _keep(
    found: dict[_Pair, tuple[Ints, Ints]],
    pair: _Pair,
    parts: Sequence[tuple[Ints, Ints]],
) -> None:
    left, right = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    if not len(left):
        return
    # By the time of either: a clock that was set meanwhile would put nearly all into one or two windows.
    kept = [np.zeros(0, np.int64)]
    for times in (left, right):
        first_ns = int(times.min())
        window = (times - first_ns) // ((int(times.max()) - first_ns) // _WINDOWS + 1)
        order = np.lexsort((right - left, window))
        kept.append(order[np.flatnonzero(np.diff(window[order], prepend=-1))])
    rows = np.unique(np.concatenate(kept))
    found[pair] = left[rows], right[rows]

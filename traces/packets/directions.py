"""Sorts packets by connection and direction."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.packets import ACK, NO_SHIFT, SYN, TCP, Packets, once
from gradwire.traces.threads import in_threads

_MAX_MARKED = 1 << 10  # addresses in a file, up to which a table of all pairs is small
_MAX_SHORT = 1 << 16  # addresses in a file, up to which one 64-bit key tells a direction


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


Rows = dict[Direction, Ints]


def by_direction(captures: Sequence[Packets]) -> list[Rows]:
    """The rows of all TCP packets of each file, by direction, in the order of time.

    A 4-tuple that is used again gets another `number` from the SYN on that begins its next connection.  Where
    a file has fewer of these SYNs than another, the other's times are taken for it.
    """
    rows_of = in_threads(_by_four_tuple, captures)
    n_syns = [_n_syns(packets, rows) for packets, rows in zip(captures, rows_of, strict=True)]
    often = {direction for counts in n_syns for direction, count in counts.items() if count > 1}
    begun: dict[Direction, Ints] = {}
    for packets, rows, counts in zip(captures, rows_of, n_syns, strict=True):
        for direction in (one for one in counts if one in often):
            times = _openings(packets, rows[direction])
            begun[direction] = max(begun.get(direction, times), times, key=len)
    for direction in [direction for direction, times in begun.items() if len(times) > 1]:
        for packets, rows in zip(captures, rows_of, strict=True):
            _number(packets, rows, direction, begun[direction])
    return rows_of


def _by_four_tuple(packets: Packets) -> Rows:
    rows = np.flatnonzero(packets.protocol == TCP)
    if not len(rows):
        return {}
    src, dst, sport, dport = (
        column[rows].astype(np.uint64) for column in (packets.src, packets.dst, packets.sport, packets.dport)
    )
    keys: tuple[npt.NDArray[Any], ...] = (src << 16 | sport, dst << 16 | dport)
    if len(packets.addresses) <= _MAX_SHORT:
        keys = (src << 48 | dst << 32 | sport << 16 | dport,)
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    rows = rows[order]
    differs = np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(differs) + 1])
    firsts = rows[starts]
    names = packets.addresses
    ends = (packets.src, packets.sport, packets.dst, packets.dport)
    directions = [
        Direction(names[src], sport, names[dst], dport)
        for src, sport, dst, dport in zip(*(column[firsts].tolist() for column in ends), strict=True)
    ]
    is_late = (np.diff(packets.time_ns[rows]) < 0) & ~differs
    cuts = [*starts.tolist(), len(rows)]
    for part in np.unique(np.searchsorted(starts, np.flatnonzero(is_late), "right") - 1).tolist():
        own = slice(cuts[part], cuts[part + 1])
        rows[own] = rows[own][np.argsort(packets.time_ns[rows[own]], kind="stable")]
    return {
        direction: rows[start:end] for direction, start, end in zip(directions, cuts, cuts[1:], strict=False)
    }


def _n_syns(packets: Packets, rows: Rows) -> dict[Direction, int]:
    """How many SYNs that are no answers each direction has, of those that have any."""
    in_order, ends = concatenated(rows)
    syns = np.flatnonzero(packets.flags[in_order] & (SYN | ACK) == SYN)
    whose, counts = np.unique(np.searchsorted(ends, syns, "right"), return_counts=True)
    directions = list(rows)
    return {directions[number]: count for number, count in zip(whose.tolist(), counts.tolist(), strict=True)}


def _openings(packets: Packets, rows: Ints) -> Ints:
    """When a direction's connections began: the times of its SYNs that are neither answers nor repeats."""
    syns = rows[packets.flags[rows] & (SYN | ACK) == SYN]
    _, firsts = np.unique(packets.seq[syns], return_index=True)
    times: Ints = packets.time_ns[syns[np.sort(firsts)]]
    return times


def concatenated(rows: Rows) -> tuple[Ints, Ints]:
    """All rows, one direction after the other, and where each ends."""
    ends = np.cumsum([*map(len, rows.values())], dtype=np.int64)  # also of none, which numpy takes for floats
    return np.concatenate([np.empty(0, np.int64), *rows.values()]), ends


def first_syns(packets: Packets, rows: Rows) -> dict[Direction, int]:
    """The row of the first packet with SYN of each direction that has one."""
    in_order, ends = concatenated(rows)
    syns = np.flatnonzero(packets.flags[in_order] & SYN)
    whose, first = np.unique(np.searchsorted(ends, syns, "right"), return_index=True)
    directions = list(rows)
    found = zip(whose.tolist(), in_order[syns[first]].tolist(), strict=True)
    return {directions[number]: row for number, row in found}


def window_shifts(packets: Packets, rows: Rows) -> dict[Direction, int]:
    """By how many bits the windows of each direction with a SYN are scaled: not at all unless both SYNs offer
    it (RFC 7323, 1.3).
    """
    syn_of = first_syns(packets, rows)
    shifts = packets.window_shift[np.fromiter(syn_of.values(), np.int64, len(syn_of))].tolist()
    shift_of = dict(zip(syn_of, shifts, strict=True))
    return {
        direction: 0 if NO_SHIFT in (shift, shift_of.get(direction.reverse)) else shift
        for direction, shift in shift_of.items()
    }


def unwrapped(numbers: npt.NDArray[np.uint32], first: npt.NDArray[np.uint32]) -> Ints:
    """Sequence numbers of one direction, in order of time, from the `first` on, which wrap around at 2^32."""
    steps = np.diff(numbers, prepend=first).astype(np.int32).astype(np.int64)
    return np.cumsum(steps)


def _number(packets: Packets, rows: Rows, opener: Direction, begun: Ints) -> None:
    """Cut both directions of `opener`'s connection where others began."""
    openings = _openings(packets, rows[opener]) if opener in rows else begun
    cuts = openings if len(openings) == len(begun) else begun
    for direction in (opener, opener.reverse):
        part = rows.pop(direction, None)
        if part is None:
            continue
        number = np.maximum(np.searchsorted(cuts, packets.time_ns[part], "right") - 1, 0)
        for one in np.split(part, np.flatnonzero(np.diff(number)) + 1):
            which = max(int(np.searchsorted(cuts, packets.time_ns[one[0]], "right")) - 1, 0)
            rows[direction._replace(number=which)] = one


@once
def own_address(packets: Packets) -> str | None:
    """The host at which a file was captured: the only one that takes part in every conversation; None
    if there is none.

    A switch floods what it has not learned yet, so a host also sees packets of others, but in one
    direction only.
    """
    pairs = _talking(packets)
    mutual = {frozenset(pair) for pair in pairs if (pair[1], pair[0]) in pairs}
    talks = mutual or {frozenset(pair) for pair in pairs}
    if not talks:
        return None
    common = frozenset.intersection(*talks)
    return packets.addresses[min(common)] if len(common) == 1 else None


def _talking(packets: Packets) -> set[tuple[int, int]]:
    """Who sent TCP to whom, as positions in `packets.addresses`."""
    n_addresses = len(packets.addresses)
    tcp = packets.protocol == TCP
    both = packets.src[tcp].astype(np.int64) * n_addresses + packets.dst[tcp]
    if n_addresses <= _MAX_MARKED:
        marked = np.zeros(n_addresses * n_addresses, np.bool_)
        marked[both] = True
        both = np.flatnonzero(marked)
    return {divmod(pair, n_addresses) for pair in np.unique(both).tolist()}


def points(captures: Sequence[Packets], owners: Sequence[str | None]) -> list[int]:
    """For each file the number of the point at which it was captured.

    Files of one host are one point; so are files of no host (made at a switch) that follow each other
    in time, as a capture that was cut into several files does.
    """
    ends: dict[int, int] = {}  # of points at switches: when their last file so far ends
    of_host: dict[str, int] = {}
    order = sorted(range(len(captures)), key=lambda n: int(captures[n].time_ns.min()))
    point_of: dict[int, int] = {}
    for n in order:
        owner, fresh = owners[n], len(ends) + len(of_host)
        if owner is not None:
            point_of[n] = of_host.setdefault(owner, fresh)
            continue
        first_ns, last_ns = int(captures[n].time_ns.min()), int(captures[n].time_ns.max())
        point_of[n] = next((point for point, end in ends.items() if end < first_ns), fresh)
        ends[point_of[n]] = last_ns
    return [point_of[n] for n in range(len(captures))]

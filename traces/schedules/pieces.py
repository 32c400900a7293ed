"""Buffers cut into pieces so that every send reads and writes whole pieces.

There are two ways to cut.  For what happens at each member by itself, as the order in which its bytes are
accessed, each buffer is cut where its own sends begin and end (`own_pieces`): in halving-doubling among p
ranks that makes log2(p) + 1 pieces of each.

Where data are followed from rank to rank, the buffers of all members of an operation are cut alike
(`piece_starts`), which makes p of each.  A *place* is one piece of one member's buffer, numbered
member * n_pieces + piece.  A *hop* is what one send does with one piece: it reads it at one place, and writes
it, or adds it, at another.  Places that hops connect are a *component*: data never pass from one component to
another, so each can be looked at by itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.sends import Sends

Ids = NDArray[np.int64]

MAX_PIECES = 1 << 26  # at all members together, and moved by all sends
MAX_KEY = (1 << 63) - 1
MAX_CUTS = 1 << 27  # looked at in all rounds in which cuts are carried from place to place


class Pieces(NamedTuple):
    """Each member's buffer cut where its own sends begin and end to read or write.

    The pieces of the second member follow those of the first, and so on; the last of each member begins where
    its buffer ends, and nothing is in it.  Piece i begins at byte `keys[i] % width` of member
    `keys[i] // width`.  Send i reads `n_source[i]` pieces from number `source[i]` on, and writes
    `n_target[i]` from `target[i]` on.
    """

    keys: Ids
    width: int
    source: Ids
    n_source: Ids
    target: Ids
    n_target: Ids

    def at(self, member: Ids, byte: Ids) -> Ids:
        """The pieces that begin at these bytes of members' buffers; members are named by their position."""
        return np.searchsorted(self.keys, member * self.width + byte)


class Hops(NamedTuple):
    """All hops of an operation, by send: the send's position in the operation, and the two places."""

    send: Ids
    source: Ids
    target: Ids


NOWHERE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def own_pieces(sends: Sends, members: Sequence[int], more: tuple[Ids, Ids] = NOWHERE) -> Pieces:
    """`members` are ascending; `more` are further cuts, as positions of members and bytes of their buffers.

    Raise ValueError for more than MAX_PIECES.
    """
    place = np.array(members, np.int64)
    src, dst = np.searchsorted(place, sends.src), np.searchsorted(place, sends.dst)
    into = sends.offset + sends.shift
    width = int(max(sends.offset.max(initial=0), into.max(initial=0), more[1].max(initial=0)))
    width += int(sends.nbytes.max(initial=0)) + 1
    if len(members) * width > MAX_KEY:
        raise ValueError(f"buffers of {width:,} bytes at {len(members):,} ranks are too large to check")
    ends = [member * width + byte for member, byte in ((src, sends.offset), (dst, into), more)]
    ends += [ends[0] + sends.nbytes, ends[1] + sends.nbytes]
    keys = np.sort(np.concatenate(ends))
    keys = keys[np.diff(keys, prepend=-1) != 0]
    source, n_source = _places(keys, ends[0], ends[3])
    target, n_target = _places(keys, ends[1], ends[4])
    if len(keys) > MAX_PIECES or n_source.sum() + n_target.sum() > 2 * MAX_PIECES:
        raise ValueError(f"its sends cut the buffers into more than {MAX_PIECES:,} pieces, or move more")
    return Pieces(keys, width, source, n_source, target, n_target)


def _places(keys: Ids, first: Ids, end: Ids) -> tuple[Ids, Ids]:
    """Where each of `first` is among the keys, and how many keys further each of `end` is."""
    places = np.searchsorted(keys, first)
    counts = (first < end).astype(np.int64)
    longer = np.flatnonzero(keys[places + counts] != end)  # nearly all are of one piece in many schedules
    counts[longer] = np.searchsorted(keys, end[longer]) - places[longer]
    return places, counts


@compiled
def in_time(pieces: Pieces, partner: Ids) -> tuple[Ids, Ids]:
    """The accesses to each piece one after the other: where those of each begin, and the accesses.

    That of a send's read is 2 * send, that of its write one more.  A send is written right after it was read,
    both halves of a swap when both have been read; `partner` is the other half of each, or -1.
    """
    source, n_source, target, n_target = pieces.source, pieces.n_source, pieces.target, pieces.n_target
    starts = np.zeros(len(pieces.keys) + 1, np.int64)
    for send in range(len(source)):
        for piece in range(source[send], source[send] + n_source[send]):
            starts[piece + 1] += 1
        for piece in range(target[send], target[send] + n_target[send]):
            starts[piece + 1] += 1
    for piece in range(len(pieces.keys)):
        starts[piece + 1] += starts[piece]
    room = starts.copy()
    events = np.empty(starts[-1], np.int64)
    for send in range(len(source)):
        for piece in range(source[send], source[send] + n_source[send]):
            events[room[piece]] = 2 * send
            room[piece] += 1
        if partner[send] > send:
            continue
        for each in (partner[send], send):
            for piece in range(target[each], target[each] + n_target[each]) if each >= 0 else range(0):
                events[room[piece]] = 2 * each + 1
                room[piece] += 1
    return starts, events


def piece_starts(sends: Sends, ends: Sequence[int] = ()) -> Ids:
    """Where the pieces of all buffers begin, ascending, the last where the buffers end.

    Cuts are made where any send begins or ends to read or write, and at `ends`.  A send with a shift carries
    the cuts in what it reads over to what it writes, and the other way round, until no cut is new.  Raise
    ValueError for more than MAX_PIECES, and where finding them takes too long.
    """
    targets = sends.offset + sends.shift
    cuts = np.unique(
        np.concatenate(
            (
                np.array(ends, np.int64),
                sends.offset,
                sends.offset + sends.nbytes,
                targets,
                targets + sends.nbytes,
            )
        )
    )
    moving = np.flatnonzero(sends.shift)
    n_looked_at = 0
    while len(moving):
        more = [cuts]
        for starts, shift in ((sends.offset, sends.shift), (targets, -sends.shift)):
            first = np.searchsorted(cuts, starts[moving])
            counts = np.searchsorted(cuts, starts[moving] + sends.nbytes[moving]) - first
            n_looked_at += len(cuts) + int(counts.sum())
            if n_looked_at > MAX_CUTS:  # before so many are made
                raise ValueError("its sends cut the buffer into too many pieces to check")
            more.append(cuts[ranges(first, counts)] + np.repeat(shift[moving], counts))
        made = np.unique(np.concatenate(more))
        if len(made) == len(cuts):
            break
        cuts = made
        if len(cuts) > MAX_PIECES:
            raise ValueError(f"its sends cut the buffer into more than {MAX_PIECES:,} pieces")
    return cuts


def ranges(first: Ids, counts: Ids) -> Ids:
    """`counts[0]` numbers from first[0] on, then `counts[1]` numbers from first[1] on, and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    made: Ids = np.arange(total) + np.repeat(first - (ends - counts), counts)
    return made


def hops_of(sends: Sends, cuts: Ids, members: Sequence[int]) -> Hops:
    """The hops of an operation; `members` are ascending.  Raise ValueError for more than MAX_PIECES."""
    n_pieces = len(cuts)
    if n_pieces * len(members) > MAX_PIECES:
        raise ValueError(f"its sends cut the buffers into more than {MAX_PIECES:,} pieces")
    first = np.searchsorted(cuts, sends.offset)
    counts = np.searchsorted(cuts, sends.offset + sends.nbytes) - first
    if counts.sum() > MAX_PIECES:
        raise ValueError(f"its sends move more than {MAX_PIECES:,} pieces")
    into = np.searchsorted(cuts, sends.offset + sends.shift)
    place = np.array(members, np.int64)
    src = np.searchsorted(place, sends.src) * n_pieces
    dst = np.searchsorted(place, sends.dst) * n_pieces
    send = np.repeat(np.arange(len(sends)), counts)
    return Hops(send, src[send] + ranges(first, counts), dst[send] + ranges(into, counts))


@compiled
def components(source: Ids, target: Ids, n_places: int) -> Ids:
    """The component of each hop, named by its lowest place.

    A forest of places (union-find): each leads to a lower one of its component, the lowest to itself.
    """
    parent = np.arange(n_places)
    for hop in range(len(source)):
        one, other = source[hop], target[hop]
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        while parent[other] != other:
            parent[other] = parent[parent[other]]
            other = parent[other]
        if one < other:
            parent[other] = one
        else:
            parent[one] = other
    found = np.empty(len(source), np.int64)
    for hop in range(len(source)):
        one = source[hop]
        while parent[one] != one:
            one = parent[one]
        found[hop] = one
    return found

"""Buffers cut into pieces so that every send reads and writes whole pieces.

The buffers of all members of an operation are cut alike.  A *place* is one piece of one member's buffer,
numbered member * n_pieces + piece.  A *hop* is what one send does with one piece: it reads it at one place,
and writes it, or adds it, at another.  Places that hops connect are a *component*: data never pass from one
component to another, so each can be looked at by itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.sends import Sends

Ids = NDArray[np.int64]

MAX_PIECES = 1 << 26  # at all members together, and moved by all sends
MAX_CUTS = 1 << 27  # looked at in all rounds in which cuts are carried from place to place


class Hops(NamedTuple):
    """All hops of an operation, by send: the send's position in the operation, and the two places."""

    send: Ids
    source: Ids
    target: Ids


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

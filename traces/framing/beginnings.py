"""How connections begin, as columns: so that a framing can rule out thousands of them at once.

Short connections of something else than training are many where there are any, and to judge each by every
framing takes longer than all else that is found out of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.inorder import InOrder, SeenInOrder
from gradwire.traces.packets.streams import Connection, Stream

HEAD_NBYTES = 32
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Beginnings:
    """The streams of some connections, one connection after the other.

    `first` are the places of the connections' first streams.  `opens` says that a stream's source opened the
    connection, `answers` that its destination did; neither is true where that was before the capture.
    `n_visible` of a stream's first bytes are known to be in its first packet, and perhaps more in the next
    ones; `head` has HEAD_NBYTES columns with the first of these.
    """

    first: Ints
    ports: Ints  # rows of source and destination
    opens: Mask
    answers: Mask
    nbytes: Ints
    n_visible: Ints
    head: npt.NDArray[np.uint8]

    def all_of(self, streams: Mask) -> Mask:
        """The connections of which that is true of each stream."""
        return np.logical_and.reduceat(streams, self.first)

    def any_of(self, streams: Mask) -> Mask:
        """The connections of which that is true of a stream."""
        return np.logical_or.reduceat(streams, self.first)

    def number_at(self, place: Ints) -> npt.NDArray[np.uint64]:
        """The little-endian u64 at a place of each stream's head, whether or not it was captured."""
        columns = place[:, None] + np.arange(8)
        octets = np.take_along_axis(self.head, columns, axis=1)
        return np.ascontiguousarray(octets).view("<u8")[:, 0]


def beginnings(connections: Sequence[Connection]) -> Beginnings:
    """Of one connection at least."""
    streams = [stream for connection in connections for stream in connection.streams]
    head = np.zeros((len(streams), HEAD_NBYTES), np.uint8)
    n_visible = np.zeros(len(streams), np.int64)
    for columns, places, numbers in _by_columns(streams):
        rows = columns.placed.begin[numbers]
        n_visible[places] = np.where(columns.offset[rows] == 0, columns.file.visible[rows], 0)
        at = columns.file.at[rows][:, None] + np.arange(HEAD_NBYTES)
        head[places] = columns.data[np.minimum(at, len(columns.data) - 1)]
    opener = [stream.opener for stream in streams]
    return Beginnings(
        first=np.cumsum([0, *(len(connection.streams) for connection in connections)])[:-1],
        ports=np.array([stream.direction[1:4:2] for stream in streams], np.int64),
        opens=np.array([one is True for one in opener]),
        answers=np.array([one is False for one in opener]),
        nbytes=np.array([stream.nbytes for stream in streams], np.int64),
        n_visible=n_visible,
        head=head,
    )


def _by_columns(streams: Sequence[Stream]) -> list[tuple[InOrder, Ints, Ints]]:
    """The streams seen in order: of which columns, the places in `streams`, the numbers in the columns."""
    found: dict[int, tuple[InOrder, list[int], list[int]]] = {}
    for place, stream in enumerate(streams):
        seen = stream.seen
        if isinstance(seen, SeenInOrder):
            _, places, numbers = found.setdefault(id(seen.columns), (seen.columns, [], []))
            places.append(place)
            numbers.append(seen.number)
    return [(columns, np.array(places), np.array(numbers)) for columns, places, numbers in found.values()]

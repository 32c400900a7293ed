"""Streams that one file saw in order, without a repeat or an overlap, as nearly all short ones are.

Their pieces are their packets, so they are placed all at once, and what else a stream has is made of columns
when somebody asks for it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.columns import Counts, Ints, Octets, Words
from gradwire.traces.packets.cover import Cover, Timeline, Visible, distinct
from gradwire.traces.packets.jit import compiled
from gradwire.traces.packets.payloadcolumns import PayloadColumns

NO_SYN = -1


class Placed(NamedTuple):
    """The streams of a file, by number.  `begin` and `end` are the places of their packets in its columns.

    `first_seq` is the sequence number of byte 0, `nbytes` where the last byte ends, `unseen_nbytes` how many
    before it were not captured, `is_in_order` not 0 where this holds and all else here means anything.
    `first_ns` and `last_ns` are when the first and the last packet were seen.
    """

    begin: Ints
    end: Ints
    first_seq: Ints
    nbytes: Ints
    unseen_nbytes: Ints
    first_ns: Ints
    last_ns: Ints
    is_in_order: Octets


@dataclass(frozen=True, eq=False)
class InOrder:
    """A file's packets with payload; `offset` is each one's in its stream."""

    file: PayloadColumns
    data: npt.NDArray[np.uint8]
    placed: Placed
    offset: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class SeenInOrder:
    """What packets show of stream `number`; see `traces.packets.streams.Stream`."""

    columns: InOrder
    number: int

    @property
    def _rows(self) -> slice:
        placed = self.columns.placed
        return slice(int(placed.begin[self.number]), int(placed.end[self.number]))

    @property
    def retransmitted_at(self) -> Ints:
        return np.empty(0, np.int64)

    @property
    def pushed_at(self) -> Ints:
        rows = self._rows
        return distinct(self.columns.end[rows][self.columns.file.pushed[rows] != 0])

    @property
    def sent_pieces(self) -> tuple[Ints, Ints, Ints]:
        rows = self._rows
        return self.columns.offset[rows], self.columns.end[rows], self.columns.file.time_ns[rows]

    @property
    def sent(self) -> Timeline:
        start, end, time_ns = self.sent_pieces
        return Timeline(Cover(start, end, np.arange(len(start))), time_ns)

    @property
    def received(self) -> Timeline:
        return self.sent

    @property
    def visible(self) -> Visible:
        rows = self._rows
        start = self.columns.offset[rows]
        end = start + self.columns.file.visible[rows]
        where = np.zeros(len(start), np.int64), self.columns.file.at[rows] - start
        return Visible(Cover(start, end, np.arange(len(start))), [self.columns.data], where)


def in_order(file: PayloadColumns, data: npt.NDArray[np.uint8], syn_seq: Ints) -> InOrder:
    """`syn_seq` are the sequence numbers of the streams' SYNs, NO_SYN where there is none."""
    n_streams = len(syn_seq)
    placed = Placed(
        begin=file.cuts[:-1],
        end=file.cuts[1:],
        first_seq=np.zeros(n_streams, np.int64),
        nbytes=np.zeros(n_streams, np.int64),
        unseen_nbytes=np.zeros(n_streams, np.int64),
        first_ns=np.zeros(n_streams, np.int64),
        last_ns=np.zeros(n_streams, np.int64),
        is_in_order=np.zeros(n_streams, np.uint8),
    )
    offset = np.empty(len(file.seq), np.int64)
    _place(file.seq, file.nbytes, file.visible, file.time_ns, syn_seq, placed, offset)
    return InOrder(file, data, placed, offset, offset + file.nbytes)


@compiled
def _place(
    seq: Words, nbytes: Counts, visible: Counts, time_ns: Ints, syn_seq: Ints, placed: Placed, offset: Ints
) -> None:
    """Fill `placed` and `offset`."""
    for stream in range(len(placed.begin)):
        begin, end = placed.begin[stream], placed.end[stream]
        if begin == end:
            continue
        base = (syn_seq[stream] + 1) & 0xFFFFFFFF
        if syn_seq[stream] < 0:  # byte 0 is the lowest that was seen
            base = _lowest(seq, begin, end)
        place = ((np.int64(seq[begin]) - base + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        reached, unseen, is_in_order = np.int64(0), np.int64(0), 1
        for row in range(begin, end):
            if row > begin:
                step = np.int64(seq[row]) - np.int64(seq[row - 1])
                place += ((step + 0x80000000) & 0xFFFFFFFF) - 0x80000000  # numbers wrap around
            offset[row] = place
            if place < reached or visible[row] <= 0:
                is_in_order = 0
                break
            unseen += place - reached
            reached = place + nbytes[row]
        placed.first_seq[stream] = base
        placed.nbytes[stream] = reached
        placed.unseen_nbytes[stream] = unseen
        placed.first_ns[stream], placed.last_ns[stream] = time_ns[begin], time_ns[end - 1]
        placed.is_in_order[stream] = is_in_order


@compiled
def _lowest(seq: Words, begin: int, end: int) -> int:
    """Of the sequence numbers, each taken as the nearest to the one before."""
    place, lowest = np.int64(seq[begin]), np.int64(seq[begin])
    for row in range(begin + 1, end):
        step = np.int64(seq[row]) - np.int64(seq[row - 1])
        place += ((step + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        lowest = min(lowest, place)
    return int(lowest & 0xFFFFFFFF)

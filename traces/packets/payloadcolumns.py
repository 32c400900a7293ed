"""The packets of a file that carry payload, as columns by direction: what streams are made of."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Direction, Rows, concatenated, first_syns
from gradwire.traces.packets.packets import PSH, Packets


class PayloadColumns(NamedTuple):
    """A file's TCP packets with payload, one direction after the other, each in the order of time.

    `number` is a direction's; its packets are those from `cuts[number]` until `cuts[number + 1]`.  `syn` is
    the row of its first SYN in the file.
    """

    number: dict[Direction, int]
    cuts: Ints
    syn: dict[Direction, int]
    time_ns: Ints
    nbytes: npt.NDArray[np.int32]
    visible: npt.NDArray[np.int32]
    pushed: npt.NDArray[np.uint8]
    at: Ints
    seq: npt.NDArray[np.uint32]

    def part(self, direction: Direction) -> slice:
        """Which packets are a direction's."""
        number = self.number[direction]
        return slice(int(self.cuts[number]), int(self.cuts[number + 1]))

    def has(self, direction: Direction) -> bool:
        part = self.part(direction)
        return bool(part.stop > part.start)

    def offsets(self, direction: Direction, base: int) -> Ints:
        """Distances of a direction's packets from sequence number `base`, of the first the nearer way; of
        each other one the nearest to the one before, across the wrap at 4 GiB.
        """
        seq = self.seq[self.part(direction)]
        steps = np.diff(seq, prepend=seq[:1]).view(np.int32).astype(np.int64)
        steps[0] = (int(seq[0]) - base + (1 << 31)) % (1 << 32) - (1 << 31)
        return np.cumsum(steps, out=steps)


def payload_columns(packets: Packets, rows_of: Rows) -> PayloadColumns:
    """Of all directions at once, as for a few packets numpy takes longer to begin than to end."""
    rows, ends = concatenated(rows_of)
    carries = packets.payload_nbytes[rows] > 0
    n_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(carries)])
    rows = rows[carries]
    return PayloadColumns(
        number={direction: number for number, direction in enumerate(rows_of)},
        cuts=n_before[np.concatenate([np.zeros(1, np.int64), ends])],
        syn=first_syns(packets, rows_of),
        time_ns=packets.time_ns[rows],
        nbytes=packets.payload_nbytes[rows],
        visible=packets.visible_nbytes[rows],
        pushed=packets.flags[rows] & np.uint8(PSH),
        at=packets.payload_at[rows],
        seq=packets.seq[rows],
    )

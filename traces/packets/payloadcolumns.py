"""The packets of a file that carry payload, as columns by direction: what streams are made of."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Direction, Rows, first_syns
from gradwire.traces.packets.packets import PSH, Packets


class PayloadColumns(NamedTuple):
    """A file's TCP packets with payload, one direction after the other, each in the order of time.

    `parts` says which are a direction's, `syn` is the row of its first SYN in the file.  `first_seq` is
    the sequence number of each part's first, `steps` are from each packet's number to the next one's, across
    the wrap at 4 GiB: each number is taken as the nearest to the one before.
    """

    parts: dict[Direction, slice]
    syn: dict[Direction, int]
    time_ns: Ints
    nbytes: npt.NDArray[np.int32]
    visible: npt.NDArray[np.int32]
    pushed: npt.NDArray[np.uint8]
    at: Ints
    first_seq: dict[Direction, int]
    steps: npt.NDArray[np.int32]

    def has(self, direction: Direction) -> bool:
        part = self.parts[direction]
        return bool(part.stop > part.start)

    def offsets(self, direction: Direction, base: int) -> Ints:
        """Distances of a direction's packets from sequence number `base`, of the first the nearer way."""
        part = self.parts[direction]
        steps = self.steps[part].astype(np.int64)
        steps[0] = (self.first_seq[direction] - base + (1 << 31)) % (1 << 32) - (1 << 31)
        return np.cumsum(steps, out=steps)


def payload_columns(packets: Packets, rows_of: Rows) -> PayloadColumns:
    """Of all directions at once, as for a few packets numpy takes longer to begin than to end."""
    rows = np.concatenate([np.empty(0, np.int64), *rows_of.values()])
    ends = np.cumsum([0, *map(len, rows_of.values())])
    carries = packets.payload_nbytes[rows] > 0
    cuts = np.concatenate([[0], np.cumsum(carries)])[ends].tolist()
    rows = rows[carries]
    seq = packets.seq[rows]
    return PayloadColumns(
        parts=dict(zip(rows_of, map(slice, cuts, cuts[1:]), strict=True)),
        syn=first_syns(packets, rows_of),
        time_ns=packets.time_ns[rows],
        nbytes=packets.payload_nbytes[rows],
        visible=packets.visible_nbytes[rows],
        pushed=packets.flags[rows] & PSH,
        at=packets.payload_at[rows],
        first_seq={
            direction: int(seq[at])
            for direction, at, end in zip(rows_of, cuts, cuts[1:], strict=False)
            if at < end
        },
        steps=np.diff(seq, prepend=seq[:1]).view(np.int32),
    )

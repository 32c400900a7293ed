"""Messages as lanes: for each ordered pair of ranks, the sizes of its messages in program order.

TCP and the frameworks keep the order of what one rank sends another, so the messages of one instance of a
collective are, on each lane, the next ones after those of the instance before.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.messages import Messages

Pair = tuple[int, int]
LARGER = 1.5
CLEARLY_LONGER = 2


@dataclass(frozen=True)
class Lane:
    """The data messages from one rank to another; the sequences have an entry for each.

    `turn` is the message's place among all that its source sends in these lanes, by time.  `run` counts how
    often the source has turned from one kind of collective to another before.
    """

    rows: Sequence[int]
    nbytes: Sequence[int]
    turn: Sequence[int]
    run: Sequence[int]
    first_ns: Sequence[int]
    received_ns: Sequence[int]
    rises: Sequence[int]  # positions of messages larger than LARGER times the one before

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Ahead:
    """What lies ahead in each lane, from position `at` on."""

    n_ranks: int
    lanes: Mapping[Pair, Lane]
    at: Mapping[Pair, int]
    has_turns: bool = False  # whether any rank turns to another kind of collective

    def nbytes(self, pair: Pair, count: int) -> Sequence[int]:
        """The sizes of the next `count` messages; fewer if there are no more."""
        lane = self.lanes.get(pair)
        return lane.nbytes[self.at[pair] : self.at[pair] + count] if lane else ()

    def rows(self, pair: Pair, count: int) -> Sequence[int]:
        """The rows of the next `count` messages."""
        return self.lanes[pair].rows[self.at[pair] : self.at[pair] + count]

    def left(self, pair: Pair) -> int:
        lane = self.lanes.get(pair)
        return len(lane) - self.at[pair] if lane else 0

    def left_in_run(self, pair: Pair) -> int:
        """How many messages are left before the source turns to another kind of collective."""
        lane = self.lanes.get(pair)
        if not lane or self.at[pair] >= len(lane):
            return 0
        at = self.at[pair]
        return bisect_right(lane.run, lane.run[at]) - at

    def until_larger(self, pair: Pair) -> int:
        """How many messages come before one that is clearly larger than its predecessor; 0: none does."""
        lane = self.lanes.get(pair)
        place = bisect_right(lane.rises, self.at[pair]) if lane else 0
        return lane.rises[place] - self.at[pair] if lane and place < len(lane.rises) else 0

    def times_ns(self, pair: Pair, count: int) -> Sequence[int]:
        """When the next `count` messages were sent; fewer if there are no more."""
        lane = self.lanes.get(pair)
        return lane.first_ns[self.at[pair] : self.at[pair] + count] if lane else ()

    def arrivals_ns(self, pair: Pair, count: int) -> Sequence[int]:
        """When the next `count` messages had come."""
        lane = self.lanes[pair]
        return lane.received_ns[self.at[pair] : self.at[pair] + count]

    def pause_before_ns(self, pair: Pair) -> int:
        """From the message before the next one to that; 0 if there is none before."""
        lane, at = self.lanes[pair], self.at[pair]
        return lane.first_ns[at] - lane.first_ns[at - 1] if at else 0

    def is_parted(self, counts: Mapping[Pair, int]) -> bool:
        """Whether in most lanes a pause within these messages is clearly longer than the one before them."""
        parted = []
        for pair, count in counts.items():
            times = self.times_ns(pair, count)
            within = max((later - earlier for earlier, later in pairwise(times)), default=0)
            parted.append(self.at[pair] > 0 and within > CLEARLY_LONGER * self.pause_before_ns(pair))
        return 2 * sum(parted) > len(parted)

    def sent_before_receiving(self, rank: int) -> int:
        """How many messages `rank` sends before it receives its next one."""
        heads = [lane.received_ns[self.at[p]] for p, lane in self._to_come() if p[1] == rank]
        until_ns = min(heads, default=None)
        return sum(
            (len(lane) if until_ns is None else bisect_left(lane.first_ns, until_ns)) - self.at[pair]
            for pair, lane in self._to_come()
            if pair[0] == rank
        )

    def _to_come(self) -> list[tuple[Pair, Lane]]:
        return [(pair, lane) for pair, lane in self.lanes.items() if self.at[pair] < len(lane)]

    def earliest(self) -> Pair | None:
        """The lane whose next message was sent first of all."""
        heads = [(lane.first_ns[self.at[pair]], pair) for pair, lane in self._to_come()]
        return min(heads)[1] if heads else None

    def past(self, counts: Mapping[Pair, int]) -> "Ahead":
        """What lies ahead when this many more have been taken from each lane."""
        at = {pair: place + counts.get(pair, 0) for pair, place in self.at.items()}
        return replace(self, at=at)

    def overtaken(self, counts: Mapping[Pair, int]) -> int:
        """How many messages the same ranks sent before the last of these, in other lanes, that are left over.

        A rank that is in one collective at a time has sent nothing else meanwhile.
        """
        last: defaultdict[int, int] = defaultdict(int)
        for pair, count in counts.items():
            if count:
                end = self.at[pair] + count - 1
                last[pair[0]] = max(last[pair[0]], self.lanes[pair].turn[end])
        total = 0
        for (src, dst), lane in self.lanes.items():
            if src in last:
                begin = self.at[src, dst] + counts.get((src, dst), 0)
                total += max(0, bisect_left(lane.turn, last[src]) - begin)
        return total

    def interleaved(self, counts: Mapping[Pair, int]) -> int:
        """How many messages of any rank that are left over were sent before the last of these."""
        ends = [
            self.lanes[pair].first_ns[self.at[pair] + count - 1] for pair, count in counts.items() if count
        ]
        return sum(
            max(0, bisect_left(lane.first_ns, max(ends)) - self.at[pair] - counts.get(pair, 0))
            for pair, lane in self._to_come()
        )


def lanes_of(messages: Messages, rows: npt.NDArray[np.int64], run: npt.NDArray[np.int64]) -> Ahead:
    """The lanes of these rows of `messages`, from their beginnings; `run` has an entry for each row."""
    place: dict[Pair, list[int]] = defaultdict(list)
    order = np.lexsort((rows, messages.offset[rows], messages.first_ns[rows]))
    turns: defaultdict[int, int] = defaultdict(int)
    turn = np.zeros(len(rows), np.int64)
    for i in order.tolist():
        src, dst = int(messages.src[rows[i]]), int(messages.dst[rows[i]])
        turn[i] = turns[src]
        turns[src] += 1
        place[src, dst].append(i)
    lanes = {}
    for pair, some in place.items():
        nbytes = messages.nbytes[rows[some]]
        lanes[pair] = Lane(
            rows=rows[some].tolist(),
            nbytes=nbytes.tolist(),
            turn=turn[some].tolist(),
            run=run[some].tolist(),
            first_ns=messages.first_ns[rows[some]].tolist(),
            received_ns=messages.received_ns[rows[some]].tolist(),
            rises=(1 + np.flatnonzero(nbytes[1:] > LARGER * nbytes[:-1])).tolist(),
        )
    return Ahead(len(messages.addresses), lanes, dict.fromkeys(lanes, 0), bool(run.any()))

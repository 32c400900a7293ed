"""What is known of one direction of a gloo connection: messages by slot, gaps, and times."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from gradwire.traces.framing.gloo_decode import GlooDecoded, GlooFrame, GlooGap
from gradwire.traces.framing.gloo_ways import FOREVER
from gradwire.traces.packets.cover import Timeline
from gradwire.traces.packets.streams import Stream

Ints = npt.NDArray[np.int64]


class Gaps:
    """Gaps of a stream, in order; each question takes a time that hardly grows with their number."""

    def __init__(self, gaps: Sequence[GlooGap]) -> None:
        self._starts = [gap.start for gap in gaps]
        self._ends = [gap.end for gap in gaps]
        self._notices = [0, *accumulate(map(_capacity, gaps))]
        self._nbytes = [0, *accumulate(gap.end - gap.start for gap in gaps)]
        self._longest = [[gap.end - gap.start for gap in gaps]]  # row r: of 2^r gaps from each on
        while len(row := self._longest[-1]) > (step := 1 << len(self._longest) - 1):
            self._longest.append(list(map(max, row, row[step:])))

    def before(self, offset: int, count: int = 1) -> int:
        """Where the last `count` gaps start that start before `offset`; `offset` if none does."""
        place = bisect_left(self._starts, offset)
        return self._starts[max(0, place - count)] if place else offset

    def after(self, offset: int) -> int:
        """Where the first gap ends that ends after `offset`; `offset` if none does."""
        place = bisect_right(self._ends, offset)
        return self._ends[place] if place < len(self._ends) else offset

    def n_notices(self, first: int, last: int) -> int:
        """How many RECV_READYs the gaps that touch [first, last] can hold."""
        begin, end = self._touching(first, last)
        return self._notices[end] - self._notices[begin]

    def nbytes(self, first: int, last: int) -> int:
        begin, end = self._touching(first, last)
        return self._nbytes[end] - self._nbytes[begin]

    def longest(self, first: int, last: int) -> int:
        begin, end = self._touching(first, last)
        if begin == end:
            return 0
        row = (end - begin).bit_length() - 1
        return max(self._longest[row][begin], self._longest[row][end - (1 << row)])

    def _touching(self, first: int, last: int) -> tuple[int, int]:
        begin = bisect_left(self._ends, first)
        return begin, max(begin, bisect_right(self._starts, last))


def _capacity(gap: GlooGap) -> int:
    """How many RECV_READYs it can hold."""
    if gap.is_one:
        return int(gap.opcode in (None, Opcode.RECV_READY) and gap.end - gap.start == PREAMBLE_NBYTES)
    return (gap.end - gap.start) // PREAMBLE_NBYTES


@dataclass
class Signs:
    """What one direction shows of a slot: its own transfers, and answers to the other direction's."""

    announced: list[GlooFrame] = field(default_factory=list)
    data: list[GlooFrame] = field(default_factory=list)
    answers: list[GlooFrame] = field(default_factory=list)

    @property
    def transfers(self) -> list[GlooFrame]:
        """The first and last of what it shows of its own transfers."""
        return [frame for some in (self.announced, self.data) for frame in (*some[:1], *some[-1:])]

    @property
    def ends(self) -> list[GlooFrame]:
        """The first and last of the answers."""
        return [*self.answers[:1], *self.answers[-1:]]


NONE = Signs()


@dataclass(frozen=True)
class GlooSide:
    """`frames` with what was recovered, `left` with what was not."""

    decoded: GlooDecoded
    frames: tuple[GlooFrame, ...]
    left: tuple[GlooGap, ...]

    @property
    def stream(self) -> Stream:
        return self.decoded.stream

    @cached_property
    def by_slot(self) -> dict[int, Signs]:
        found: defaultdict[int, Signs] = defaultdict(Signs)
        for frame in self.frames:
            signs = found[frame.slot]
            if frame.opcode is Opcode.RECV_READY:
                signs.answers.append(frame)
            elif frame.opcode is Opcode.SEND_READY:
                signs.announced.append(frame)
            elif frame.opcode is Opcode.DATA:
                signs.data.append(frame)
        return dict(found)

    @cached_property
    def gaps(self) -> Gaps:
        """As the capture has them."""
        return Gaps(self.decoded.gaps)

    @cached_property
    def unresolved(self) -> Gaps:
        return Gaps(self.left)

    @cached_property
    def _spans(self) -> Mapping[int, tuple[int, int]]:
        """Where a recovered frame may be: the gap that it was found in, by the frame's offset."""
        starts = [gap.start for gap in self.decoded.gaps]
        found = {}
        for frame in self.frames:
            if frame.recovered:
                gap = self.decoded.gaps[bisect_right(starts, frame.offset) - 1]
                found[frame.offset] = (gap.start, gap.end)
        return found

    def leaves(self, frames: Iterable[GlooFrame], latest: bool) -> Ints:
        """When each may have left its source at the earliest or latest."""
        return self._seen(self.stream.sent, frames, latest)

    def arrives(self, frames: Iterable[GlooFrame], latest: bool) -> Ints:
        return self._seen(self.stream.received, frames, latest)

    def _seen(self, timeline: Timeline, frames: Iterable[GlooFrame], latest: bool) -> Ints:
        spans = [self._spans.get(f.offset, (f.offset, f.offset + PREAMBLE_NBYTES)) for f in frames]
        at = [end - 1 if latest else start for start, end in spans]
        return timeline.first_seen_ns(np.array(at, np.int64))

    @cached_property
    def _sent(self) -> tuple[Ints, Ints]:
        """The times at which bytes were sent, and from which byte on those after each are."""
        timeline = self.stream.sent
        return np.maximum.accumulate(timeline.time_ns), np.concatenate([[0], timeline.cover.end])

    def sent_from(self, times: Ints) -> Ints:
        """The first byte that may have been sent at or after these times."""
        sent_ns, ends = self._sent
        return ends[np.searchsorted(sent_ns, times, "left")]

    @cached_property
    def _arrived(self) -> tuple[Ints, Ints]:
        timeline = self.stream.received.in_order
        return timeline.time_ns, np.concatenate([timeline.cover.start, [FOREVER]])

    def arrived_by(self, times: Ints) -> Ints:
        """Where the bytes end that may have arrived in order until these times."""
        arrived_ns, starts = self._arrived
        return starts[np.searchsorted(arrived_ns, times, "right")]

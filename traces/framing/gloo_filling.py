"""Finds the messages in the gaps of a stream: what all ways to fill a gap in gloo's format have in common.

Each slot's transfers go in order, each SEND_READY before its DATA, each DATA within the bytes that its
receiver's notices allow (`GlooLane`), and a gap must be filled to the byte.  So the numbers of messages
sent so far, slot by slot, are a state, and a stream is a path from state to state through everything that
can be read.  A hidden message is named if all paths have it in the same gap, at places that are near each
other; else its bytes stay unresolved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.traces.framing.gloo import Opcode
from gradwire.traces.framing.gloo_decode import GlooFrame, GlooGap, wire_nbytes
from gradwire.traces.framing.gloo_ways import (
    FOREVER,
    Answers,
    GapStep,
    GlooLane,
    State,
    explore,
    is_overtaken,
    shared,
)

MAX_NODES = 50_000  # states tried in one stream; what is beyond stays unresolved
NODES_A_MESSAGE = 500  # the same, for each message and gap that can be seen
MAX_OPEN = 8  # slots in flight at once
MAX_LIVE = 64  # slots between two gaps that may have messages in one of them


@dataclass(frozen=True)
class FilledGaps:
    """What is certain of a stream's gaps."""

    frames: tuple[GlooFrame, ...]
    unresolved: tuple[GlooGap, ...]
    is_whole: bool  # no contradiction was met


class _Failed(Exception):
    """No way through, or too many."""


def fill(
    frames: Sequence[GlooFrame],
    gaps: Sequence[GlooGap],
    lanes: Sequence[GlooLane],
    answers: Sequence[Answers],
    end: int,
) -> FilledGaps:
    """`frames`, `gaps` in stream order; the stream ends at `end`."""
    filler = _Filler(frames, lanes, answers, end, len(frames) + len(gaps))
    for gap in gaps:
        filler.add(gap)
    filler.finish()
    return FilledGaps(tuple(sorted(filler.found)), tuple(sorted(filler.unresolved)), filler.is_whole)


class _Filler:
    """Goes through the stream gap by gap with all states that are possible."""

    def __init__(
        self,
        frames: Sequence[GlooFrame],
        lanes: Sequence[GlooLane],
        answers: Sequence[Answers],
        end: int,
        n_seen: int,
    ) -> None:
        self.frames = frames
        self.lanes = sorted(lanes, key=lambda lane: lane.enter)
        self.answers = sorted(answers, key=lambda one: one.enter)
        self.end = end
        self.nodes_left = min(MAX_NODES, NODES_A_MESSAGE * n_seen) + n_seen
        self.found: list[GlooFrame] = []
        self.unresolved: list[GlooGap] = []
        self.is_whole = True
        self._at_frame = self._at_lane = self._at_answers = 0
        self._blind_until = 0  # gaps before this offset stay unresolved
        self._restart()

    def _restart(self) -> None:
        self.live: list[GlooLane] = []
        self.places: dict[int, int] = {}  # of each slot, where its counts are in a state
        self._over_at = FOREVER  # where the first of the live slots may be over
        self.asked: list[Answers] = []
        self.states: dict[State, State] = {(): ()}
        self.steps: list[GapStep] = []
        self.settled: list[tuple[list[GlooFrame], list[GlooGap]]] = []  # since nothing was in flight

    def add(self, gap: GlooGap) -> None:
        try:
            self._advance(gap.start, gap.end)
            if gap.start < self._blind_until:
                self.unresolved.append(gap)
            else:
                self._cross(gap)
        except _Failed:
            if gap.end == self.end and self.states:
                self.unresolved.append(gap)  # a message that the capture's end cuts need not fit
                return
            self._give_up(gap)

    def finish(self) -> None:
        try:
            self._advance(self.end, self.end)
        except _Failed:
            self._give_up(None)
            return
        self._settle()
        self._keep()

    def _keep(self) -> None:
        for frames, gaps in self.settled:
            self.found += frames
            self.unresolved += gaps
        self.settled = []

    def _give_up(self, gap: GlooGap | None) -> None:
        """What has been in flight since the last quiet moment stays unknown, and what follows, until all of
        that is over.
        """
        self.is_whole = False
        self.unresolved += [step.gap for step in self.steps]
        self.unresolved += [g for frames, gaps in self.settled for g in _holes(frames, gaps)]
        if gap is not None:
            self.unresolved.append(gap)
        until = max((lane.last for lane in self.live), default=0)
        while self._at_lane < len(self.lanes) and self.lanes[self._at_lane].enter <= until:
            until = max(until, self.lanes[self._at_lane].last)
            self._at_lane += 1
        while self._at_answers < len(self.answers) and self.answers[self._at_answers].enter <= until:
            self._at_answers += 1
        self._blind_until = max(until + 1, 0 if gap is None else gap.end)
        self._restart()

    def _advance(self, start: int, end: int) -> None:
        """Go through the frames before `start`, with the slots that may have sent anything before `end`."""
        n_frames = len(self.frames)
        while self._at_frame < n_frames and (frame := self.frames[self._at_frame]).offset < start:
            if self._over_at < frame.offset:
                self._close(frame.offset)
            self._open(frame.offset + 1)
            self._at_frame += 1
            place = self.places.get(frame.slot)
            if place is None or frame.opcode in (Opcode.RECV_READY, Opcode.SEND_BUFFER):
                continue
            self._spend(len(self.states))
            self.states = _after_frame(self.states, frame, place, self.live)
            if not self.states:
                raise _Failed
        if self._over_at <= start:
            self._close(start)
        self._open(end)
        if len(self.states) == 1:
            self._settle()

    def _spend(self, n_nodes: int) -> None:
        self.nodes_left -= n_nodes
        if self.nodes_left <= 0:
            self.states = {}
            raise _Failed

    def _open(self, end: int) -> None:
        n_lanes, n_asked = len(self.live), len(self.asked)
        while self._at_lane < len(self.lanes) and self.lanes[self._at_lane].enter < end:
            self.live.append(self.lanes[self._at_lane])
            self._at_lane += 1
            self._check_live()
        while self._at_answers < len(self.answers) and self.answers[self._at_answers].enter < end:
            self.asked.append(self.answers[self._at_answers])
            self._at_answers += 1
            self._check_live()
        more, answers = (0, 0) * (len(self.live) - n_lanes), (0,) * (len(self.asked) - n_asked)
        if more or answers:
            self._spend(len(self.states))
            n_old = 2 * n_lanes
            self.states = {s[:n_old] + more + s[n_old:] + answers: was for s, was in self.states.items()}
            self._list()

    def _check_live(self) -> None:
        if len(self.live) + len(self.asked) > MAX_LIVE:
            self.states = {}
            raise _Failed

    def _list(self) -> None:
        """Note where each slot's counts are in a state, and when the first of the slots is over."""
        self.places = {lane.slot: 2 * i for i, lane in enumerate(self.live)}
        ends = [*(lane.last for lane in self.live), *(one.last for one in self.asked)]
        self._over_at = min(ends, default=FOREVER)

    def _close(self, start: int) -> None:
        """Forget the slots that are complete in every state, and states that leave something out."""
        self._spend(len(self.states))
        over = [i for i, one in enumerate(self.asked) if one.last <= start]
        base = 2 * len(self.live)
        if over:
            self.states = {
                s: was
                for s, was in self.states.items()
                if all(s[base + i] >= self.asked[i].least for i in over)
            }
            if not self.states:
                raise _Failed
        done = [
            i
            for i, lane in enumerate(self.live)
            if lane.last < start and all(s[2 * i] == s[2 * i + 1] >= lane.sure for s in self.states)
        ]
        if not over and not done:
            return
        kept = [p for i in range(len(self.live)) if i not in done for p in (2 * i, 2 * i + 1)]
        kept += [base + i for i in range(len(self.asked)) if i not in over]
        left: dict[State, State] = {}
        for state, was in self.states.items():
            short = tuple(state[p] for p in kept)
            if left.setdefault(short, was) != was:
                return  # two ways that differ in what is over: keep both apart
        self.states = left
        self.live = [lane for i, lane in enumerate(self.live) if i not in done]
        self.asked = [one for i, one in enumerate(self.asked) if i not in over]
        self._list()
        if len(self.states) == 1:
            self._settle()
            if not self.live and not self.asked:
                self._keep()

    def _cross(self, gap: GlooGap) -> None:
        if len(self.live) > MAX_OPEN or any(lane.is_unclear for lane in self.live):
            raise _Failed
        step = GapStep(gap, list(self.live), list(self.asked), self.states)
        spent = explore(step, self.nodes_left)
        self.nodes_left -= spent
        if not step.ends or self.nodes_left <= 0:
            raise _Failed
        self.steps.append(step)
        self.states = {state: state for state in step.ends}

    def _settle(self) -> None:
        """Name what all ways through the last gaps share."""
        alive = set(self.states.values())
        for step in reversed(self.steps):
            alive, frames, gaps = shared(step, alive)
            self.settled.append((frames, gaps))
        self.steps = []
        self.states = {state: state for state in self.states}


def _holes(frames: Sequence[GlooFrame], gaps: Sequence[GlooGap]) -> list[GlooGap]:
    return [GlooGap(f.offset, f.offset + f.nbytes) for f in frames] + list(gaps)


def _after_frame(
    states: Mapping[State, State], frame: GlooFrame, place: int, lanes: Sequence[GlooLane]
) -> dict[State, State]:
    """Those states that go on with this frame."""
    found = {}
    lane = lanes[place // 2]
    if frame.opcode is Opcode.DATA:
        for state, was in states.items():
            number = state[place + 1]
            if (
                number < state[place]
                and _fits(lane, number, frame.length, frame.offset)
                and not is_overtaken(lanes, state, place // 2)
            ):
                found[(*state[: place + 1], number + 1, *state[place + 2 :])] = was
    else:
        for state, was in states.items():
            number = state[place]
            if (
                number < len(lane.lengths)
                and number - state[place + 1] < lane.lag
                and lane.lengths[number] == frame.length
            ):
                found[(*state[:place], number + 1, *state[place + 1 :])] = was
    return found


def _fits(lane: GlooLane, number: int, length: int, offset: int) -> bool:
    end = offset + wire_nbytes(Opcode.DATA, length)
    return lane.lengths[number] == length and lane.lo[number] <= offset and end <= lane.hi[number]

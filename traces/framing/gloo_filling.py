"""Which messages fill the gaps of a stream: all ways that gloo could have filled them, and what they share.

Each slot's transfers go in order, each SEND_READY before its DATA, each DATA within the bytes that its
receiver's notices allow (`Lane`), and a gap must be filled to the byte.  So the numbers of messages sent so
far, slot by slot, are a state, and a stream is a path from state to state through everything that can be
read.  A hidden message is named if all paths have it in the same gap, at places that are near each other;
else its bytes stay unresolved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from traces.framing.gloo_decode import Frame, Gap, wire_nbytes

MAX_NODES = 50_000  # states tried in one stream; what is beyond stays unresolved
MAX_OPEN = 8  # slots in flight at once
MAX_STATES = 2_000  # after one gap
MAX_SPREAD_NBYTES = (
    2 << 20
)  # two of gloo's largest segments: a message that is in a gap may begin so far apart
FOREVER = 1 << 62
POSTED_NS = (
    20_000_000  # at most between a rank's RECV_READY and its send of the same round; 5 to 10 ms were seen
)
QUEUED_NS = 50_000_000  # at most that a RECV_READY waits in its host's queue before it can be seen

State = tuple[int, ...]  # SEND_READYs and DATA sent, lane by lane, then RECV_READYs found, by answers


@dataclass(frozen=True)
class Lane:
    """The transfers of one slot, in order: DATA i has `lengths[i]` bytes and lies in [`lo[i]`, `hi[i]`).

    Up to `lag` SEND_READYs are ahead of their DATA.  The slot's messages come from `enter` on, its last
    visible sign is at `last`; all are offsets in the stream.  Only the first `sure` transfers are known to
    exist.  With `is_unclear` its transfers cannot be counted.
    """

    slot: int
    lengths: Sequence[int]
    lo: Sequence[int]
    hi: Sequence[int]
    lag: int
    enter: int
    last: int
    sure: int
    is_unclear: bool = False
    queued: Sequence["Queued"] = ()


class Queued(NamedTuple):
    """When gloo had both that a DATA waits for, in ns at its source: `ready` are the earliest and latest
    times at which RECV_READY arrived, `posted` those just before which the application asked for the send.
    """

    ready: tuple[int, int]
    posted: tuple[int, int]

    def is_before(self, other: "Queued") -> bool:
        """Whether this must be sent first: a pair of ranks has one queue, and one thread that reads
        notices in their order.
        """
        posted_ns = self.posted[1] + POSTED_NS
        if self.ready[1] < other.ready[0] and posted_ns <= other.ready[0]:
            return True
        return max(self.ready[1], posted_ns) + QUEUED_NS <= other.posted[0]


@dataclass(frozen=True)
class Answers:
    """Hidden RECV_READYs of one slot: at least `least` and up to `most`, all in [`enter`, `last`)."""

    slot: int
    length: int
    least: int
    most: int
    enter: int
    last: int


@dataclass(frozen=True)
class Filled:
    """What is certain of a stream's gaps."""

    frames: tuple[Frame, ...]
    unresolved: tuple[Gap, ...]
    is_whole: bool  # no contradiction was met


@dataclass
class _Step:
    """A gap, the states before it and after it; `back` leads from a state after it to the nodes before."""

    gap: Gap
    lanes: list[Lane]
    answers: list[Answers]
    before: dict[State, State]  # each state before the gap, and the one after the last gap that it was
    nodes: dict[State, int]  # the offset at which each state between is reached
    edges: dict[State, list[tuple[State, int]]]  # from a node to those before it, and the lane of the DATA
    ends: dict[State, list[State]]  # states after the gap, and the nodes that notices lead to them from


class _Failed(Exception):
    """No way through, or too many."""


def fill(
    frames: Sequence[Frame], gaps: Sequence[Gap], lanes: Sequence[Lane], answers: Sequence[Answers], end: int
) -> Filled:
    """`frames`, `gaps` in stream order; the stream ends at `end`."""
    filler = _Filler(frames, lanes, answers, end)
    for gap in gaps:
        filler.add(gap)
    filler.finish()
    return Filled(tuple(sorted(filler.found)), tuple(sorted(filler.unresolved)), filler.is_whole)


class _Filler:
    """Goes through the stream gap by gap with all states that are possible."""

    def __init__(
        self, frames: Sequence[Frame], lanes: Sequence[Lane], answers: Sequence[Answers], end: int
    ) -> None:
        self.frames = frames
        self.lanes = sorted(lanes, key=lambda lane: lane.enter)
        self.answers = sorted(answers, key=lambda one: one.enter)
        self.end = end
        self.nodes_left = MAX_NODES
        self.found: list[Frame] = []
        self.unresolved: list[Gap] = []
        self.is_whole = True
        self._at_frame = self._at_lane = self._at_answers = 0
        self._blind_until = 0  # gaps before this offset stay unresolved
        self._restart()

    def _restart(self) -> None:
        self.live: list[Lane] = []
        self.asked: list[Answers] = []
        self.states: dict[State, State] = {(): ()}
        self.steps: list[_Step] = []
        self.settled: list[tuple[list[Frame], list[Gap]]] = []  # since nothing was in flight

    def add(self, gap: Gap) -> None:
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

    def _give_up(self, gap: Gap | None) -> None:
        """What has been in flight since the last quiet moment cannot be told, nor what follows until all of
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
        self._open(end)
        places = {lane.slot: 2 * i for i, lane in enumerate(self.live)}
        states = self.states
        n_frames = len(self.frames)
        while self._at_frame < n_frames and (frame := self.frames[self._at_frame]).offset < start:
            self._at_frame += 1
            place = places.get(frame.slot)
            if place is None or frame.opcode in (Opcode.RECV_READY, Opcode.SEND_BUFFER):
                continue
            states = _after_frame(states, frame, place, self.live)
            if not states:
                self.states = {}
                raise _Failed
        self.states = states
        self._close(start)

    def _open(self, end: int) -> None:
        n_old, n_asked = 2 * len(self.live), len(self.asked)
        while self._at_lane < len(self.lanes) and self.lanes[self._at_lane].enter < end:
            self.live.append(self.lanes[self._at_lane])
            self._at_lane += 1
        while self._at_answers < len(self.answers) and self.answers[self._at_answers].enter < end:
            self.asked.append(self.answers[self._at_answers])
            self._at_answers += 1
        more, answers = (0,) * (2 * len(self.live) - n_old), (0,) * (len(self.asked) - n_asked)
        if more or answers:
            self.states = {s[:n_old] + more + s[n_old:] + answers: was for s, was in self.states.items()}

    def _close(self, start: int) -> None:
        """Forget the slots that are complete in every state, and states that leave something out."""
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
            if len(self.states) == 1:
                self._settle()
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
        if len(self.states) == 1:
            self._settle()
            if not self.live and not self.asked:
                self._keep()

    def _cross(self, gap: Gap) -> None:
        if len(self.live) > MAX_OPEN or any(lane.is_unclear for lane in self.live):
            raise _Failed
        step = _Step(gap, list(self.live), list(self.asked), self.states, {}, {}, {})
        self.nodes_left -= _explore(step, self.nodes_left)
        if not step.ends or self.nodes_left <= 0:
            raise _Failed
        self.steps.append(step)
        self.states = {state: state for state in step.ends}

    def _settle(self) -> None:
        """Name what all ways through the last gaps share."""
        alive = set(self.states.values())
        for step in reversed(self.steps):
            alive, frames, gaps = _shared(step, alive)
            self.settled.append((frames, gaps))
        self.steps = []
        self.states = {state: state for state in self.states}


def _holes(frames: Sequence[Frame], gaps: Sequence[Gap]) -> list[Gap]:
    return [Gap(f.offset, f.offset + f.nbytes) for f in frames] + list(gaps)


def _after_frame(
    states: Mapping[State, State], frame: Frame, place: int, lanes: Sequence[Lane]
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
                and not _is_overtaken(lanes, state, place // 2)
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


def _fits(lane: Lane, number: int, length: int, offset: int) -> bool:
    end = offset + wire_nbytes(Opcode.DATA, length)
    return lane.lengths[number] == length and lane.lo[number] <= offset and end <= lane.hi[number]


def _explore(step: _Step, budget: int) -> int:
    """Find all ways through the gap, in the order in which notices come as late as they can; how many states
    that took.
    """
    gap, lanes = step.gap, step.lanes
    slack = PREAMBLE_NBYTES * max((sum(_room(step, s)) for s in step.before), default=0)
    todo = [(state, gap.start) for state in step.before]
    step.nodes.update(todo)
    spent = 0
    while todo and spent < budget:
        spent += 1
        state, offset = todo.pop()
        for end in _ends(step, state, gap.end - offset):
            spent += 1
            step.ends.setdefault(end, []).append(state)
            if len(step.ends) > MAX_STATES or spent > budget:
                return budget
        for i, lane in enumerate(lanes):
            number = state[2 * i + 1]
            if number >= len(lane.lengths):
                continue
            announces = state[2 * i] <= number
            if gap.is_one and (announces or offset > gap.start):
                continue
            begin = offset + announces * PREAMBLE_NBYTES
            after = begin + wire_nbytes(Opcode.DATA, lane.lengths[number])
            if after > gap.end or after > lane.hi[number]:
                continue
            if min(slack, gap.end - after) + begin < lane.lo[number]:  # even with all notices before it
                continue
            then = (*state[: 2 * i], max(state[2 * i], number + 1), number + 1, *state[2 * i + 2 :])
            if _is_late(lanes, then, after) or _is_overtaken(lanes, state, i):
                continue
            if then not in step.nodes:
                step.nodes[then] = after
                todo.append((then, after))
            step.edges.setdefault(then, []).append((state, i))
    return budget if todo else spent


def _is_late(lanes: Sequence[Lane], state: State, offset: int) -> bool:
    """Whether some lane's next DATA can no longer arrive as early as it did."""
    for i, lane in enumerate(lanes):
        number = state[2 * i + 1]
        if number < len(lane.lengths):
            nbytes = wire_nbytes(Opcode.DATA, lane.lengths[number])
            if offset + nbytes > lane.hi[number]:
                return True
    return False


def _is_overtaken(lanes: Sequence[Lane], state: State, chosen: int) -> bool:
    """Whether another lane's next DATA must be sent before that of the chosen one."""
    lane = lanes[chosen]
    if not lane.queued:
        return False
    own = lane.queued[state[2 * chosen + 1]]
    for i, other in enumerate(lanes):
        number = state[2 * i + 1]
        if i != chosen and number < len(other.queued) and other.queued[number].is_before(own):
            return True
    return False


def _room(step: _Step, state: State) -> list[int]:
    """How many more notices each lane and each of the answers may send in this state."""
    room = [
        max(0, min(lane.lag - state[2 * i] + state[2 * i + 1], len(lane.lengths) - state[2 * i]))
        for i, lane in enumerate(step.lanes)
    ]
    base = 2 * len(step.lanes)
    return room + [
        one.most - state[base + i] if one.enter < step.gap.end and step.gap.start < one.last else 0
        for i, one in enumerate(step.answers)
    ]


def _ends(step: _Step, state: State, nbytes: int) -> Iterator[State]:
    """The states after the gap if the rest of it is notices."""
    count, odd = divmod(nbytes, PREAMBLE_NBYTES)
    room = _room(step, state)
    if odd or count > sum(room):
        return
    if step.gap.is_one and count + (state not in step.before) != 1:
        return
    opcode = step.gap.opcode
    n_lanes = len(step.lanes)
    if opcode is Opcode.SEND_READY:
        room[n_lanes:] = [0] * (len(room) - n_lanes)
    elif opcode is Opcode.RECV_READY:
        room[:n_lanes] = [0] * n_lanes
    elif opcode is not None and count:
        return
    for counts in _ways(room, count):
        lanes = [v for i in range(n_lanes) for v in (state[2 * i] + counts[i], state[2 * i + 1])]
        found = [state[2 * n_lanes + i] + n for i, n in enumerate(counts[n_lanes:])]
        yield (*lanes, *found)


def _ways(room: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """All ways to share `count` out."""
    if not room:
        if count == 0:
            yield ()
        return
    rest = sum(room[1:])
    for here in range(max(0, count - rest), min(room[0], count) + 1):
        for others in _ways(room[1:], count - here):
            yield (here, *others)


def _shared(step: _Step, after: set[State]) -> tuple[set[State], list[Frame], list[Gap]]:
    """The states before the gap from which there is a way to one `after` it, and what all such ways share."""
    ends = [state for state in step.ends if state in after]
    todo = list({node for end in ends for node in step.ends[end]})
    alive = set(todo)
    before = set()
    histories: dict[tuple[int, int], set[State]] = {}  # of each DATA: how much data was sent before it
    n_values = 2 * len(step.lanes)
    way: dict[State, tuple[State, int]] = {}
    while todo:
        node = todo.pop()
        if node in step.before:
            before.add(node)
        for earlier, i in step.edges.get(node, ()):
            histories.setdefault((i, earlier[2 * i + 1]), set()).add(earlier[1:n_values:2])
            way[node] = (earlier, i)
            if earlier not in alive:
                alive.add(earlier)
                todo.append(earlier)
    kinds = (*range(n_values), *range(n_values, n_values + len(step.answers)))
    low = [max(state[k] for state in before) for k in kinds]
    high = [min(state[k] for state in ends) for k in kinds]
    certain = {
        (i, number)
        for (i, number), seen in histories.items()
        if low[2 * i + 1] <= number < min(high[2 * i + 1], step.lanes[i].sure)
        and _spread_nbytes(step.lanes, seen) <= MAX_SPREAD_NBYTES
    }
    frames, gaps = _laid_out(step, ends[0], way, certain, (low, high))
    return {step.before[state] for state in before}, frames, gaps


def _spread_nbytes(lanes: Sequence[Lane], seen: set[State]) -> int:
    """How far apart the places are at which a DATA may begin, from what may have been sent before it."""
    if len(seen) == 1:
        return 0
    before = [sum(sum(lane.lengths[:n]) for lane, n in zip(lanes, state, strict=True)) for state in seen]
    return max(before) - min(before)


def _laid_out(
    step: _Step,
    end: State,
    way: Mapping[State, tuple[State, int]],
    certain: set[tuple[int, int]],
    bounds: tuple[Sequence[int], Sequence[int]],
) -> tuple[list[Frame], list[Gap]]:
    """One way through the gap: what is certain of it as frames, the rest as gaps."""
    low, high = bounds
    frames: list[Frame] = []
    gaps: list[Gap] = []
    offset = step.gap.start

    def put(opcode: Opcode, slot: int, length: int, is_sure: bool) -> None:
        nonlocal offset
        nbytes = wire_nbytes(opcode, length)
        if is_sure:
            frames.append(Frame(offset, opcode, slot, length, recovered=True))
        elif gaps and gaps[-1].end == offset:
            gaps[-1] = Gap(gaps[-1].start, offset + nbytes)
        else:
            gaps.append(Gap(offset, offset + nbytes))
        offset += nbytes

    node = step.ends[end][0]
    path = [node]
    moves: list[int] = []
    while node in way and node not in step.before:
        node, i = way[node]
        path.append(node)
        moves.append(i)
    path.reverse()
    for state, i in zip(path, reversed(moves), strict=False):
        lane, number = step.lanes[i], state[2 * i + 1]
        if state[2 * i] <= number:
            is_sure = low[2 * i] <= number < min(high[2 * i], lane.sure)
            put(Opcode.SEND_READY, lane.slot, lane.lengths[number], is_sure)
        put(Opcode.DATA, lane.slot, lane.lengths[number], (i, number) in certain)
    last = path[-1]
    for i, lane in enumerate(step.lanes):
        for number in range(last[2 * i], end[2 * i]):
            is_sure = low[2 * i] <= number < min(high[2 * i], lane.sure)
            put(Opcode.SEND_READY, lane.slot, lane.lengths[number], is_sure)
    base = 2 * len(step.lanes)
    for i, one in enumerate(step.answers):
        for number in range(last[base + i], end[base + i]):
            is_sure = one.least == one.most and low[base + i] <= number < high[base + i]
            put(Opcode.RECV_READY, one.slot, one.length, is_sure)
    return frames, gaps

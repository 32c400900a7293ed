"""All ways in which gloo could have filled one gap of a stream, and what they have in common.

Each slot's transfers go in order, each SEND_READY before its DATA, each DATA within the bytes that its
receiver's notices allow (`GlooLane`), and a gap must be filled to the byte.  The numbers of messages sent so
far, slot by slot, are a `State`; a `GapStep` holds the states before the gap, those after it, and the ways
between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from gradwire.traces.framing.gloo_decode import GlooFrame, GlooGap, wire_nbytes

MAX_STATES = 2_000  # after one gap
# How far apart the places may be at which a message that is in a gap may begin: gloo's ring keeps two
# segments in flight, so that the order of two slots shows in the notices only every second segment.
MAX_SPREAD_SEGMENTS = 2
# At most between a rank's RECV_READY and its send of the same round; 5 to 10 ms were seen.
POSTED_NS = 20_000_000
QUEUED_NS = 50_000_000  # at most that a RECV_READY waits in its host's queue before it can be seen

FOREVER = 1 << 62

State = tuple[int, ...]  # SEND_READYs and DATA sent, lane by lane, then RECV_READYs found, by answers
Node = tuple[State, int]  # within a gap: also the offset that was reached


@dataclass(frozen=True)
class GlooLane:
    """The transfers of one slot, in order: DATA i has `lengths[i]` bytes and lies in [`lo[i]`, `hi[i]`); the
    longest has `longest`.

    Up to `lag` SEND_READYs are ahead of their DATA.  The slot's messages come from `enter` on, its last
    visible sign is at `last`; all are offsets in the stream.  Only the first `sure` transfers are known to
    exist.  With `is_unclear` its transfers cannot be counted.
    """

    slot: int
    lengths: Sequence[int]
    longest: int
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
    """Hidden RECV_READYs of one slot: at least `least` and up to `most`, all in [`enter`, `last`).

    `length` is what each announces; None where it is not the same for all, so that none of them is named.
    """

    slot: int
    length: int | None
    least: int
    most: int
    enter: int
    last: int


@dataclass
class GapStep:
    """A gap, the states before it and after it, and the ways that lead from the ones to the others."""

    gap: GlooGap
    lanes: list[GlooLane]
    answers: list[Answers]
    before: Mapping[State, State]  # each state before the gap, and the one after the last gap that it was
    nodes: set[Node] = field(default_factory=set)
    edges: dict[Node, list[tuple[Node, int]]] = field(default_factory=dict)  # from where, and the DATA's lane
    ends: dict[State, list[Node]] = field(default_factory=dict)  # after the gap, from where notices lead


def explore(step: GapStep, budget: int) -> int:
    """Find all ways through the gap, in the order in which notices come as late as they can; how many nodes
    that took.  At `budget` the search has been given up.
    """
    gap = step.gap
    slack = PREAMBLE_NBYTES * max((sum(_room(step, s)) for s in step.before), default=0)
    todo = [(state, gap.start) for state in step.before]
    step.nodes.update(todo)
    spent = 0
    while todo and spent < budget:
        spent += 1
        node = todo.pop()
        for end in _ends(step, node):
            spent += 1
            step.ends.setdefault(end, []).append(node)
            if len(step.ends) > MAX_STATES or spent > budget:
                return budget
        for then, i in _moves(step, node, slack):
            spent += 1
            if then not in step.nodes:
                step.nodes.add(then)
                todo.append(then)
            step.edges.setdefault(then, []).append((node, i))
    return budget if todo else spent


def _moves(step: GapStep, node: Node, slack: int) -> Iterator[tuple[Node, int]]:
    """The nodes after one more DATA, each with its lane; `slack` are the notices that may come before it."""
    (state, offset), gap, lanes = node, step.gap, step.lanes
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
        if not (_is_late(lanes, then, after) or is_overtaken(lanes, state, i)):
            yield (then, after), i


def _is_late(lanes: Sequence[GlooLane], state: State, offset: int) -> bool:
    """Whether some lane's next DATA can no longer arrive as early as it did."""
    for i, lane in enumerate(lanes):
        number = state[2 * i + 1]
        if number < len(lane.lengths):
            nbytes = wire_nbytes(Opcode.DATA, lane.lengths[number])
            if offset + nbytes > lane.hi[number]:
                return True
    return False


def is_overtaken(lanes: Sequence[GlooLane], state: State, chosen: int) -> bool:
    """Whether another lane's next DATA must be sent before that of the chosen one."""
    lane = lanes[chosen]
    if not lane.queued:
        return False
    queued = lane.queued[state[2 * chosen + 1]]
    for i, other in enumerate(lanes):
        number = state[2 * i + 1]
        if i != chosen and number < len(other.queued) and other.queued[number].is_before(queued):
            return True
    return False


def _room(step: GapStep, state: State) -> list[int]:
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


def _ends(step: GapStep, node: Node) -> Iterator[State]:
    """The states after the gap if the rest of it is notices."""
    (state, offset), nbytes = node, step.gap.end - node[1]
    count, odd = divmod(nbytes, PREAMBLE_NBYTES)
    room = _room(step, state)
    if odd or count > sum(room):
        return
    if step.gap.is_one and count + (offset > step.gap.start) != 1:
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
        answers = [state[2 * n_lanes + i] + n for i, n in enumerate(counts[n_lanes:])]
        yield (*lanes, *answers)


def _ways(room: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """All ways to share `count` out."""
    if not room:
        if count == 0:
            yield ()
        return
    others_room = sum(room[1:])
    for share in range(max(0, count - others_room), min(room[0], count) + 1):
        for others in _ways(room[1:], count - share):
            yield (share, *others)


def shared(step: GapStep, after: set[State]) -> tuple[set[State], list[GlooFrame], list[GlooGap]]:
    """The states before the gap from which there is a way to one `after` it, and what all such ways share."""
    ends = [state for state in step.ends if state in after]
    todo = list({node for end in ends for node in step.ends[end]})
    alive = set(todo)
    before: set[State] = set()
    places: dict[tuple[int, int], list[int]] = {}  # of each DATA: where it may begin, but for notices
    way: dict[Node, tuple[Node, int]] = {}
    while todo:
        node = todo.pop()
        if node[1] == step.gap.start:
            before.add(node[0])
        for earlier, i in step.edges.get(node, ()):
            places.setdefault((i, earlier[0][2 * i + 1]), []).append(earlier[1])
            way[node] = (earlier, i)
            if earlier not in alive:
                alive.add(earlier)
                todo.append(earlier)
    kinds = range(2 * len(step.lanes) + len(step.answers))
    low = [max(state[k] for state in before) for k in kinds]
    high = [min(state[k] for state in ends) for k in kinds]
    longest = max((wire_nbytes(Opcode.DATA, lane.longest) for lane in step.lanes), default=0)
    certain = {
        (i, number)
        for (i, number), starts in places.items()
        if low[2 * i + 1] <= number < min(high[2 * i + 1], step.lanes[i].sure)
        and max(starts) - min(starts) <= MAX_SPREAD_SEGMENTS * (longest + PREAMBLE_NBYTES)
    }
    frames, gaps = _laid_out(step, ends[0], way, certain, (low, high))
    return {step.before[state] for state in before}, frames, gaps


def _laid_out(
    step: GapStep,
    end: State,
    way: Mapping[Node, tuple[Node, int]],
    certain: set[tuple[int, int]],
    bounds: tuple[Sequence[int], Sequence[int]],
) -> tuple[list[GlooFrame], list[GlooGap]]:
    """One way through the gap: what is certain of it as frames, the rest as gaps."""
    low, high = bounds
    frames: list[GlooFrame] = []
    gaps: list[GlooGap] = []
    offset = step.gap.start

    def put(opcode: Opcode, slot: int, length: int, is_sure: bool) -> None:
        nonlocal offset
        nbytes = wire_nbytes(opcode, length)
        if is_sure:
            frames.append(GlooFrame(offset, opcode, slot, length, recovered=True))
        elif gaps and gaps[-1].end == offset:
            gaps[-1] = GlooGap(gaps[-1].start, offset + nbytes)
        else:
            gaps.append(GlooGap(offset, offset + nbytes))
        offset += nbytes

    node = step.ends[end][0]
    path = [node]
    moves: list[int] = []
    while node[1] > step.gap.start:
        node, i = way[node]
        path.append(node)
        moves.append(i)
    path.reverse()
    for (state, _), i in zip(path, reversed(moves), strict=False):
        lane, number = step.lanes[i], state[2 * i + 1]
        if state[2 * i] <= number:
            is_sure = low[2 * i] <= number < min(high[2 * i], lane.sure)
            put(Opcode.SEND_READY, lane.slot, lane.lengths[number], is_sure)
        put(Opcode.DATA, lane.slot, lane.lengths[number], (i, number) in certain)
    last = path[-1][0]
    for i, lane in enumerate(step.lanes):
        for number in range(last[2 * i], end[2 * i]):
            is_sure = low[2 * i] <= number < min(high[2 * i], lane.sure)
            put(Opcode.SEND_READY, lane.slot, lane.lengths[number], is_sure)
    base = 2 * len(step.lanes)
    for i, one in enumerate(step.answers):
        for number in range(last[base + i], end[base + i]):
            is_sure = one.least == one.most and low[base + i] <= number < high[base + i]
            put(Opcode.RECV_READY, one.slot, one.length or 0, is_sure and one.length is not None)
    return frames, gaps

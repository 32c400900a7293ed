"""Finds out what gloo messages a capture hides, from what both ends announce.

gloo sends data only after its source has said SEND_READY and its destination RECV_READY, both with the
same slot and length (gloo/transport/tcp/pair.cc, Pair::send and Pair::recv).  So the three come in
equal numbers.  A transfer's data leaves after its RECV_READY has arrived; in a ring, gloo has two
transfers in flight (gloo/allreduce.cc), so that it has arrived before the RECV_READY after next leaves.
`traces.framing.gloo_filling` finds what can be in a gap between these bounds.  A recovered message is
certain by them, or it is not recovered.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from traces.framing.gloo import PREAMBLE_NBYTES, PREFIXES, Opcode, unpack_slot
from traces.framing.gloo_decode import Decoded, Frame, Gap, wire_nbytes
from traces.framing.gloo_filling import fill
from traces.framing.gloo_ring_counts import Edge, Lengths, ring_lengths
from traces.framing.gloo_ways import FOREVER, Answers, Lane, Queued
from traces.packets.directions import Direction
from traces.packets.streams import Stream

MAX_ROUNDS = 3  # of reading one direction with what the other has shown
MAX_UNSEEN = 3  # transfers of which nothing may be visible, beyond which a slot cannot be counted
IN_FLIGHT = 2  # transfers of a ring
EARLY = 2  # slots whose SEND_READYs may be hidden before any other sign of them
_RING = PREFIXES["allreduce"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recovered:
    """A stream's messages, hidden ones included where they are certain; `unresolved` is what stays hidden."""

    stream: Stream
    frames: tuple[Frame, ...]
    unresolved: tuple[Gap, ...]


def recover(decoded: Mapping[Direction, Decoded]) -> list[Recovered]:
    """One for each stream, in the order of `decoded`."""
    sides = {direction: _Side(one, one.frames, one.gaps) for direction, one in decoded.items()}
    hidden = [direction for direction, one in decoded.items() if one.gaps]
    hidden.sort(key=lambda direction: sum(gap.end - gap.start for gap in decoded[direction].gaps))
    rings = _Rings(sides)
    seen: dict[Direction, tuple[Gap, ...]] = {}  # of the other direction, what was unresolved last time
    for _ in range(MAX_ROUNDS):
        for direction in hidden:
            back = sides.get(direction.reverse)
            rest = back.left if back else ()
            if sides[direction].left and seen.get(direction) != rest:
                seen[direction] = rest
                sides[direction] = _filled(decoded[direction], back, rings)
    return [Recovered(one.decoded.stream, one.frames, one.left) for one in sides.values()]


@dataclass(frozen=True)
class _Side:
    """One direction as far as it is known: `frames` with what was recovered, `left` with what was not."""

    decoded: Decoded
    frames: tuple[Frame, ...]
    left: tuple[Gap, ...]

    @property
    def stream(self) -> Stream:
        return self.decoded.stream

    @cached_property
    def by_slot(self) -> "dict[int, _Signs]":
        found: defaultdict[int, _Signs] = defaultdict(_Signs)
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
    def spans(self) -> Mapping[int, tuple[int, int]]:
        """Where a recovered frame may be: the gap that it was found in, by the frame's offset."""
        starts = [gap.start for gap in self.decoded.gaps]
        found = {}
        for frame in self.frames:
            if frame.recovered:
                gap = self.decoded.gaps[bisect_right(starts, frame.offset) - 1]
                found[frame.offset] = (gap.start, gap.end)
        return found

    def span(self, frame: Frame) -> tuple[int, int]:
        return self.spans.get(frame.offset, (frame.offset, frame.offset + PREAMBLE_NBYTES))

    def leaves(self, frames: Iterable[Frame], latest: bool) -> Ints:
        """When each may have left its source at the earliest or latest."""
        return self._seen(self.stream.sent, frames, latest)

    def arrives(self, frames: Iterable[Frame], latest: bool) -> Ints:
        return self._seen(self.stream.received, frames, latest)

    def _seen(self, timeline: "object", frames: Iterable[Frame], latest: bool) -> Ints:
        spans = [self.span(frame) for frame in frames]
        at = [end - 1 if latest else start for start, end in spans]
        return timeline.first_seen_ns(np.array(at, np.int64))  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def _sent_ns(self) -> Ints:
        return np.maximum.accumulate(self.stream.sent.time_ns)

    def sent_from(self, times: Ints) -> Ints:
        """The first byte that may have been sent at or after these times."""
        ends = np.concatenate([[0], self.stream.sent.cover.end])
        return ends[np.searchsorted(self._sent_ns, times, "left")]

    def arrived_by(self, times: Ints) -> Ints:
        """Where the bytes end that may have arrived in order until these times."""
        timeline = self.stream.received.in_order
        starts = np.concatenate([timeline.cover.start, [FOREVER]])
        return starts[np.searchsorted(timeline.time_ns, times, "right")]


@dataclass
class _Signs:
    """What one direction shows of a slot: its own transfers, and answers to the other direction's."""

    announced: list[Frame] = field(default_factory=list)
    data: list[Frame] = field(default_factory=list)
    answers: list[Frame] = field(default_factory=list)


_NONE = _Signs()


class _Rings:
    """Which slots are a ring's, and what each edge of it must send."""

    def __init__(self, sides: Mapping[Direction, _Side]) -> None:
        self._sides = dict(sides)  # as they were read: what is recovered must not prove itself
        self._now = sides
        self._known: dict[int, dict[Edge, Lengths]] = {}

    @cached_property
    def _edges(self) -> Mapping[int, Mapping[Edge, list[int]]]:
        """Of each allreduce the edges, with the lengths that their receivers announce visibly."""
        found: defaultdict[int, dict[Edge, list[int]]] = defaultdict(dict)
        for direction, side in self._sides.items():
            for slot, signs in side.by_slot.items():
                if unpack_slot(slot).prefix != _RING:
                    continue
                if signs.answers:
                    edge = (direction.dst, direction.src)
                    found[slot].setdefault(edge, []).extend(frame.length for frame in signs.answers)
                if signs.data or signs.announced:
                    found[slot].setdefault((direction.src, direction.dst), [])
        return found

    def is_ring(self, slot: int) -> bool:
        """Whether each host sends to one other and receives from one other only."""
        edges = self._edges.get(slot, {})
        return len({src for src, _ in edges}) == len(edges) == len({dst for _, dst in edges})

    def upstream(self, slot: int, host: str) -> _Side | None:
        """The direction in which `host` answers the rank that sends to it; None without a full ring."""
        if not self._is_even(slot):
            return None
        direction = self._answering.get((slot, host))
        return self._now[direction] if direction else None

    def _is_even(self, slot: int) -> bool:
        """Whether all edges send as many pieces: then none is absent, and rounds are the same on all."""
        edges = self._edges.get(slot, {})
        if len({len(seen) for seen in edges.values()}) == 1:
            return len(edges) > 1
        return bool(edges) and len({len(self.lengths(slot, edge) or ()) for edge in edges}) == 1

    @cached_property
    def _answering(self) -> Mapping[tuple[int, str], Direction]:
        return {
            (slot, direction.src): direction
            for direction, side in self._sides.items()
            for slot, signs in side.by_slot.items()
            if signs.answers
        }

    def lengths(self, slot: int, edge: Edge) -> Lengths | None:
        if slot not in self._known:
            edges = self._edges.get(slot, {})
            self._known[slot] = ring_lengths(edges)
        return self._known[slot].get(edge)


def _filled(decoded: Decoded, back: _Side | None, rings: _Rings) -> _Side:
    forth = _Side(decoded, decoded.frames, decoded.gaps)
    starts = [gap.start for gap in decoded.gaps]
    lanes = _entering(_lanes(forth, back, rings), decoded.gaps)
    answers = _answers(forth, back, rings, starts) if back else []
    filled = fill(decoded.frames, decoded.gaps, lanes, answers, decoded.stream.nbytes)
    if not filled.is_whole and any(lane.queued for lane in lanes):  # times may mislead: do without them
        lanes = [replace(lane, queued=()) for lane in lanes]
        filled = fill(decoded.frames, decoded.gaps, lanes, answers, decoded.stream.nbytes)
    frames = sorted((*decoded.frames, *filled.frames))
    return _Side(decoded, tuple(frames), filled.unresolved)


def _entering(lanes: Sequence[Lane], gaps: Sequence[Gap]) -> list[Lane]:
    """The lanes, each from where its first SEND_READYs may be hidden: in the gaps since the second last lane
    before it gave its first sign.
    """
    lanes = sorted(lanes, key=lambda lane: lane.enter)
    ends = [gap.end for gap in gaps]
    found = []
    for number, lane in enumerate(lanes):
        since = lanes[number - EARLY].enter if number >= EARLY else 0
        place = bisect_right(ends, since)  # the first gap that ends later
        early = gaps[place].start if place < len(gaps) else lane.enter
        found.append(replace(lane, enter=min(early, lane.enter)))
    return found


def _lanes(forth: _Side, back: _Side | None, rings: _Rings) -> list[Lane]:
    """The slots of which this direction carries data."""
    answering = back.by_slot if back else {}
    slots = [slot for slot, signs in forth.by_slot.items() if signs.announced or signs.data]
    slots += [s for s, signs in answering.items() if signs.answers and s not in forth.by_slot]
    slots += [
        s
        for s, signs in forth.by_slot.items()
        if not (signs.announced or signs.data) and answering.get(s, _NONE).answers
    ]
    return [_lane(slot, forth, back, rings) for slot in slots]


def _lane(slot: int, forth: _Side, back: _Side | None, rings: _Rings) -> Lane:
    own = forth.by_slot.get(slot, _NONE)
    answers = back.by_slot.get(slot, _NONE).answers if back else []
    first, last = _extent(own, answers, forth, back)
    direction = forth.stream.direction
    is_ring = unpack_slot(slot).prefix == _RING and rings.is_ring(slot)
    known = rings.lengths(slot, (direction.src, direction.dst)) if is_ring and back and back.left else None
    seen = [[f.length for f in some] for some in (answers, own.announced, own.data)]
    lengths: Sequence[int] = _merged(seen)
    unseen, sure = len(lengths) - len(answers), len(lengths)
    is_unclear = back is None
    if known is not None and len(known) >= len(lengths):
        lengths, unseen = known, len(known) - len(answers)
        sure = len(known)
    elif (
        back
        and back.left
        and any(
            gap.end - gap.start >= wire_nbytes(Opcode.DATA, min(lengths))
            and gap.end > first
            and gap.start <= last
            for gap in forth.decoded.gaps
        )
    ):  # else all of its data can be read
        more = _most_hidden(back, answers, own, forth)
        unseen = max(unseen, more)
        is_unclear = more > 0 and (more > MAX_UNSEEN or len(set(lengths)) > 1)
        if not is_unclear:
            lengths = [*lengths, *([lengths[0]] * (len(answers) + unseen - len(lengths)))]
    lo, hi = _bounds(len(lengths), unseen, answers, is_ring, forth, back)
    return Lane(
        slot=slot,
        lengths=lengths,
        lo=lo,
        hi=hi,
        lag=IN_FLIGHT if is_ring else len(lengths),
        enter=first,
        last=last,
        sure=sure,
        is_unclear=is_unclear,
        queued=_queued(slot, answers, len(lengths), back, rings) if is_ring and back else (),
    )


def _queued(slot: int, answers: Sequence[Frame], count: int, back: _Side, rings: "_Rings") -> list[Queued]:
    """When each DATA of a ring could be sent; empty where some notice of that is missing.

    In each round a rank asks for its receive, then for its send (gloo/allreduce.cc), so that the
    RECV_READY to the rank before shows when.
    """
    upstream = rings.upstream(slot, back.stream.direction.dst)
    if upstream is None or upstream.stream.direction.dst == back.stream.direction.src:
        return []
    asked = upstream.by_slot[slot].answers
    if len(answers) != count or len(asked) != count:
        return []
    ready = zip(*(back.arrives(answers, latest).tolist() for latest in (False, True)), strict=True)
    posted = zip(*(upstream.leaves(asked, latest).tolist() for latest in (False, True)), strict=True)
    return [Queued(*both) for both in zip(ready, posted, strict=True)]


def _merged(seen: Sequence[Sequence[int]]) -> list[int]:
    """The lengths of a slot's transfers in order, from what each kind of message shows of them."""
    longest = max(seen, key=len)
    found = [*seen[0]] if len(seen[0]) == len(longest) else [*longest]
    for some in seen:
        at = 0
        for place, length in enumerate(some):
            while at < len(found) and found[at] != length:
                at += 1
            if at == len(found):
                found += some[place:]
                break
            at += 1
    return found


def _extent(own: _Signs, answers: Sequence[Frame], forth: _Side, back: _Side | None) -> tuple[int, int]:
    """The first and last sign of a slot, as offsets of the stream that carries its data."""
    offsets = [frame.offset for some in (own.announced, own.data) for frame in (*some[:1], *some[-1:])]
    if answers and back:
        offsets += forth.sent_from(back.arrives((answers[0], answers[-1]), latest=False)).tolist()
    return min(offsets), max(offsets)


def _entered(first: int, starts: Sequence[int]) -> int:
    """Where a slot's messages may begin whose first sign is at `first`: one or two SEND_READYs may be hidden
    in the last gap before that.
    """
    place = bisect_left(starts, first)
    return starts[place - 1] if place else first


def _most_hidden(back: _Side, answers: Sequence[Frame], own: _Signs, forth: _Side) -> int:
    """How many of a slot's RECV_READYs may be hidden in what is unresolved of the other direction while the
    slot was in flight.
    """
    signs = [f for some in (own.announced, own.data) for f in (*some[:1], *some[-1:])]
    at = back.sent_from(forth.arrives(signs, latest=True)).tolist() if signs else []
    at += [frame.offset for frame in (*answers[:1], *answers[-1:])]
    first, last = min(at), max(at)
    return sum(_capacity(gap) for gap in back.left if gap.end >= first and gap.start <= last)


def _capacity(gap: Gap) -> int:
    """How many RECV_READYs it can hold."""
    if gap.is_one:
        return int(gap.opcode in (None, Opcode.RECV_READY) and gap.end - gap.start == PREAMBLE_NBYTES)
    return (gap.end - gap.start) // PREAMBLE_NBYTES


def _bounds(
    count: int, unseen: int, answers: Sequence[Frame], is_ring: bool, forth: _Side, back: _Side | None
) -> tuple[list[int], list[int]]:
    """Between which offsets each DATA lies.  The i-th visible RECV_READY is one of the i-th to the
    (i + unseen)-th.
    """
    lo, hi = [0] * count, [FOREVER] * count
    if not back:
        return lo, hi
    after = forth.sent_from(back.arrives(answers, latest=False)).tolist() if answers else []
    for number in range(unseen, count):
        lo[number] = after[number - unseen] if number - unseen < len(after) else FOREVER
    if is_ring and len(answers) > IN_FLIGHT:
        before = forth.arrived_by(back.leaves(answers[IN_FLIGHT:], latest=True)).tolist()
        hi[: len(before)] = before[:count]
    return lo, hi


def _answers(forth: _Side, back: _Side, rings: _Rings, starts: Sequence[int]) -> list[Answers]:
    """RECV_READYs that must or may be hidden in this direction."""
    found = []
    direction = back.stream.direction
    for slot in {**back.by_slot, **forth.by_slot}:
        theirs = back.by_slot.get(slot, _NONE)
        ours = forth.by_slot.get(slot, _NONE).answers
        known = None
        if unpack_slot(slot).prefix == _RING and rings.is_ring(slot):
            known = rings.lengths(slot, (direction.src, direction.dst))
        least = max(0, max(len(theirs.data), len(theirs.announced)) - len(ours))
        most = least
        if known is not None:
            least = most = max(0, len(known) - len(ours))
        elif back.left and (theirs.data or theirs.announced):
            wire = PREAMBLE_NBYTES + min(f.length for f in (*theirs.data, *theirs.announced))
            most += sum((gap.end - gap.start) // wire for gap in back.left)
        if most:
            found.append(_answer(slot, ours, theirs, (least, most), (forth, back), starts))
    return found


def _answer(
    slot: int,
    ours: Sequence[Frame],
    theirs: _Signs,
    counts: tuple[int, int],
    sides: tuple[_Side, _Side],
    starts: Sequence[int],
) -> Answers:
    forth, back = sides
    signs = [f for some in (theirs.announced, theirs.data) for f in (*some[:1], *some[-1:])]
    offsets = forth.sent_from(back.arrives(signs, latest=False)).tolist() if signs else []
    offsets += [frame.offset for frame in (*ours[:1], *ours[-1:])]
    lengths = {frame.length for some in (theirs.announced, theirs.data, ours) for frame in some}
    return Answers(
        slot=slot,
        length=max(lengths),
        least=counts[0],
        most=counts[1],
        enter=_entered(min(offsets), starts),
        last=max(offsets) + 1,
    )

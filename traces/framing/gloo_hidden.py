"""Recovers gloo messages that a capture hides, from what both ends announced.

gloo sends data only after its source has said SEND_READY and its destination RECV_READY, both with the
same slot and length (gloo/transport/tcp/pair.cc, Pair::send and Pair::recv).  So the three come in
equal numbers.  A transfer's data leaves after its RECV_READY has arrived; in a ring, gloo has two
transfers in flight (gloo/allreduce.cc), so that it has arrived before the RECV_READY after next leaves.
`traces.framing.gloo_filling` finds what can be in a gap between these bounds.  A recovered message is
certain by them, or it is not recovered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from gradwire.traces.framing.gloo_decode import GlooDecoded, GlooFrame, GlooGap, wire_nbytes
from gradwire.traces.framing.gloo_filling import fill
from gradwire.traces.framing.gloo_ring_counts import Lengths, Rings, is_part
from gradwire.traces.framing.gloo_sides import NONE, Gaps, GlooSide, Signs
from gradwire.traces.framing.gloo_ways import FOREVER, Answers, GlooLane, Queued
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.streams import Stream

MAX_ROUNDS = 3  # of reading one direction with what the other has shown
MAX_UNSEEN = 3  # transfers of which nothing may be visible, beyond which a slot cannot be counted
IN_FLIGHT = 2  # transfers of a ring
NEAR = 2  # gaps before a slot's first sign that may hide messages of it
EARLY = 2  # slots of one pair of hosts that gloo has in flight at once: one for each of its threads


@dataclass(frozen=True)
class Recovered:
    """A stream's messages, hidden ones included where they are certain; `unresolved` is what stays hidden."""

    stream: Stream
    frames: tuple[GlooFrame, ...]
    unresolved: tuple[GlooGap, ...]


def recover(decoded: Mapping[Direction, GlooDecoded]) -> list[Recovered]:
    """One for each stream, in the order of `decoded`."""
    sides = {direction: GlooSide(one, one.frames, one.gaps) for direction, one in decoded.items()}
    hidden = [direction for direction, one in decoded.items() if one.gaps]
    hidden.sort(key=lambda direction: sum(gap.end - gap.start for gap in decoded[direction].gaps))
    rings = Rings(sides)
    seen: dict[Direction, tuple[GlooGap, ...]] = {}  # of the other direction, what was unresolved last time
    for _ in range(MAX_ROUNDS):
        for direction in hidden:
            back = sides.get(direction.reverse)
            unresolved = back.left if back else ()
            if sides[direction].left and seen.get(direction) != unresolved:
                seen[direction] = unresolved
                sides[direction] = _filled(decoded[direction], back, rings)
    return [Recovered(one.decoded.stream, one.frames, one.left) for one in sides.values()]


def _filled(decoded: GlooDecoded, back: GlooSide | None, rings: Rings) -> GlooSide:
    pair = _Pair(GlooSide(decoded, decoded.frames, decoded.gaps), back, rings)
    lanes, answers = pair.lanes(), pair.answers()
    filled = fill(decoded.frames, decoded.gaps, lanes, answers, decoded.stream.nbytes)
    if not filled.is_whole and any(lane.queued for lane in lanes):  # times may mislead: do without them
        lanes = [replace(lane, queued=()) for lane in lanes]
        filled = fill(decoded.frames, decoded.gaps, lanes, answers, decoded.stream.nbytes)
    frames = sorted((*decoded.frames, *filled.frames))
    return GlooSide(decoded, tuple(frames), filled.unresolved)


@dataclass(frozen=True)
class _Window:
    """Where messages of a slot may be in one direction: visible in [first, last], hidden in the gaps that
    touch [near, leave].  Its first ones may even be hidden from `enter` on.
    """

    enter: int
    near: int
    first: int
    last: int
    leave: int


def _windows(signs: Mapping[int, Sequence[int]], gaps: Gaps) -> dict[int, _Window]:
    """Of each slot by the offsets of its first and last signs.

    A slot's first messages may be hidden, in the gaps before its first sign.  It begins after the slot before
    the last one has begun, whose first messages may be hidden as well.
    """
    firsts = {slot: min(offsets) for slot, offsets in signs.items() if offsets}
    order = sorted(firsts, key=firsts.__getitem__)
    found = {}
    for number, slot in enumerate(order):
        first, last = firsts[slot], max(signs[slot])
        since = firsts[order[max(0, number - EARLY)]]
        enter = min(gaps.before(since), first)
        near = max(enter, gaps.before(first, NEAR))
        found[slot] = _Window(enter, near, first, last, gaps.after(last))
    return found


class _Pair:
    """Both directions of a connection, for finding what `forth` hides; `back` is None if it was not seen."""

    def __init__(self, forth: GlooSide, back: GlooSide | None, rings: Rings) -> None:
        self.forth, self.back, self.rings = forth, back, rings
        theirs = back.by_slot if back else {}
        slots = list({**forth.by_slot, **theirs})
        self.forth_windows = _windows({slot: list(self._signs_here(slot)) for slot in slots}, forth.gaps)
        # damaged bytes may look like a slot of which nothing is sent or asked for
        self.slots = [slot for slot in slots if slot in self.forth_windows]
        self.back_windows = (
            _windows({slot: list(self._signs_there(slot, back)) for slot in self.slots}, back.unresolved)
            if back
            else {}
        )

    def _own(self, slot: int) -> Signs:
        return self.forth.by_slot.get(slot, NONE)

    def _theirs(self, slot: int) -> Signs:
        return self.back.by_slot.get(slot, NONE) if self.back else NONE

    def _signs_here(self, slot: int) -> Iterable[int]:
        """The offsets in `forth` of a slot's first and last signs in either direction."""
        own, theirs = self._own(slot), self._theirs(slot)
        yield from (frame.offset for frame in (*own.transfers, *own.ends))
        if self.back and (signs := [*theirs.transfers, *theirs.ends]):
            yield from self.forth.sent_from(self.back.arrives(signs, latest=False)).tolist()

    def _signs_there(self, slot: int, back: GlooSide) -> Iterable[int]:
        own, theirs = self._own(slot), self._theirs(slot)
        yield from (frame.offset for frame in (*theirs.transfers, *theirs.ends))
        if signs := [*own.transfers, *own.ends]:
            yield from back.sent_from(self.forth.arrives(signs, latest=True)).tolist()

    def lanes(self) -> list[GlooLane]:
        """The slots of which `forth` carries data."""
        found = []
        for slot in self.slots:
            own = self._own(slot)
            if own.announced or own.data or self._theirs(slot).answers:
                found.append(self._lane(slot))
        return found

    def _lane(self, slot: int) -> GlooLane:
        own, answers, back = self._own(slot), self._theirs(slot).answers, self.back
        window = self.forth_windows[slot]
        is_ring = self.rings.is_ring(slot)
        seen = [[f.length for f in some] for some in (answers, own.announced, own.data)]
        lengths: Sequence[int] = _merged(seen)
        unseen, sure, is_unclear = len(lengths) - len(answers), len(lengths), back is None
        hidden = wire_nbytes(Opcode.DATA, min(lengths))
        known = self._known(slot) if back and back.left else None
        if known is not None and all(is_part(some, known) for some in seen):
            lengths, unseen, sure = known, len(known) - len(answers), len(known)
        elif back and back.left and self.forth.gaps.longest(window.near, window.leave) >= hidden:
            more = back.unresolved.n_notices(self.back_windows[slot].near, self.back_windows[slot].leave)
            unseen = max(unseen, more)
            is_unclear = more > 0 and (more > MAX_UNSEEN or len(set(lengths)) > 1)
            if not is_unclear:
                lengths = [*lengths, *([lengths[0]] * (len(answers) + unseen - len(lengths)))]
        lo, hi = self._bounds(len(lengths), unseen, answers, is_ring)
        return GlooLane(
            slot=slot,
            lengths=lengths,
            longest=max(lengths),
            lo=lo,
            hi=hi,
            lag=IN_FLIGHT if is_ring else len(lengths),
            enter=window.enter,
            last=window.last,
            sure=sure,
            is_unclear=is_unclear,
            queued=self._queued(slot, answers, len(lengths)) if is_ring else (),
        )

    def _known(self, slot: int) -> Lengths | None:
        """What `forth` must send of a ring, if that can be said."""
        direction = self.forth.stream.direction
        if not self.rings.is_ring(slot):
            return None
        return self.rings.lengths(slot, (direction.src, direction.dst))

    def _queued(self, slot: int, answers: Sequence[GlooFrame], count: int) -> list[Queued]:
        """When each DATA of a ring could be sent; empty where some notice of that is missing.

        In each round a rank asks for its receive, then for its send (gloo/allreduce.cc), so that the
        RECV_READY to the rank before shows when.
        """
        back = self.back
        upstream = self.rings.upstream(slot, back.stream.direction.dst) if back else None
        if back is None or upstream is None:
            return []
        if upstream.stream.direction.dst == back.stream.direction.src:
            return []
        asked = upstream.by_slot[slot].answers
        if len(answers) != count or len(asked) != count:
            return []
        ready = zip(*(back.arrives(answers, latest).tolist() for latest in (False, True)), strict=True)
        posted = zip(*(upstream.leaves(asked, latest).tolist() for latest in (False, True)), strict=True)
        return [Queued(*both) for both in zip(ready, posted, strict=True)]

    def _bounds(
        self, count: int, unseen: int, answers: Sequence[GlooFrame], is_ring: bool
    ) -> tuple[list[int], list[int]]:
        """Between which offsets each DATA lies.  The i-th visible RECV_READY is one of the i-th to the
        (i + unseen)-th.
        """
        lo, hi = [0] * count, [FOREVER] * count
        if not self.back:
            return lo, hi
        after = self.forth.sent_from(self.back.arrives(answers, latest=False)).tolist() if answers else []
        for number in range(unseen, count):
            lo[number] = after[number - unseen] if number - unseen < len(after) else FOREVER
        if is_ring and len(answers) > IN_FLIGHT:
            before = self.forth.arrived_by(self.back.leaves(answers[IN_FLIGHT:], latest=True)).tolist()
            hi[: len(before)] = before[:count]
        return lo, hi

    def answers(self) -> list[Answers]:
        """RECV_READYs that must or may be hidden in `forth`."""
        if self.back is None:
            return []
        found = [self._answer(slot, self.back) for slot in self.slots]
        return [one for one in found if one.most]

    def _answer(self, slot: int, back: GlooSide) -> Answers:
        theirs, ours, window = self._theirs(slot), self._own(slot).answers, self.forth_windows[slot]
        direction = back.stream.direction
        known = self.rings.lengths(slot, (direction.src, direction.dst)) if self.rings.is_ring(slot) else None
        seen = [frame.length for some in (theirs.announced, theirs.data, ours) for frame in some]
        lengths = set(seen)
        least = most = max(0, max(len(theirs.data), len(theirs.announced)) - len(ours))
        if known is not None:
            least = most = max(0, len(known) - len(ours))
            lengths = set(Counter(known) - Counter(frame.length for frame in ours))
        elif back.left and (theirs.data or theirs.announced):
            hiding = self.back_windows[slot]
            most += back.unresolved.nbytes(hiding.near, hiding.leave) // (PREAMBLE_NBYTES + min(seen))
        return Answers(
            slot=slot,
            length=min(lengths) if len(lengths) == 1 else None,
            least=least,
            most=most,
            enter=window.near,
            last=window.last + 1,
        )


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

"""Checks that a schedule does what its operations' kinds say, in every order that its sends may take.

`needs` and `ready` leave open in which order many sends happen, so the check has two steps:

1. No races (traces.schedules.races).  Wherever two sends touch the same bytes of a rank, and it matters which
   comes first, the schedule itself must make one come first.  Then all orders give the same result, because
   they differ only in the order of sends that do not disturb each other.
2. One order is carried out, here: that of the ids, which is always allowed, as a send waits only for sends
   with lower ids (planning.plancheck).  It is carried out with sets in place of numbers: for each piece of
   each rank's buffer, the ranks whose data are added up in it, and which of their bytes these are.  In the
   end every rank must hold what the contract of the operation's kind says (traces.schedules.kinds).  Data
   that are added a second time are an error at once, as a set would not show them.

So a schedule that passes is right in every order, and one that some order spoils is refused.  Also refused
are two replacements of the same bytes without an order, even if both bring the same data, and what would take
too much memory or time to check.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.centres import check_centres
from gradwire.traces.schedules.kinds import Held
from gradwire.traces.schedules.pieces import Hops, Ids, hops_of, piece_starts
from gradwire.traces.schedules.races import Unordered, Waits, check_swaps, unordered
from gradwire.traces.schedules.schedule import Aggregation, Schedule
from gradwire.traces.schedules.sends import Sends

MAX_SETS_NBYTES = 1 << 31  # of who has whose data, at places and on the way
_ANYTHING = -1  # the origin of what nobody has made

Sets = NDArray[np.uint64]
"""By place: a bit for each member whose data are in it."""


def check_correct(schedule: Schedule) -> None:
    """Raise ValueError for an operation that its sends do not carry out, or not in every order.

    What a pull from a centre holds depends on the order of pushes (traces.schedules.centres), and nothing
    else does.  The schedule's numbers must be in range (planning.plancheck).  Of operations that differ only
    in their place in the schedule, one is checked.
    """
    check_centres(schedule)
    waits = Waits.of(schedule.sends)
    aggregations: defaultdict[int, list[Aggregation]] = defaultdict(list)
    for each in schedule.aggregations:
        aggregations[each.op].append(each)
    by_op = np.argsort(schedule.sends.op, kind="stable")
    starts = np.searchsorted(schedule.sends.op[by_op], np.arange(len(schedule.ops) + 1))
    known: set[tuple[object, ...] | None] = set()
    for op in np.flatnonzero(~_is_plain(schedule, starts, by_op)).tolist():
        numbers = by_op[starts[op] : starts[op + 1]]
        key = _equal_for_alike(schedule, op, numbers, aggregations[op])
        if key in known:
            continue
        try:
            _check_op(schedule, op, numbers, waits, aggregations[op])
        except ValueError as error:
            raise ValueError(f"operation {op}: {error}") from None
        if key is not None:
            known.add(key)


def _is_plain(schedule: Schedule, starts: Ids, by_op: Ids) -> NDArray[np.bool_]:
    """The operations that need no check: computing, and a message in one send of the whole from its root."""
    is_plain = np.array([op.kind == "compute" for op in schedule.ops], np.bool_)
    alone = np.flatnonzero(np.diff(starts) == 1)
    sends, numbers = schedule.sends, by_op[starts[alone]]
    ops = [schedule.ops[op] for op in alone.tolist()]
    is_plain[alone] |= (
        np.array([op.kind == "message" and len(op.members) in (0, 2) for op in ops], np.bool_)
        & (np.array([op.nbytes for op in ops], np.int64) == sends.nbytes[numbers])
        & (np.array([op.root for op in ops], np.int64) == sends.src[numbers])
        & (sends.shift[numbers] == 0)
    )
    return is_plain


def _equal_for_alike(
    schedule: Schedule, op: int, numbers: Ids, aggregations: Sequence[Aggregation]
) -> tuple[object, ...] | None:
    """Equal for operations with the same outcome; None where an operation's sends wait for sends of others,
    or lie between them, so that it must be checked by itself.
    """
    sends, columns = schedule.sends, list[bytes]()
    if len(numbers):
        first, end = int(numbers[0]), int(numbers[-1]) + 1
        if end - first != len(numbers):
            return None
        flat = (sends.src, sends.dst, sends.step, sends.offset, sends.shift, sends.nbytes, sends.reduce)
        columns += (column[first:end].tobytes() for column in flat)
        for edges in (sends.needs, sends.ready):
            starts = edges.starts[first : end + 1]
            ids = edges.ids[starts[0] : starts[-1]] - first
            if ids.min(initial=0) < 0:
                return None
            columns += ((starts - starts[0]).tobytes(), ids.tobytes())
    groups = tuple((each.givers, each.takers) for each in aggregations)
    return (schedule.ops[op].kind, schedule.parties(op), groups, *columns)


def _check_op(
    schedule: Schedule, op: int, numbers: Ids, waits: Waits, aggregations: Sequence[Aggregation]
) -> None:
    members, contract = schedule.members[op], schedule.ops[op].contract
    sends = schedule.sends.chosen(numbers)
    parties = {rank: each for each in schedule.parties(op) for rank in each.members}
    before = [contract.before(parties[rank], rank) for rank in members]
    after = [contract.after(parties[rank], rank) for rank in members]
    ends = {0}
    for held in chain.from_iterable((*before, *after)):
        ends |= {held.offset, held.offset + held.nbytes}
    cuts = piece_starts(sends, sorted(ends))
    hops = hops_of(sends, cuts, members)
    check_swaps(waits, numbers)
    # What merges is in no order that does not matter, as what replaces.
    ordered = waits._replace(reduce=np.zeros_like(waits.reduce)) if contract.merges else waits
    wrong = unordered(ordered, numbers, hops, len(members) * len(cuts))
    if wrong:
        raise ValueError(_race_words(schedule, wrong, cuts, members))
    for some_cuts, some_hops in _in_memory(members, cuts, hops):
        buffers = _Buffers.of(members, some_cuts, before, aggregations)
        _carry_out_all(buffers, sends, numbers, some_hops, waits)
        for member, some in enumerate(after):
            for held in some:
                _check_held(buffers, member, held)


def _in_memory(members: Sequence[int], cuts: Ids, hops: Hops) -> Iterator[tuple[Ids, Hops]]:
    """All pieces at once, or so many at a time as sets of members are held for.

    Where each piece stays where it is in the buffers, as without shifts, it can be looked at by itself.
    Raise ValueError where not, and all are too many.
    """
    set_nbytes = ((len(members) + 63) // 64 + 1) * 8
    n_pieces, n_sets = len(cuts) - 1, len(members) * len(cuts) + len(hops.send)
    if n_sets * set_nbytes <= MAX_SETS_NBYTES:
        yield cuts, hops
        return
    piece = (hops.source % len(cuts)).astype(np.int32)
    in_each = np.bincount(piece, minlength=n_pieces) + 2 * len(members)
    if np.any(hops.target % len(cuts) != piece) or in_each.max() * set_nbytes > MAX_SETS_NBYTES:
        raise ValueError(f"{n_pieces:,} pieces at {len(members)} ranks are too many to check")
    part = np.cumsum(in_each) * set_nbytes // (MAX_SETS_NBYTES - int(in_each.max()) * set_nbytes)
    for first, end in pairwise([0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), n_pieces]):
        here = (piece >= first) & (piece < end)
        source, target = (
            side[here] // len(cuts) * (end - first + 1) + piece[here] - first
            for side in (hops.source, hops.target)
        )
        yield cuts[first : end + 1], Hops(hops.send[here], source, target)


def _race_words(schedule: Schedule, wrong: Unordered, cuts: Ids, members: Sequence[int]) -> str:
    member, piece = divmod(wrong.place, len(cuts))
    return (
        f"rank {members[member]} may {_access(schedule, wrong.first)} and "
        f"{_access(schedule, wrong.second)} in either order, bytes {cuts[piece]} to {cuts[piece + 1]}: let "
        "one wait for the other"
    )


def _access(schedule: Schedule, event: int) -> str:
    number, is_write = divmod(event, 2)
    if not is_write:
        return f"send its bytes in send {number}"
    return f"{'add' if schedule.sends.reduce[number] else 'receive'} those of send {number}"


class _Buffers(NamedTuple):
    """What all members hold, by place (traces.schedules.pieces).

    `sets` are the members whose data are in it, `origin` is where these data began in their buffers, as only
    bytes of the same place may be added; -1: nobody's data.
    """

    members: Sequence[int]
    cuts: Ids
    sets: Sets
    origin: Ids
    bit_of: Mapping[int, int]
    last: list[Any]  # ranks, and the set of them

    @classmethod
    def of(
        cls,
        members: Sequence[int],
        cuts: Ids,
        before: Sequence[Sequence[Held]],
        aggregations: Sequence[Aggregation],
    ) -> "_Buffers":
        """What members hold at the beginning, with what switches have added up before all sends."""
        n_places, n_words = len(members) * len(cuts), (len(members) + 63) // 64
        bit_of = {rank: place for place, rank in enumerate(members)}
        sets, origin = np.zeros((n_places, n_words), np.uint64), np.full(n_places, _ANYTHING, np.int64)
        made = cls(members, cuts, sets, origin, bit_of, [])
        for member, some in enumerate(before):
            for held in some:
                made.fill(member, held)
        for each in aggregations:
            for taker in each.takers:
                made.fill(bit_of[taker], Held(0, int(cuts[-1]), each.givers, 0))
        return made

    def fill(self, member: int, held: Held) -> None:
        places, origin = self.places(member, held)
        self.sets[places], self.origin[places] = self.bits(held.givers), origin

    def places(self, member: int, held: Held) -> tuple[slice, Ids]:
        """The places of a range, and for each its origin."""
        first, end = np.searchsorted(self.cuts, (held.offset, held.offset + held.nbytes)).tolist()
        end = min(end, len(self.cuts) - 1)
        places = slice(member * len(self.cuts) + first, member * len(self.cuts) + end)
        return places, self.cuts[first:end] - held.offset + held.origin

    def bits(self, ranks: Sequence[int]) -> Sets:
        """The set of these ranks; of the same object as the last time, that set."""
        if not self.last or self.last[0] is not ranks:
            bits = np.zeros(64 * self.sets.shape[1], np.uint8)
            bits[[self.bit_of[rank] for rank in ranks]] = 1
            self.last[:] = ranks, np.packbits(bits, bitorder="little").view(np.uint64)
        packed: Sets = self.last[1]
        return packed

    def bytes_of(self, place: int) -> str:
        piece = place % len(self.cuts)
        return f"bytes {self.cuts[piece]} to {self.cuts[piece + 1]}"


def _carry_out_all(buffers: _Buffers, sends: Sends, numbers: Ids, hops: Hops, waits: Waits) -> None:
    """Carry out an operation's sends, in place; raise ValueError for what is added twice, or too much."""
    partner = waits.partner[numbers]
    position = np.where(partner >= 0, np.searchsorted(numbers, partner), -1)
    starts = np.searchsorted(hops.send, np.arange(len(sends) + 1))
    send, place, member = _carry_out(
        buffers.sets, buffers.origin, starts, hops.source, hops.target, sends.reduce, position
    )
    if send < 0:
        return
    what = f"what rank {buffers.members[member]} has made a second time" if member >= 0 else "other bytes"
    raise ValueError(
        f"send {numbers[send]} adds {what} to {buffers.bytes_of(place)} of rank {sends.dst[send]}"
    )


@compiled
def _carry_out(
    sets: Any, origin: Any, starts: Any, source: Any, target: Any, reduce: Any, partner: Any
) -> Any:
    """Carry out all sends in the order of their ids; both halves of a swap add when both have been read.

    Returns the first send that must not add what it brings, the place, and the member whose data are there
    already, or -1 if the data are of other bytes; (-1, -1, -1) if all is well.
    """
    data = np.empty((len(source), sets.shape[1]), np.uint64)  # what each hop brings
    begins = np.empty(len(source), np.int64)
    for send in range(len(starts) - 1):
        for hop in range(starts[send], starts[send + 1]):
            data[hop], begins[hop] = sets[source[hop]], origin[source[hop]]
        if partner[send] > send:
            continue
        for each in (partner[send], send):
            for hop in range(starts[each], starts[each + 1]) if each >= 0 else range(0):
                place = target[hop]
                if not reduce[each] or origin[place] == _ANYTHING:
                    sets[place], origin[place] = data[hop], begins[hop]
                elif begins[hop] != _ANYTHING:
                    if begins[hop] != origin[place]:
                        return each, place, -1
                    member = _first_common(sets[place], data[hop])
                    if member >= 0:
                        return each, place, member
                    sets[place] |= data[hop]
    return -1, -1, -1


@compiled
def _first_common(one: Any, other: Any) -> int:
    """The first member of two sets; -1: none."""
    for word in range(len(one)):
        both = one[word] & other[word]
        if both:
            bit = 0
            while not (both >> np.uint64(bit)) & np.uint64(1):
                bit += 1
            return 64 * word + bit
    return -1


def _check_held(buffers: _Buffers, member: int, due: Held) -> None:
    """Raise ValueError for the first bytes that are not what a rank must hold in the end."""
    places, origin = buffers.places(member, due)
    bits = buffers.bits(due.givers)
    differing = buffers.sets[places] ^ bits
    wrong = np.flatnonzero(differing.any(axis=1) | (buffers.origin[places] != origin))
    if not len(wrong):
        return
    place = places.start + int(wrong[0])
    givers = np.flatnonzero(np.unpackbits(differing[wrong[0]].view(np.uint8), bitorder="little"))
    what = "with other bytes than it must"
    if len(givers):
        is_there = np.unpackbits(buffers.sets[place].view(np.uint8), bitorder="little")[givers[0]]
        what = f"{'with' if is_there else 'without'} what rank {buffers.members[int(givers[0])]} has made"
    raise ValueError(f"rank {buffers.members[member]} ends {what} in {buffers.bytes_of(place)}")

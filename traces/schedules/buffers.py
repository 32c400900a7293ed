"""Members' buffers while the sends of an operation are carried out with sets of members in place of numbers.

For each stretch of each buffer: the members whose data are added up in it, as bits, and which of their bytes
these are.  Stretches are no finer than they have to be.  A buffer begins cut where its own sends begin and
end (traces.schedules.pieces.own_pieces), and a stretch is cut further only where what comes in is not the
same all along it.  What a send brings is put together again as far as it is the same: so when a rank of a
halving-doubling sends half of the sum, which came to it in eleven parts, its partner gets one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.kinds import Held
from gradwire.traces.schedules.pieces import Ids, Pieces
from gradwire.traces.schedules.sends import Sends

Sets = np.ndarray[tuple[int, int], np.dtype[np.uint64]]
"""A bit for each member whose data are in it, in as many words as they need; a row for each stretch."""

ANYTHING = -1  # the origin of what nobody has made
_NONE = -1
_DONE, _WRONG, _FULL = 0, 1, 2


class Ranges(NamedTuple):
    """What members hold, or must hold: of each range the member by its position, its first byte and its size,
    the row of `sets` that says whose data it is, and where these data began in their buffers.
    """

    member: Ids
    offset: Ids
    nbytes: Ids
    row: Ids
    origin: Ids
    sets: Sets

    @classmethod
    def of(cls, members: Sequence[int], held: Sequence[Sequence[Held]]) -> "Ranges":
        """What each of the members, ranks in ascending order, holds."""
        rows: dict[object, int] = {}  # of equal sets; long ones are equal where they are the same object
        givers: list[Sequence[int]] = []
        columns: list[tuple[int, int, int, int, int]] = []
        for member, some in enumerate(held):
            for offset, nbytes, ranks, origin in some:
                row = rows.setdefault(ranks if len(ranks) == 1 else id(ranks), len(givers))
                if row == len(givers):
                    givers.append(ranks)
                columns.append((member, offset, nbytes, row, origin))
        bit_of = {rank: place for place, rank in enumerate(members)}
        bits = np.zeros((len(givers), n_words(members) * 64), np.uint8)
        for row, its in enumerate(givers):
            bits[row, [bit_of[rank] for rank in its]] = 1
        sets = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
        made = np.ascontiguousarray(np.array(columns, np.int64).reshape(-1, 5).T)
        return cls(made[0], made[1], made[2], made[3], made[4], sets)

    def clipped(self, first: int, end: int) -> "Ranges":
        """Those parts that lie in these bytes."""
        offset = np.maximum(self.offset, first)
        nbytes = np.minimum(self.offset + self.nbytes, end) - offset
        here = np.flatnonzero(nbytes > 0)
        origin = self.origin + offset - self.offset
        return Ranges(self.member[here], offset[here], nbytes[here], self.row[here], origin[here], self.sets)


def ends_of(*some: Ranges) -> tuple[Ids, Ids]:
    """Where ranges begin and end, as positions of members and bytes."""
    members = [each.member for each in some for _ in range(2)]
    bytes_ = [byte for each in some for byte in (each.offset, each.offset + each.nbytes)]
    return np.concatenate(members), np.concatenate(bytes_)


class Wrong(NamedTuple):
    """A send (for what members hold in the end: a member's position) that spoils bytes `begin` to `end`.

    `member` is whose data are there a second time, or are missing, or must not be there; -1 if the data are
    of other bytes.
    """

    number: int
    begin: int
    end: int
    member: int
    is_there: bool = True


class Stretches(NamedTuple):
    """What is in buffers, or on the way: `n[0]` stretches, and room for more.

    Each is a row of `sets`, whose data they are; its data began at `origin` in their buffers.  In buffers
    stretch i of the beginning is piece i; `following` leads from it to those that were cut off it, one after
    the other, and the last of them ends where the piece does.
    """

    begins: Ids
    ends: Ids
    following: Ids
    origin: Ids
    sets: Sets
    n: Ids

    @classmethod
    def of(cls, begins: Ids, ends: Ids, n_sets_words: int) -> "Stretches":
        """Nobody's data."""
        n = len(begins)
        sets = np.zeros((n, n_sets_words), np.uint64)
        return cls(begins, ends, np.full(n, _NONE), np.full(n, ANYTHING), sets, np.array([n]))


def n_words(members: Sequence[int]) -> int:
    """Of a set of them."""
    return max(1, (len(members) + 63) // 64)


class Buffers:
    """The buffers of some members.  There may be `max_rows` sets, with those that are on the way."""

    def __init__(
        self, sends: Sends, members: Sequence[int], pieces: Pieces, before: Ranges, max_rows: int
    ) -> None:
        """What members hold at the beginning is `before`: of the same bytes what is named later.

        `pieces` are cut where ranges begin and end as well.
        """
        self._sends, self._pieces, self._max_rows = sends, pieces, max_rows
        begins = pieces.keys % pieces.width
        self._held = Stretches.of(begins, np.append(begins[1:], 0), n_words(members))
        _fill(*self._of(before), before, self._held)

    def _of(self, ranges: Ranges) -> tuple[Ids, Ids]:
        """The first piece of each range, and the one after its last."""
        at = self._pieces.at
        return at(ranges.member, ranges.offset), at(ranges.member, ranges.offset + ranges.nbytes)

    def carry_out(self, partner: Ids) -> Wrong | None:
        """Carry out all sends in the order of their ids; both halves of a swap add when both have been read.

        `partner` is the other half of each send, or -1.  Returns the first send that must not add what it
        brings.  Raise ValueError for what is too much.
        """
        sends = self._sends
        no_bytes = np.zeros(0, np.int64)
        way = Stretches.of(no_bytes, no_bytes, self._held.sets.shape[1])
        outcome, wrong, held = _carry_out(
            self._pieces, sends.shift, sends.reduce, partner, self._held, way, self._max_rows
        )
        self._held = Stretches(*held)
        if outcome == _FULL:
            raise ValueError(too_many(len(self._pieces.keys), self._max_rows))
        return Wrong(*wrong) if outcome == _WRONG else None

    def differing(self, after: Ranges) -> Wrong | None:
        """The first bytes that are not what a member must hold in the end."""
        number, stretch = _first_differing(*self._of(after), after, self._held)
        if number == _NONE:
            return None
        sets, due = self._held.sets[stretch], after.sets[after.row[number]]
        givers = np.flatnonzero(np.unpackbits((sets ^ due).view(np.uint8), bitorder="little"))
        where = int(after.member[number]), int(self._held.begins[stretch]), int(self._held.ends[stretch])
        if not len(givers):
            return Wrong(*where, _NONE)
        is_there = np.unpackbits(sets.view(np.uint8), bitorder="little")[givers[0]]
        return Wrong(*where, int(givers[0]), bool(is_there))


def too_many(n_pieces: int, max_rows: int) -> str:
    return f"{n_pieces:,} pieces of buffers are too many to check; {max_rows:,} fit into memory"


@compiled
def _fill(first: Ids, end: Ids, ranges: Ranges, held: Stretches) -> None:
    for number in range(len(first)):
        for piece in range(first[number], end[number]):
            held.origin[piece] = ranges.origin[number] + held.begins[piece] - ranges.offset[number]
            held.sets[piece] = ranges.sets[ranges.row[number]]


@compiled
def _carry_out(
    pieces: Pieces,
    shift: Ids,
    reduce: NDArray[np.bool_],
    partner: Ids,
    held: Stretches,
    way: Stretches,
    max_rows: int,
) -> tuple[int, tuple[int, int, int, int], tuple[Ids, Ids, Ids, Ids, Sets, Ids]]:
    """See `Buffers.carry_out`.  Returns how it ended, what is wrong, and the fields of what is in the buffers
    then, as numba would have to be loaded to make a named tuple.
    """
    first_row = np.zeros(len(shift) + 1, np.int64)  # of what each send has on the way
    n_waiting = 0
    for send in range(len(shift)):
        first_row[send] = way.n[0]
        way = _read(pieces, send, shift[send], held, way)
        if held.n[0] + way.n[0] > max_rows:
            return _FULL, (0, 0, 0, 0), _fields(held)
        if partner[send] > send:
            n_waiting += 1
            continue
        if partner[send] >= 0:
            n_waiting -= 1
            held, begin, end, member = _write(pieces, partner[send], reduce, held, way, first_row)
            if begin != _NONE:
                return _WRONG, (partner[send], begin, end, member), _fields(held)
        held, begin, end, member = _write(pieces, send, reduce, held, way, first_row)
        if begin != _NONE:
            return _WRONG, (send, begin, end, member), _fields(held)
        if not n_waiting:
            way.n[0] = 0
    return _DONE, (0, 0, 0, 0), _fields(held)


@compiled
def _fields(some: Any) -> Any:
    return some.begins, some.ends, some.following, some.origin, some.sets, some.n


@compiled
def _read(pieces: Any, send: int, shift: int, held: Any, way: Any) -> Any:
    """What is on the way, with what a send reads, moved to where that will be written and joined up."""
    first_row = way.n[0]
    for piece in range(pieces.source[send], pieces.source[send] + pieces.n_source[send]):
        stretch = piece
        while stretch != _NONE:
            last = way.n[0] - 1
            if last < first_row or not _goes_on(way, last, held, stretch, shift):
                way = _with_room(way)
                last = way.n[0]
                way.n[0] += 1
                way.begins[last] = held.begins[stretch] + shift
                way.origin[last], way.sets[last] = held.origin[stretch], held.sets[stretch]
            way.ends[last] = held.ends[stretch] + shift
            stretch = held.following[stretch]
    return way


@compiled
def _goes_on(way: Any, last: int, held: Any, stretch: int, shift: int) -> bool:
    """Whether a stretch is of the same data as the last one on the way, and of the bytes after those."""
    if (way.origin[last] == ANYTHING) != (held.origin[stretch] == ANYTHING):
        return False
    distance = held.begins[stretch] + shift - way.begins[last]
    if way.origin[last] != ANYTHING and way.origin[last] + distance != held.origin[stretch]:
        return False
    return bool(np.all(way.sets[last] == held.sets[stretch]))


@compiled
def _write(pieces: Any, send: int, reduce: Any, held: Any, way: Any, first_row: Ids) -> Any:
    """The buffers with what a send brings, and of the first bytes that must not be added their begin, end and
    the member whose data are there already, or -1 if the data are of other bytes; all -1 if all is well.
    """
    row = first_row[send]
    for piece in range(pieces.target[send], pieces.target[send] + pieces.n_target[send]):
        stretch = piece
        while stretch != _NONE:
            begin = held.begins[stretch]
            while way.ends[row] <= begin:
                row += 1
            if way.ends[row] < held.ends[stretch]:
                held = _cut(held, stretch, way.ends[row])
            brought = way.origin[row]
            if brought != ANYTHING:
                brought += begin - way.begins[row]
            if not reduce[send] or held.origin[stretch] == ANYTHING:
                held.sets[stretch], held.origin[stretch] = way.sets[row], brought
            elif brought != ANYTHING:
                is_same = brought == held.origin[stretch]
                member = _first_common(held.sets[stretch], way.sets[row]) if is_same else -1
                if member >= 0 or not is_same:
                    return held, begin, held.ends[stretch], member
                held.sets[stretch] |= way.sets[row]
            stretch = held.following[stretch]
    return held, _NONE, _NONE, _NONE


@compiled
def _cut(held: Any, stretch: int, byte: int) -> Any:
    """The buffers with one stretch cut in two."""
    held = _with_room(held)
    rest = held.n[0]
    held.n[0] += 1
    held.begins[rest], held.ends[rest], held.ends[stretch] = byte, held.ends[stretch], byte
    held.following[rest], held.following[stretch] = held.following[stretch], rest
    is_made = held.origin[stretch] != ANYTHING
    held.origin[rest] = held.origin[stretch] + byte - held.begins[stretch] if is_made else ANYTHING
    held.sets[rest] = held.sets[stretch]
    return held


@compiled
def _with_room(some: Any) -> Any:
    """The stretches with room for one more."""
    n = some.n[0]
    if n < len(some.begins):
        return some
    sets = np.empty((2 * n + 1, some.sets.shape[1]), np.uint64)
    sets[:n] = some.sets
    begins, ends = _longer(some.begins), _longer(some.ends)
    return Stretches(begins, ends, _longer(some.following), _longer(some.origin), sets, some.n)


@compiled
def _longer(values: Ids) -> Ids:
    made = np.full(2 * len(values) + 1, _NONE)
    made[: len(values)] = values
    return made


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


@compiled
def _first_differing(first: Ids, end: Ids, due: Ranges, held: Stretches) -> tuple[int, int]:
    """The first range that is not as it is due, and the stretch of it; -1 for both if all are."""
    for number in range(len(first)):
        for piece in range(first[number], end[number]):
            stretch = piece
            while stretch != _NONE:
                origin = due.origin[number] + held.begins[stretch] - due.offset[number]
                same = np.all(held.sets[stretch] == due.sets[due.row[number]])
                if held.origin[stretch] != origin or not same:
                    return number, stretch
                stretch = held.following[stretch]
    return _NONE, _NONE

"""Checks that a schedule does what its operations' kinds say, in every order that its sends may take.

`needs` and `ready` leave open in which order many sends happen, so the check has two steps:

1. No races (traces.schedules.races).  Wherever two sends touch the same bytes of a rank, and it matters which
   comes first, the schedule itself must make one come first.  Then all orders give the same result, because
   they differ only in the order of sends that do not disturb each other.
2. One order is carried out, here: that of the ids, which is always allowed, as a send waits only for sends
   with lower ids (planning.plancheck).  It is carried out with sets in place of numbers
   (traces.schedules.buffers): for each stretch of each rank's buffer, the ranks whose data are added up in
   it, and which of their bytes these are.  In the end every rank must hold what the contract of the
   operation's kind says (traces.schedules.kinds).  Data that are added a second time are an error at once, as
   a set would not show them.

So a schedule that passes is right in every order, and one that some order spoils is refused.  Also refused
are two replacements of the same bytes without an order, even if both bring the same data, and what would take
too much memory or time to check.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.schedules.buffers import Buffers, Ranges, ends_of, n_words, too_many
from gradwire.traces.schedules.centres import check_centres
from gradwire.traces.schedules.kinds import Held
from gradwire.traces.schedules.pieces import Ids, Pieces, hops_of, own_pieces, piece_starts
from gradwire.traces.schedules.races import Unordered, Waits, all_ordered_nearby, check_swaps, unordered
from gradwire.traces.schedules.schedule import Aggregation, Schedule
from gradwire.traces.schedules.sends import Sends

MAX_SETS_NBYTES = 1 << 31  # of who has whose data, in buffers and on the way


def check_correct(schedule: Schedule) -> None:
    """Raise ValueError for an operation that its sends do not carry out, or not in every order.

    What a pull from a centre holds depends on the order of pushes (traces.schedules.centres), and nothing
    else does.  The schedule's numbers must be in range (planning.plancheck).  Of operations that differ only
    in their place in the schedule, one is checked.
    """
    check_centres(schedule)
    aggregations: defaultdict[int, list[Aggregation]] = defaultdict(list)
    for each in schedule.aggregations:
        aggregations[each.op].append(each)
    by_op = np.argsort(schedule.sends.op, kind="stable")
    starts = np.searchsorted(schedule.sends.op[by_op], np.arange(len(schedule.ops) + 1))
    all_waits = cache(lambda: Waits.of(schedule.sends))
    known: set[tuple[object, ...] | None] = set()
    for op in np.flatnonzero(~_is_plain(schedule, starts, by_op)).tolist():
        numbers = by_op[starts[op] : starts[op + 1]]
        alone = _alone(schedule.sends, numbers)
        key = None if alone is None else _equal_for_alike(schedule, op, alone, aggregations[op])
        if key in known:
            continue
        if alone is None:
            own = _Own.among(schedule.sends, numbers, all_waits())
        else:
            own = _Own(alone, np.arange(len(alone)), Waits.of(alone, int(numbers[0]) if len(numbers) else 0))
        try:
            _check_op(schedule, op, own, aggregations[op])
        except ValueError as error:
            raise ValueError(f"operation {op}: {error}") from None
        if key is not None:
            known.add(key)


class _Own(NamedTuple):
    """The sends of one operation, and their positions in `waits`, which are of them alone or of all sends."""

    sends: Sends
    numbers: Ids
    waits: Waits

    @classmethod
    def among(cls, sends: Sends, numbers: Ids, waits: Waits) -> "_Own":
        return cls(sends.chosen(numbers), numbers, waits)

    @property
    def partner(self) -> Ids:
        """The position among them of the other half of a swap, or -1."""
        partner = self.waits.partner[self.numbers]
        return np.where(partner >= 0, np.searchsorted(self.numbers, partner), -1)


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


def _alone(sends: Sends, numbers: Ids) -> Sends | None:
    """The sends with these ids, numbered from 0; None if they wait for sends of others, or others lie between
    them.
    """
    first, end = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
    alone = sends.between(first, end)
    if end - first != len(numbers) or min(alone.needs.ids.min(initial=0), alone.ready.ids.min(initial=0)) < 0:
        return None
    return alone


def _equal_for_alike(
    schedule: Schedule, op: int, alone: Sends, aggregations: Sequence[Aggregation]
) -> tuple[object, ...]:
    """Equal for operations with the same outcome, whose sends wait for no others."""
    groups = tuple((each.givers, each.takers) for each in aggregations)
    columns = (column.tobytes() for name, column in alone.columns() if name != "op")
    return (schedule.ops[op].kind, schedule.parties(op), groups, *columns)


def _check_op(schedule: Schedule, op: int, own: _Own, aggregations: Sequence[Aggregation]) -> None:
    members, made = schedule.members[op], schedule.ops[op]
    parties = {rank: each for each in schedule.parties(op) for rank in each.members}
    before = [made.contract.before(parties[rank], rank) for rank in members]
    after = [made.contract.after(parties[rank], rank) for rank in members]
    check_swaps(own.waits, own.numbers)
    # What merges is in no order that does not matter, as what replaces.
    waits = own.waits
    if made.contract.merges:
        waits = waits._replace(reduce=np.zeros_like(waits.reduce))
    sums = _sums(members, aggregations, made.nbytes)
    had = Ranges.of(members, [(*some, *its) for some, its in zip(before, sums, strict=True)])
    due = Ranges.of(members, after)
    pieces = own_pieces(own.sends, members, ends_of(had, due))
    if not all_ordered_nearby(waits, own.numbers, pieces, own.partner):
        ends = {0}
        for held in chain.from_iterable((*before, *after)):
            ends |= {held.offset, held.offset + held.nbytes}
        cuts = piece_starts(own.sends, sorted(ends))
        hops = hops_of(own.sends, cuts, members)
        if wrong := unordered(waits, own.numbers, hops, len(members) * len(cuts)):
            raise ValueError(_race_words(own.waits, wrong, cuts, members))
    _check_held(own, members, pieces, had, due)


def _sums(members: Sequence[int], aggregations: Sequence[Aggregation], nbytes: int) -> list[tuple[Held, ...]]:
    """What switches have added up for each member before all sends."""
    by_taker: defaultdict[int, tuple[Held, ...]] = defaultdict(tuple)
    for each in aggregations:
        for taker in each.takers:
            by_taker[taker] += (Held(0, nbytes, each.givers, 0),)
    return [by_taker[rank] for rank in members]


def _check_held(own: _Own, members: Sequence[int], pieces: Pieces, before: Ranges, after: Ranges) -> None:
    """Raise ValueError for what is added twice, or too much, and for what is not as it must be in the end."""
    max_rows = MAX_SETS_NBYTES // ((n_words(members) + 1) * 8)
    partner = own.partner
    for sends, some_pieces, had, due in _in_memory(own.sends, members, pieces, before, after, max_rows):
        buffers = Buffers(sends, members, some_pieces, had, max_rows)
        if wrong := buffers.carry_out(partner):
            what = "data of other bytes"
            if wrong.member >= 0:
                what = f"what rank {members[wrong.member]} has made a second time"
            raise ValueError(
                f"send {own.waits.first + own.numbers[wrong.number]} adds {what} to bytes {wrong.begin} to "
                f"{wrong.end} of rank {sends.dst[wrong.number]}"
            )
        if wrong := buffers.differing(due):
            what = "with data of other bytes"
            if wrong.member >= 0:
                what = f"{'with' if wrong.is_there else 'without'} what rank {members[wrong.member]} has made"
            raise ValueError(
                f"rank {members[wrong.number]} ends {what} in bytes {wrong.begin} to {wrong.end}"
            )


def _in_memory(
    sends: Sends, members: Sequence[int], pieces: Pieces, before: Ranges, after: Ranges, max_rows: int
) -> Iterator[tuple[Sends, Pieces, Ranges, Ranges]]:
    """All bytes at once, or as many at a time as sets of members are held for.

    Where all bytes stay where they are in the buffers, as without shifts, some of them can be looked at by
    themselves.  Raise ValueError where not, and all are too many.
    """
    n_pieces = len(pieces.keys)
    if n_pieces <= max_rows:
        yield sends, pieces, before, after
        return
    in_each = max_rows // 2 - 3 * len(members)  # and what is on the way; each cut makes pieces of each buffer
    if in_each < 1 or np.any(sends.shift):
        raise ValueError(too_many(n_pieces, max_rows))
    begins = np.sort(pieces.keys % pieces.width)
    for first, end in pairwise(np.unique([*begins[::in_each].tolist(), int(begins[-1])]).tolist()):
        some, had, due = sends.clipped(first, end), before.clipped(first, end), after.clipped(first, end)
        yield some, own_pieces(some, members, ends_of(had, due)), had, due


def _race_words(waits: Waits, wrong: Unordered, cuts: Ids, members: Sequence[int]) -> str:
    member, piece = divmod(wrong.place, len(cuts))
    return (
        f"rank {members[member]} may {_access(waits, wrong.first)} and "
        f"{_access(waits, wrong.second)} in either order, bytes {cuts[piece]} to {cuts[piece + 1]}: let "
        "one wait for the other"
    )


def _access(waits: Waits, event: int) -> str:
    number, is_write = divmod(event, 2)
    if not is_write:
        return f"send its bytes in send {waits.first + number}"
    return f"{'add' if waits.reduce[number] else 'receive'} those of send {waits.first + number}"

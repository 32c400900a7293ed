"""Finds races: two sends that touch the same bytes of a rank, in either order, where the order matters.

*Events.*  A send is read at its source, where it is handed to the kernel, and then written, or added, at its
destination.  Event 2s is the read of send s, event 2s + 1 its write.

*What comes before what.*  Before the read of a send come
- what the send `needs`, at its source: the write of a send that the source receives, the read of one that it
  makes;
- what it is announced after (`ready`), the same at its destination: a send leaves only when it is announced;
- the read of the send before in its *slot*, the sends of one operation from one source to one destination, in
  which sends leave, and are announced, in the order of their ids.
Before the write of a send come its read and the write of the send before in its slot.  Where one of these two
is half of a swap its slot orders reads only, and both halves are added after both are read, because the
agents hold them back.

*Races.*  Two accesses to one place (traces.schedules.pieces) need an order if one of them writes, unless both
add, as additions commute.  Not every pair has to be compared.  The accesses to a place, in the order of their
moments (`_moment`), fall into groups: reads that follow each other, additions that follow each other, or one
write that replaces.  Where every access comes after every one of the group before, all pairs that need an
order have one, since "comes after" is transitive; where one does not, that pair is a race.

*Three searches.*  What paces sends (traces.schedules.pacing) lets each wait for the group before its own, or
for the last step at its rank, so few steps back from an access, at its rank alone, lead to all of that group;
if they do everywhere, no more is looked at.  Else,
nearly every order is made by the sends of the component that the bytes are in.  So each component is looked
at by itself: of each of its events, the events before it, as bits.  A pair without
an order there is only *suspected*, for sends of other bytes may make the order: it is followed back through
all sends of the schedule.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.pieces import Hops, Ids, Pieces, components, in_time, ranges
from gradwire.traces.schedules.sends import Sends, swaps

MAX_ORDER_NBYTES = 1 << 30  # of the ancestors in one component
MAX_STEPS_BACK = 1 << 26  # along all sends, for all pairs of accesses of an operation
MAX_SUSPECTS = 1 << 16  # pairs of accesses that their own component gives no order
NEARBY = 256  # events whose predecessors are looked at for an access in the first search
_ONE = np.uint64(1)
_READS, _ADDS, _REPLACES = 0, 1, 2  # ways of accesses


class Waits(NamedTuple):
    """What each send of a schedule waits for, as compiled code takes it; -1: nothing."""

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    reduce: NDArray[np.bool_]
    need_starts: NDArray[np.int32]
    need_ids: NDArray[np.int32]
    ready_starts: NDArray[np.int32]
    ready_ids: NDArray[np.int32]
    before: Ids  # the send before in its slot
    slot: Ids  # a number from 0 on
    partner: Ids  # the other half of a swap
    has_swaps: NDArray[np.bool_]  # of a slot
    most: int  # events that any event has right before it
    first: int  # the id of the first of these sends

    @classmethod
    def of(cls, sends: Sends, first: int = 0) -> "Waits":
        """`first` is the id of the first of them in their schedule, where they are not all of it."""
        before = np.full(len(sends), -1, np.int64)
        high = int(max(sends.src.max(initial=0), sends.dst.max(initial=0))) + 1
        slot = (sends.op.astype(np.int64) * high + sends.src) * high + sends.dst
        order = np.argsort(slot, kind="stable")
        same = np.flatnonzero(slot[order][1:] == slot[order][:-1])
        before[order[same + 1]] = order[same]
        _, slot = np.unique(slot, return_inverse=True)
        partner = np.full(len(sends), -1, np.int64)
        pairs = swaps(sends)
        partner[list(pairs)] = list(pairs.values())
        has_swaps = np.zeros(int(slot.max(initial=-1)) + 1, np.bool_)
        has_swaps[slot[partner >= 0]] = True
        most = int((sends.needs.counts + sends.ready.counts).max(initial=0)) + 3
        edges = (*sends.needs, *sends.ready)
        return cls(sends.src, sends.dst, sends.reduce, *edges, before, slot, partner, has_swaps, most, first)


class Unordered(NamedTuple):
    """Two events that may come in either order, and must not, at a place."""

    first: int
    second: int
    place: int


def check_swaps(waits: Waits, numbers: Ids) -> None:
    """Raise ValueError if one of these sends comes before a half of a swap whose addition it waits for."""
    edges = (waits.src, waits.need_starts, waits.need_ids), (waits.dst, waits.ready_starts, waits.ready_ids)
    for rank, edge_starts, edge_ids in edges:
        counts = np.diff(edge_starts)[numbers].astype(np.int64)
        ids = edge_ids[ranges(edge_starts[numbers].astype(np.int64), counts)]
        owners = np.repeat(numbers, counts)
        late = np.flatnonzero((waits.dst[ids] == rank[owners]) & (waits.partner[ids] >= owners))
        if len(late):
            number, other = int(owners[late[0]]), int(ids[late[0]])
            partner = waits.first + waits.partner[other]
            number, other = waits.first + number, waits.first + other
            raise ValueError(
                f"send {number} waits for send {other}, which is done only with the other half of its swap, "
                f"send {partner}; that must come before send {number}"
            )


def all_ordered_nearby(waits: Waits, numbers: Ids, pieces: Pieces, partner: Ids) -> bool:
    """Whether few steps back are enough to find every order that is needed.

    `numbers` are the ids of the sends that the pieces are of, and `partner` their swaps' other halves, or -1.
    """
    starts, events = in_time(pieces, partner)
    return bool(_all_nearby(waits, 2 * numbers[events // 2] + events % 2, starts))


def unordered(waits: Waits, numbers: Ids, hops: Hops, n_places: int) -> Unordered | None:
    """The first two accesses that need an order and have none; `numbers` are the ids of the hops' sends.

    Swaps must have been checked.  Raise ValueError for what is too much to look at.
    """
    if not len(hops.send):
        return None
    component = components(hops.source, hops.target, n_places)
    order = np.argsort(component, kind="stable")  # hops are sorted by send already
    component, send = component[order], hops.send[order]
    is_first = np.diff(component, prepend=-1) != 0
    starts = np.flatnonzero(is_first)
    most = int(np.add.reduceat(is_first | (np.diff(send, prepend=-1) != 0), starts, dtype=np.int64).max())
    if 2 * most * -(-2 * most // 64) * 8 > MAX_ORDER_NBYTES:
        raise ValueError(f"{most:,} sends of the same bytes are too many to check")
    ends = np.append(starts, len(order))
    first, second, place = _suspects(waits, numbers[send], hops.source[order], hops.target[order], ends, most)
    if not len(first):
        return None
    wrong = _first_unordered(waits, first, second)
    if wrong == len(first) or (wrong < 0 and len(first) == MAX_SUSPECTS):
        raise ValueError("its sends wait for each other in too many ways to check")
    return None if wrong < 0 else Unordered(int(first[wrong]), int(second[wrong]), int(place[wrong]))


@compiled
def _moment(waits: Any, event: int) -> int:
    """A number for each event that is larger than those of all events before it.

    That of a send's id will do, as sends wait only for lower ids; the additions of a swap come with the later
    of its two sends.
    """
    last: int = max(event // 2, waits.partner[event // 2])
    return 2 * last + 1 if event % 2 else event


@compiled
def _right_before(waits: Any, event: int, found: Any) -> int:
    """The events that come right before one, into `found`; returns how many."""
    send = event // 2
    if event % 2:
        found[0] = 2 * send
        partner, earlier = waits.partner[send], waits.before[send]
        if partner >= 0:
            found[1] = 2 * partner
            return 2
        if earlier >= 0 and waits.partner[earlier] < 0:
            found[1] = 2 * earlier + 1
            return 2
        return 1
    count = 0
    if waits.before[send] >= 0:
        found[0], count = 2 * waits.before[send], 1
    for place in range(waits.need_starts[send], waits.need_starts[send + 1]):
        other = waits.need_ids[place]
        found[count] = 2 * other + (waits.dst[other] == waits.src[send])
        count += 1
    for place in range(waits.ready_starts[send], waits.ready_starts[send + 1]):
        other = waits.ready_ids[place]
        found[count] = 2 * other + (waits.dst[other] == waits.dst[send])
        count += 1
    return count


@compiled
def _all_nearby(waits: Waits, events: Ids, starts: Ids) -> bool:
    """Whether every access to a place is found to come after all of the group before.

    The accesses to place i, by their moments, are `events[starts[i] : starts[i + 1]]`.
    """
    found = np.empty(waits.most, np.int64)
    queue = np.empty(NEARBY, np.int64)
    seen = np.full(2 * len(waits.src), -1, np.int64)  # the last search that came by each event
    wanted = np.full(2 * len(waits.src), -1, np.int64)  # the last search for it
    for place in range(len(starts) - 1):
        before = begin = starts[place]
        last_way = _READS
        for at in range(starts[place], starts[place + 1]):
            way = _way(waits, events[at])
            if way != last_way or way == _REPLACES:
                before, begin = begin, at
            last_way = way
            if begin > before and not _is_nearby(
                waits, events[at], events[before:begin], at, found, queue, seen, wanted
            ):
                return False
    return True


@compiled
def _is_nearby(
    waits: Any, event: int, group: Any, search: int, found: Any, queue: Any, seen: Any, wanted: Any
) -> bool:
    """Whether all of a group are found among those that come before an event at the same rank.

    Which come before it through other ranks alone is not looked at: these soon are all there are.
    """
    for other in group:
        wanted[other] = search
    rank, moment = _rank_of(waits, event), _moment(waits, group[0])
    n_left, n_queued, done = len(group), 1, 0
    queue[0] = event
    while done < n_queued:
        event = queue[done]
        done += 1
        for place in range(_right_before(waits, event, found)):
            other = found[place]
            is_here = _rank_of(waits, other) == rank or other == event - 1  # as `ready` is of the receiver
            if not is_here or seen[other] == search or _moment(waits, other) < moment:
                continue
            seen[other] = search
            if wanted[other] == search:
                n_left -= 1
                if not n_left:
                    return True
            if n_queued < NEARBY:
                queue[n_queued] = other
                n_queued += 1
    return False


@compiled
def _rank_of(waits: Any, event: int) -> int:
    """Where it happens."""
    return int(waits.dst[event // 2] if event % 2 else waits.src[event // 2])


@compiled
def _way(waits: Any, event: int) -> int:
    return _READS if event % 2 == 0 else _ADDS if waits.reduce[event // 2] else _REPLACES


@compiled
def _suspects(
    waits: Waits, hop_send: Ids, source: Ids, target: Ids, starts: Ids, most: int
) -> tuple[Ids, Ids, Ids]:
    """The pairs of accesses that their component gives no order: earlier events, later events, places.

    Hops are sorted by component, then send; `starts` is where components begin, and the end; a component has
    at most `most` sends.
    """
    suspects = np.empty((MAX_SUSPECTS, 3), np.int64)
    n_suspects = 0
    local = np.full(len(waits.src), -1, np.int64)  # the position of a send in its component
    sends = np.empty(most, np.int64)
    found = np.empty(waits.most, np.int64)
    last = np.full(len(waits.has_swaps), -1, np.int64)  # the component's last send in each slot
    earlier = np.full(len(waits.src), -1, np.int64)  # the component's send before in the same slot
    ancestors = np.zeros((2 * most, (2 * most + 63) // 64), np.uint64)
    for component in range(len(starts) - 1):
        begin, end = starts[component], starts[component + 1]
        n_sends = 0
        for hop in range(begin, end):
            if local[hop_send[hop]] < 0:
                local[hop_send[hop]] = n_sends
                sends[n_sends] = hop_send[hop]
                n_sends += 1
        for number in range(n_sends):
            slot = waits.slot[sends[number]]
            earlier[sends[number]], last[slot] = last[slot], sends[number]
        _fill_ancestors(waits, sends[:n_sends], local, last, earlier, ancestors, found)
        events, places = _accesses(waits, hop_send[begin:end], source[begin:end], target[begin:end])
        n_suspects = _compare_groups(waits, events, places, local, ancestors, suspects, n_suspects)
        for number in range(n_sends):
            local[sends[number]] = last[waits.slot[sends[number]]] = -1
    first, second, place = suspects[:n_suspects, 0], suspects[:n_suspects, 1], suspects[:n_suspects, 2]
    return first.copy(), second.copy(), place.copy()


@compiled
def _in_component(waits: Any, event: int, local: Any, last: Any, earlier: Any) -> int:
    """The event itself if it is the component's, else the last one of its slot before it that is; -1: none.

    A slot's events come in the order of its sends, but for additions of swaps, which are held back.
    """
    send, is_write = event // 2, event % 2
    if local[send] >= 0:
        return event
    if is_write and waits.has_swaps[waits.slot[send]]:
        return -1
    other = last[waits.slot[send]]
    while other > send:
        other = earlier[other]
    return -1 if other < 0 else 2 * other + is_write


@compiled
def _fill_ancestors(
    waits: Any, sends: Any, local: Any, last: Any, earlier: Any, ancestors: Any, found: Any
) -> None:
    """For each event of a component, as bits, those before it and itself.

    Events have the numbers 2 * local[send] and one more here.  They are taken in the order of their moments,
    so that what comes right before one is complete already.
    """
    n_words = (2 * len(sends) + 63) // 64
    ancestors[: 2 * len(sends), :n_words] = 0
    for send in sends:
        for turn in range(3):
            event = 2 * send + turn
            if turn == 1 and waits.partner[send] > send:
                break  # the additions of a swap follow its second read
            if turn == 2:
                if waits.partner[send] < 0:
                    break
                event = 2 * waits.partner[send] + 1
            mine = 2 * local[event // 2] + event % 2
            for place in range(_right_before(waits, event, found)):
                other = _in_component(waits, found[place], local, last, earlier)
                if other >= 0:
                    theirs = 2 * local[other // 2] + other % 2
                    for word in range(n_words):
                        ancestors[mine, word] |= ancestors[theirs, word]
            ancestors[mine, mine // 64] |= _ONE << np.uint64(mine % 64)


@compiled
def _accesses(waits: Any, hop_send: Any, source: Any, target: Any) -> Any:
    """The events of some hops and the places they touch: place after place, at each by their moments."""
    events = np.empty(2 * len(hop_send), np.int64)
    places = np.empty(2 * len(hop_send), np.int64)
    moments = np.empty(2 * len(hop_send), np.int64)
    for hop in range(len(hop_send)):
        events[2 * hop], events[2 * hop + 1] = 2 * hop_send[hop], 2 * hop_send[hop] + 1
        places[2 * hop], places[2 * hop + 1] = source[hop], target[hop]
        moments[2 * hop] = _moment(waits, events[2 * hop])
        moments[2 * hop + 1] = _moment(waits, events[2 * hop + 1])
    span = moments.max() - moments.min() + 1
    order = np.argsort((places - places.min()) * span + moments - moments.min())
    return events[order], places[order]


@compiled
def _compare_groups(
    waits: Any, events: Any, places: Any, local: Any, ancestors: Any, suspects: Any, n_suspects: int
) -> int:
    """Compare each access of a component with the group before its own; returns how many suspects there are.

    The group before is `events[before:begin]`, the access's own begins at `begin`.
    """
    before, begin = 0, 0
    last_way = _READS
    for at in range(len(events)):
        event = events[at]
        way = _way(waits, event)
        if at == 0 or places[at] != places[at - 1]:
            before, begin = at, at
        elif way != last_way or way == _REPLACES:
            before, begin = begin, at
        last_way = way
        n_suspects = _look_back(
            events[before:begin], event, places[at], local, ancestors, suspects, n_suspects
        )
    return n_suspects


@compiled
def _look_back(
    others: Any, event: int, place: int, local: Any, ancestors: Any, suspects: Any, n_suspects: int
) -> int:
    """Add those of `others` that are not among the ancestors of an event, while there is room."""
    mine = 2 * local[event // 2] + event % 2
    for other in others:
        theirs = 2 * local[other // 2] + other % 2
        if not (ancestors[mine, theirs // 64] >> np.uint64(theirs % 64)) & _ONE and n_suspects < MAX_SUSPECTS:
            suspects[n_suspects] = other, event, place
            n_suspects += 1
    return n_suspects


@compiled
def _first_unordered(waits: Waits, first: Ids, second: Ids) -> int:
    """The first pair that no sends give an order, from the second event back to the first; -1: none.

    The number of pairs if that is not known after MAX_STEPS_BACK.
    """
    seen = np.full(2 * len(waits.src), -1, np.int64)
    stack = np.empty(2 * len(waits.src) + 1, np.int64)
    found = np.empty(waits.most, np.int64)
    n_steps = 0
    for pair in range(len(first)):
        moment = _moment(waits, first[pair])
        stack[0], n_stack, is_before = second[pair], 1, False
        while n_stack and not is_before:
            n_stack -= 1
            event = stack[n_stack]
            for place in range(_right_before(waits, event, found)):
                other = found[place]
                is_before |= other == first[pair]
                if _moment(waits, other) >= moment and seen[other] != pair:
                    seen[other] = pair
                    stack[n_stack] = other
                    n_stack += 1
                n_steps += 1
        if not is_before:
            return pair
        if n_steps > MAX_STEPS_BACK:
            return len(first)
    return -1

"""Pushes to a parameter server that switches can add up, so that the server receives one sum."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradwire.traces.circles import peeled
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.workload import Item, Message, check_no_circle

Unit = tuple[int, ...]
"""Ids of items that make one operation: of one item, or of the pushes of one sum."""


@dataclass(frozen=True, slots=True)
class Summed:
    """The operations in an order in which none comes before what it waits for.

    `notes` tells how many pushes to each server stay messages, and why; `n_sums` counts the units of several.
    """

    units: tuple[Unit, ...]
    notes: tuple[str, ...]

    @property
    def n_sums(self) -> int:
        return sum(len(unit) > 1 for unit in self.units)


def summed_pushes(items: Sequence[Item], chosen: Mapping[int, Item]) -> Summed:
    """Put together the pushes of all workers to one server that belong together; all else stays alone.

    They are, in one iteration, the k-th push of each worker to that server among those of the same size, of
    whole float32 elements.  A server that goes on after one of them does not wait for the sum: only where
    something of it comes after all of them do they belong together (`items` has the whole workload, `chosen`
    by their ids those that are to be sent).  What would wait for itself then is taken apart again.
    """
    matched = _matched(chosen)
    waited = _waited_for(items, matched)
    sums = [unit for unit in matched if unit in waited]
    while True:
        units = sorted((*sums, *_alone(chosen, sums)), key=max)
        order, stuck = _ordered(units, after_of(chosen, units), ready_after(chosen, units))
        if not stuck:
            break
        if stuck.isdisjoint(sums):
            check_no_circle(chosen)
        sums = [unit for unit in sums if unit not in stuck]
    return Summed(tuple(order), tuple(_notes(chosen, matched, waited, sums)))


def first_come_servers(items: Sequence[Item]) -> tuple[int, ...]:
    """The servers of several workers that answer each worker's push by itself, in ascending order.

    The order of their answers is that in which pushes happened to come.  Those with a lock are left out, as
    their order is decided again when the job is sent again (traces.schedules.locks).
    """
    matched = _matched(dict(enumerate(items)))
    pushes = [items[unit[0]] for unit in set(matched) - _waited_for(items, matched)]
    return tuple(
        sorted({push.dst for push in pushes if isinstance(push, Message) and push.lock_until is None})
    )


def after_of(chosen: Mapping[int, Item], units: Sequence[Unit]) -> dict[tuple[int, int], tuple[int, ...]]:
    """For each item's start, as (item, rank), the positions of the units that it waits for.

    A server's answers name what had arrived when they began.  One that names some pushes of a sum and not all
    did not wait for it.
    """
    position = {number: place for place, unit in enumerate(units) for number in unit}
    found = {}
    for number, item in chosen.items():
        for start in item.begins:
            named = set(start.after)
            places = dict.fromkeys(position[other] for other in start.after if other in position)
            found[number, start.rank] = tuple(
                place for place in places if _waits(chosen, start.rank, units[place], named)
            )
    return found


def ready_after(chosen: Mapping[int, Item], units: Sequence[Unit]) -> list[tuple[int, ...]]:
    """For each unit the positions of those that its destination completes before it is prepared for it.

    What switches add up comes when it comes.
    """
    position = {number: place for place, unit in enumerate(units) for number in unit}
    found: list[tuple[int, ...]] = []
    for unit in units:
        item = chosen[unit[0]]
        ready = item.ready if len(unit) == 1 and isinstance(item, Message) else None
        named = set(ready.after) if ready else set()
        places = sorted({position[other] for other in named if other in position})
        found.append(
            tuple(place for place in places if ready and _waits(chosen, ready.rank, units[place], named))
        )
    return found


def _waits(chosen: Mapping[int, Item], rank: int, unit: Unit, named: set[int]) -> bool:
    """Whether what names these items waits for a unit; a server that names some pushes of a sum did not."""
    item = chosen[unit[0]]
    is_server = len(unit) > 1 and isinstance(item, Message) and item.dst == rank
    return not is_server or named.issuperset(unit)


def _pushes(chosen: Mapping[int, Item]) -> dict[int, Message]:
    return {n: item for n, item in chosen.items() if isinstance(item, Message) and item.role == "push"}


def _matched(chosen: Mapping[int, Item]) -> list[Unit]:
    """By size and order alone; each has one push of every worker of its server."""
    pushes = _pushes(chosen)
    workers: defaultdict[int, set[int]] = defaultdict(set)
    queues: defaultdict[tuple[int, int, int], defaultdict[int, list[int]]]
    queues = defaultdict(lambda: defaultdict(list))
    for number, push in pushes.items():
        workers[push.dst].add(push.src)
        if push.nbytes and push.nbytes % ELEMENT_NBYTES == 0:
            queues[push.dst, push.iteration, push.nbytes][push.src].append(number)
    return [
        unit
        for (server, _, _), queue in queues.items()
        if len(queue) == len(workers[server]) > 1
        for unit in zip(*(queue[worker] for worker in sorted(queue)), strict=False)
    ]


def _waited_for(items: Sequence[Item], matched: Iterable[Unit]) -> set[Unit]:
    """Those of which all are in before something begins at the server, or which nothing there waits for.

    None of a server that mostly goes on after some of them: what looks like a sum there is chance.
    """
    unit_of = {number: unit for unit in matched for number in unit}
    servers = {unit: item.dst for unit in unit_of.values() if isinstance(item := items[unit[0]], Message)}
    some, whole = set(), set()
    for item in items:
        for start in item.begins:
            named = {unit_of[other] for other in start.after if other in unit_of}
            here = {unit for unit in named if servers[unit] == start.rank}
            some |= here
            whole |= {unit for unit in here if set(unit).issubset(start.after)}
    named_at = Counter(servers[unit] for unit in some)
    whole_at = Counter(servers[unit] for unit in whole)
    waiting = {server for server in servers.values() if 2 * whole_at[server] >= named_at[server]}
    return {unit for unit in servers if servers[unit] in waiting and (unit in whole or unit not in some)}


def _alone(chosen: Mapping[int, Item], sums: Iterable[Unit]) -> list[Unit]:
    together = {number for unit in sums for number in unit}
    return [(number,) for number in chosen if number not in together]


def _ordered(
    units: Sequence[Unit],
    after: Mapping[tuple[int, int], tuple[int, ...]],
    ready: Sequence[tuple[int, ...]],
) -> tuple[list[Unit], set[Unit]]:
    """The units, as early as may be; and those that lie on or between circles of waiting."""
    place_of = {number: place for place, unit in enumerate(units) for number in unit}
    before = [set(places) for places in ready]
    for (number, _), places in after.items():
        before[place_of[number]].update(places)
    behind: list[set[int]] = [set() for _ in units]
    for place, others in enumerate(before):
        for other in others:
            behind[other].add(place)
    order = peeled(before)
    back = set(peeled(behind))
    stuck = set(range(len(units))) - set(order) - back
    return [units[place] for place in order], {units[place] for place in stuck}


def _notes(
    chosen: Mapping[int, Item], matched: Iterable[Unit], waited: set[Unit], sums: Iterable[Unit]
) -> Iterable[str]:
    """One line for each server and reason."""
    together = {number for unit in sums for number in unit}
    alike = {number: unit for unit in matched for number in unit}
    pairs = Counter(dst for _, dst in {(push.src, push.dst) for push in _pushes(chosen).values()})
    left: defaultdict[tuple[int, str], int] = defaultdict(int)
    for number, push in _pushes(chosen).items():
        if number in together:
            continue
        if pairs[push.dst] < 2:
            why = "only one worker pushes to it"
        elif push.nbytes % ELEMENT_NBYTES:
            why = f"their sizes are not a whole number of {ELEMENT_NBYTES}-byte elements"
        elif number not in alike:
            why = "not every worker has one of their size in their iteration"
        elif alike[number] not in waited:
            why = "it goes on before all workers have pushed (asynchronous)"
        else:
            why = "a worker's push waits for what another's made possible"
        left[push.dst, why] += 1
    total = Counter(push.dst for push in _pushes(chosen).values())
    for (server, why), count in sorted(left.items()):
        yield f"{count:,} of {total[server]:,} pushes to rank {server} stay messages: {why}"

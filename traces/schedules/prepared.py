"""When destinations are prepared for messages, and the order of items in which none waits for a later one."""

from collections.abc import Iterator, Mapping, Sequence

from traces.schedules.pushes import Unit, peeled, waits
from traces.schedules.schedule import Gate
from traces.workload import Item, Message


def in_order(chosen: Mapping[int, Item]) -> list[int]:
    """The ids, as near their own order as what they wait for allows: at their source, and for messages at
    their destination.  What would wait for itself by the latter is put where the former allows.
    """
    numbers = list(chosen)
    place_of = {number: place for place, number in enumerate(numbers)}
    before = [
        {place_of[other] for other in (*_begin_after(item), *_ready_after(item)) if other in place_of}
        for item in chosen.values()
    ]
    following: list[set[int]] = [set() for _ in numbers]
    for place, others in enumerate(before):
        for other in others:
            following[other].add(place)
    order = peeled(before, following)
    placed = set(order)
    return [
        numbers[place] for place in (*order, *(place for place in place_of.values() if place not in placed))
    ]


def prepared(chosen: Mapping[int, Item], units: Sequence[Unit]) -> Iterator[Gate]:
    """The gates of messages at their destinations; what switches add up comes when it comes."""
    place = {number: op for op, unit in enumerate(units) for number in unit}
    for op, unit in enumerate(units):
        item = chosen[unit[0]]
        if len(unit) > 1 or not isinstance(item, Message) or item.ready is None:
            continue
        named = set(item.ready.after)
        before = sorted({place[other] for other in named if place.get(other, op) < op})
        after = [other for other in before if waits(chosen, item.dst, units[other], named)]
        if after:
            yield Gate(op, item.dst, tuple(after))


def _begin_after(item: Item) -> set[int]:
    return {other for start in item.begins for other in start.after}


def _ready_after(item: Item) -> tuple[int, ...]:
    return item.ready.after if isinstance(item, Message) and item.ready else ()

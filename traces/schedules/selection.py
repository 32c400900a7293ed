"""A selection of a workload's items: their order, and what each waits for.

Items wait through those that are left out for what came before them.

The set-up of most jobs is left out of a replay unless it is asked for, but it also happens between
iterations: DDP agrees on its buckets again after the first one.  The second must wait for the first all the
same.  Here is also the order of items in which none waits for a later one.
"""

from collections.abc import Mapping, Sequence

from gradwire.traces.circles import peeled
from gradwire.traces.workload import (
    Compute,
    Item,
    Message,
    Start,
    Workload,
    awaited,
    check_no_circle,
    has_lock,
)

Ids = frozenset[int]
MAX_HELD = 1 << 20  # ids, some 60 bytes each; jobs hold a few for each item, a hostile file their square


def training_iterations(workload: Workload) -> tuple[int, ...]:
    """All iterations but the set-up, numbered -1; that alone if there is nothing else."""
    return tuple(number for number in workload.iterations if number >= 0) or workload.iterations


def _training(workload: Workload) -> dict[int, Item]:
    """The items of all iterations but the set-up.

    Where servers take one worker at a time (the workload has a lock), also what these wait for in the set-up:
    as servers hand out parameters it is decided in which order workers come, and how far one server is ahead
    of another, and that does not change.
    """
    items, numbers = workload.items, training_iterations(workload)
    wanted = {number for number, item in enumerate(items) if item.iteration in numbers}
    new = wanted if has_lock(items) else set()
    while new:
        new = {other for number in new for other in awaited(items[number])} - wanted
        wanted |= new
    return {number: items[number] for number in sorted(wanted)}


def chosen_items(workload: Workload, iterations: tuple[int, ...] | None) -> dict[int, Item]:
    """The items of these iterations by their id in the workload, in its order, without those between.

    Those of the training if none are given.  Raise ValueError where nothing would be sent.
    """
    if not workload.items:
        raise ValueError("there is nothing to send: the workload has no items")
    if iterations is None:
        chosen = _training(workload)
    else:
        chosen = {number: item for number, item in enumerate(workload.items) if item.iteration in iterations}
    if all(isinstance(item, Compute) for item in chosen.values()):
        have = ", ".join(map(str, workload.iterations))
        asked = ", ".join(map(str, training_iterations(workload) if iterations is None else iterations))
        raise ValueError(f"nothing to send in iteration {asked}; the workload has iterations: {have}")
    return bridged(workload.items, chosen)


def bridged(items: Sequence[Item], chosen: Mapping[int, Item]) -> dict[int, Item]:
    """The chosen items and the computing of the set-up between them; none waits for what is left out.

    An item that is left out stands for what it waited for itself at that rank (a message at its receiver: for
    what its sender waited for).  But what a rank computed for the set-up, after a chosen item and before
    another chosen one, is kept.  What it computed for an iteration that is left out goes with that iteration.
    Raise ValueError if what is left out stands for more than MAX_HELD in all.
    """
    if len(chosen) == max(chosen, default=-1) + 1:  # nothing before the last one is left out
        return dict(chosen)
    n_held = 0
    kept: dict[int, Item] = {}
    left_out: dict[int, dict[int, Ids]] = {}  # by item and rank: the kept ones that it stands for
    behind: dict[int, Ids] = {}  # of what is computed: the operations before it, which other ranks know
    for number, item in enumerate(items[: max(chosen, default=-1) + 1]):
        after = {start.rank: _behind(start, left_out, behind) for start in item.begins}
        is_between = isinstance(item, Compute) and item.iteration < 0 and bool(after[item.rank])
        if isinstance(item, Compute):
            behind[number] = _operations(after[item.rank], behind)
        if number in chosen or is_between:
            kept[number] = _moved(item, after)
        if number not in chosen:
            left_out[number] = (
                {item.rank: Ids([number])} if isinstance(item, Compute) and is_between else after
            )
        held = (*left_out.get(number, {}).values(), behind.get(number, Ids()))
        n_held += sum(map(len, held))
        if n_held > MAX_HELD:
            raise ValueError(
                f"the items left out up to item {number} wait for more than {MAX_HELD:,} others; "
                "choose a larger --bucket-size if you gave one, or more iterations"
            )
    return _wanted(kept, chosen)


def _behind(
    start: Start,
    left_out: Mapping[int, Mapping[int, Ids]],
    behind: Mapping[int, Ids],
) -> Ids:
    """The kept items that `start` waits for."""
    found: set[int] = set()
    for other in start.after:
        ranks = left_out.get(other)
        if ranks is None:
            found.add(other)
        elif start.rank in ranks:
            found |= ranks[start.rank]
        else:
            found |= {one for ids in ranks.values() for one in _operations(ids, behind)}
    return Ids(found)


def _operations(ids: Ids, behind: Mapping[int, Ids]) -> Ids:
    """Those of them that are operations, and those before what is computed."""
    return Ids().union(*(behind.get(one, Ids([one])) for one in ids))


def _moved(item: Item, after: Mapping[int, Ids]) -> Item:
    starts = tuple(
        start.model_copy(update={"after": tuple(sorted(after[start.rank]))}) for start in item.begins
    )
    is_one = isinstance(item, Message | Compute)
    return item.model_copy(update={"start": starts[0]} if is_one else {"starts": starts})


def _wanted(kept: Mapping[int, Item], chosen: Mapping[int, Item]) -> dict[int, Item]:
    """Without the computing that leads to no chosen item."""
    wanted = set(chosen)
    for number in sorted(kept, reverse=True):
        if number in wanted:
            wanted |= {other for start in kept[number].begins for other in start.after}
    return {number: item for number, item in kept.items() if number in wanted}


def in_order(chosen: Mapping[int, Item]) -> list[int]:
    """The ids, as near their own order as what they wait for allows: at their source, and for messages at
    their destination.  Raise ValueError if some wait for each other.
    """
    numbers = list(chosen)
    place_of = {number: place for place, number in enumerate(numbers)}
    before = [{place_of[other] for other in awaited(item) if other in place_of} for item in chosen.values()]
    order = peeled(before)
    if len(order) < len(numbers):
        check_no_circle(chosen)
    return [numbers[place] for place in order]

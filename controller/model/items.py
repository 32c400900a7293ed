"""A schedule for the fluid model: what is moved, over what, and what waits for what but for gates."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller.model.addedup import as_tcp_nbytes, trees_of
from emu.aggregation.tree import Tree
from emu.plan import Flow, flow_numbers
from traces.schedules.schedule import Group, Schedule

NO_FLOW = -1


class Item(NamedTuple):
    """A send, or an aggregation, between `ranks`; `nbytes` are as TCP's payload would count."""

    op: int
    ranks: tuple[int, ...]
    nbytes: float
    flow: int


@dataclass(frozen=True, slots=True)
class Order:
    """By number of the item: for how many others it waits, which wait until it has ended, and which until it
    has become ready.  `parts` are the items of an operation at a rank.
    """

    waits: list[int]
    released_by: list[list[int]]
    follows: list[list[int]]
    parts: dict[tuple[int, int], list[int]]


def items_of(flows: Sequence[Flow], schedule: Schedule, trees: Sequence[Tree], eta: float) -> list[Item]:
    """The sends, then the aggregations; the flows of trees are numbered after those of connections.

    Without trees aggregations are empty.
    """
    number = flow_numbers(flows)
    items = [
        Item(send.op, (send.src, send.dst), float(send.nbytes), number[send.src, send.dst])
        for send in schedule.sends
    ]
    of_trees = trees_of(schedule, trees)
    for i, each in enumerate(schedule.aggregations):
        nbytes, flow = 0.0, NO_FLOW
        if of_trees:
            group, tree = of_trees[i]
            nbytes, flow = as_tcp_nbytes(schedule.ops[each.op].nbytes, tree, eta), len(flows) + group
        items.append(Item(each.op, each.members, nbytes, flow))
    return items


def ordered(schedule: Schedule, items: Sequence[Item]) -> Order:
    """Sends wait for what they need, and for the aggregation of their operation at either of their ranks;
    an aggregation follows the one before in its group.
    """
    n_sends = len(schedule.sends)
    parts: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        for rank in item.ranks:
            parts[item.op, rank].append(number)
    waits = [0] * len(items)
    released_by: list[list[int]] = [[] for _ in items]
    follows: list[list[int]] = [[] for _ in items]
    for number, send in enumerate(schedule.sends):
        for other in (*send.needs, *send.ready):
            released_by[other].append(number)
            waits[number] += 1
    last: dict[Group, int] = {}
    for number, each in enumerate(schedule.aggregations, start=n_sends):
        for held in (held for rank in each.members for held in parts[each.op, rank] if held < n_sends):
            released_by[number].append(held)
            waits[held] += 1
        group = (each.givers, each.takers)
        if group in last:
            follows[last[group]].append(number)
            waits[number] += 1
        last[group] = number
    return Order(waits, released_by, follows, dict(parts))

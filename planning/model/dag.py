"""A schedule as the models read it: what is moved, over what, and what waits for what (gates excepted)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.planning.model.addedup import as_tcp_nbytes, trees_of
from gradwire.planning.plan import Flow, flow_numbers
from gradwire.planning.trees.tree import Tree
from gradwire.traces.schedules.schedule import ReduceGroup, Schedule

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

    With notices, that the receiver of send i is ready is number `len(items) + i`: it waits for what the
    receiver waits for, and the send, besides what its source waits for, for the notice.  With rendezvous the
    notice waits for the source's as well.
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
    sends = schedule.sends
    pairs = list(zip(sends.src.tolist(), sends.dst.tolist(), strict=True))
    columns = zip(sends.op.tolist(), pairs, sends.nbytes.astype(float).tolist(), strict=True)
    items = [Item(op, pair, nbytes, number[pair]) for op, pair, nbytes in columns]
    of_trees = trees_of(schedule, trees)
    for i, each in enumerate(schedule.aggregations):
        nbytes, flow = 0.0, NO_FLOW
        if of_trees:
            group, tree = of_trees[i]
            nbytes, flow = as_tcp_nbytes(schedule.ops[each.op].nbytes, tree, eta), len(flows) + group
        items.append(Item(each.op, each.members, nbytes, flow))
    return items


def waiting_at(number: int, rank: int, items: Sequence[Item], n_sends: int, notices: bool) -> int:
    """What of an item waits at a rank: of a send at its receiver, with notices, the notice."""
    return len(items) + number if notices and number < n_sends and items[number].ranks[1] == rank else number


def ordered(schedule: Schedule, items: Sequence[Item], notices: bool = False) -> Order:
    """Sends wait for what they need, and for the aggregation of their operation at either of their ranks;
    an aggregation follows the one before in its group.
    """
    n_sends = len(schedule.sends)
    first_notice = len(items) if notices else 0
    n_numbers = len(items) + (n_sends if notices else 0)
    parts: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        for rank in item.ranks:
            parts[item.op, rank].append(number)
    waits = [int(notices and number < n_sends) for number in range(n_numbers)]
    released_by: list[list[int]] = [[] for _ in range(n_numbers)]
    follows: list[list[int]] = [[] for _ in range(n_numbers)]
    sends = schedule.sends
    for edges, first in ((sends.needs, 0), (sends.ready, first_notice)):
        for number, other in zip(edges.owners.tolist(), edges.ids.tolist(), strict=True):
            released_by[other].append(first + number)
            waits[first + number] += 1
    if notices and any(op.rendezvous for op in schedule.ops):
        for number, op in enumerate(sends.op.tolist(), start=first_notice):
            waits[number] += schedule.ops[op].rendezvous
    last: dict[ReduceGroup, int] = {}
    for number, each in enumerate(schedule.aggregations, start=n_sends):
        for rank in each.members:
            for part in parts[each.op, rank]:
                if part < n_sends:
                    held = waiting_at(part, rank, items, n_sends, notices)
                    released_by[number].append(held)
                    waits[held] += 1
        group = (each.givers, each.takers)
        if group in last:
            follows[last[group]].append(number)
            waits[number] += 1
        last[group] = number
    return Order(waits, released_by, follows, dict(parts))

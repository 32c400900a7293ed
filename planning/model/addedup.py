"""The load of an aggregation: the same elements on every link of its tree, both ways, at one rate."""

from collections.abc import Sequence

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.trees.tree import Tree, down_links, up_links
from gradwire.traces.schedules.schedule import Schedule


def tree_links(fabric: Fabric, tree: Tree) -> tuple[Egress, ...]:
    """The links that carry elements: up below every giver, down above every taker."""
    return (*up_links(fabric, tree), *down_links(tree))


def as_tcp_nbytes(nbytes: int, tree: Tree, eta: float) -> float:
    """How many bytes of TCP's payload, which is `eta` of a link, take as long as this many of elements."""
    return nbytes * eta / tree.efficiency


def trees_of(schedule: Schedule, trees: Sequence[Tree]) -> list[tuple[int, Tree]]:
    """Of each aggregation the number of its reduce group and its tree; none at all if no tree is given.

    Raise ValueError for more or fewer trees than the schedule has reduce groups.
    """
    if not trees:
        return []
    if len(trees) != len(schedule.groups):
        raise ValueError(f"got {len(trees)} trees for {len(schedule.groups)} reduce groups")
    number = {group: i for i, group in enumerate(schedule.groups)}
    groups = [number[each.givers, each.takers] for each in schedule.aggregations]
    return [(group, trees[group]) for group in groups]

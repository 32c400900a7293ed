"""Trees around cables that are down: those that use one of them get other switches, the rest stay."""

from collections.abc import Collection, Sequence

from controller.aggregation.grants import group_nbytes
from controller.aggregation.room import Request, Room, empty_room, nodes_with_room
from controller.aggregation.shape import NoTree
from controller.reroute import without
from emu.aggregation.tree import Tree, rebuilt
from emu.fabrics.fabric import Egress, Fabric, Link
from emu.plan import Plan


def moved(plan: Plan, trees: Sequence[Tree], down: Collection[Link]) -> tuple[Tree | None, ...]:
    """What becomes of `trees`, which serve the groups of the plan's schedule, when these cables are down.

    A tree that takes none of them stays, the same object.  Another gets new nodes and the next epoch, and
    keeps its slots; None: no tree is left for it.  For a host's cable no tree makes up: who has lost his is
    waited for, as far as that goes.
    """
    inner = frozenset(down).intersection(plan.fabric.inner_links)
    nbytes = group_nbytes(plan.schedule)
    elements = max((tree.elements for tree in trees), default=0)
    room = empty_room(plan.fabric, plan.switch_slots, elements)
    made: dict[int, Tree | None] = {}
    for number, tree in enumerate(trees):
        if inner.isdisjoint(_cables(plan.fabric, tree)) and room.most_slots(tree.nodes) >= tree.slots:
            room.take(plan.fabric, tree, nbytes[tree.givers, tree.takers])
            made[number] = tree
    left = without(plan.fabric, inner) if len(made) < len(trees) else plan.fabric
    for number, tree in enumerate(trees):
        if number not in made:
            made[number] = _moved(plan, left, tree, room, nbytes[tree.givers, tree.takers])
    return tuple(made[number] for number in range(len(trees)))


def _moved(plan: Plan, left: Fabric, tree: Tree, room: Room, nbytes: int) -> Tree | None:
    givers, takers = (tuple(plan.placement[rank] for rank in ranks) for ranks in (tree.givers, tree.takers))
    try:
        nodes = nodes_with_room(left, Request(givers, takers, nbytes, tree.slots), room, plan.seed)
    except NoTree:
        return None
    made = rebuilt(tree, nodes)
    room.take(left, made, nbytes)
    return made


def _cables(fabric: Fabric, tree: Tree) -> set[Link]:
    """The cables between switches that the tree uses."""
    return {
        fabric.cables[Egress(node.switch, node.parent_port)]
        for node in tree.nodes
        if node.parent_port is not None
    }

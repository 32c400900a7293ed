"""Moves trees off cables that are down: those trees get other switches, the rest stay."""

from collections.abc import Collection, Iterator, Sequence

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.routing.reroute import without
from gradwire.planning.trees.capacity import Ground, Room, SlotRequest, empty_room, nodes_with_room
from gradwire.planning.trees.shape import NoTree, Parted
from gradwire.planning.trees.tree import Tree, rebuilt


def moved(ground: Ground, trees: Sequence[Tree], down: Collection[Link]) -> tuple[Tree | NoTree, ...]:
    """What becomes of these trees when these cables are down.

    A tree that takes none of them and finds its slots stays, the same object.  Another gets new nodes and the
    next epoch, and keeps its slots; NoTree says why none is left for it.  No tree makes up
    for a host's own cable: its tree stays, and the others wait for that host.
    """
    fabric = ground.fabric
    inner = frozenset(down).intersection(fabric.inner_links)
    elements = max((tree.elements for tree in trees), default=0)
    room = empty_room(fabric, ground.switch_slots, elements)
    outcomes: dict[int, Tree | NoTree] = {}
    for number, tree in enumerate(trees):
        if inner.isdisjoint(cables(fabric, tree)) and room.most_slots(tree.nodes) >= tree.slots:
            room.take(fabric, tree, ground.nbytes[tree.givers, tree.takers])
            outcomes[number] = tree
    left = without(fabric, inner) if len(outcomes) < len(trees) else fabric
    for number, tree in enumerate(trees):
        if number not in outcomes:
            outcomes[number] = _moved(ground, left, tree, room)
    return tuple(outcomes[number] for number in range(len(trees)))


def lacks_room(outcome: Tree | NoTree) -> bool:
    """Whether a tree is missing although cables join its hosts, so that these could do without it."""
    return isinstance(outcome, NoTree) and not isinstance(outcome, Parted)


def cables(fabric: Fabric, tree: Tree) -> Iterator[Link]:
    """The cables between switches that the tree uses."""
    for node in tree.nodes:
        if node.parent_port is not None:
            yield fabric.cables[Egress(node.switch, node.parent_port)]


def _moved(ground: Ground, left: Fabric, tree: Tree, room: Room) -> Tree | NoTree:
    givers, takers = (tuple(ground.placement[rank] for rank in ranks) for ranks in (tree.givers, tree.takers))
    nbytes = ground.nbytes[tree.givers, tree.takers]
    try:
        nodes = nodes_with_room(left, SlotRequest(givers, takers, nbytes, tree.slots), room, ground.seed)
    except NoTree as error:
        return error
    successor = rebuilt(tree, nodes)
    room.take(left, successor, nbytes)
    return successor

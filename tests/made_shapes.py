"""The tree of hosts that all give and take, for the tests of how trees are chosen."""

from collections.abc import Collection

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.trees.shape import Load, tree_nodes
from gradwire.planning.trees.tree import Node

NBYTES = 1 << 20


def nodes_for(
    fabric: Fabric, hosts: Collection[str], load: Load | None = None, seed: int = 0
) -> tuple[Node, ...]:
    return tree_nodes(fabric, hosts, hosts, load or Load(), NBYTES, seed)

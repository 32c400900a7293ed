"""The tree of hosts that all give and take, for the tests of how trees are chosen."""

from collections.abc import Collection

from planning.fabrics.fabric import Fabric
from planning.trees.shape import Load, tree_nodes
from planning.trees.tree import Node

NBYTES = 1 << 20


def nodes_for(
    fabric: Fabric, hosts: Collection[str], load: Load | None = None, seed: int = 0
) -> tuple[Node, ...]:
    return tree_nodes(fabric, hosts, hosts, load or Load(), NBYTES, seed)

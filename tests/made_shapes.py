"""The tree of hosts that all give and take, for the tests of how trees are chosen."""

from collections.abc import Collection

from controller.aggregation.shape import Load, tree_nodes
from emu.aggregation.tree import Node
from emu.fabrics.fabric import Fabric

NBYTES = 1 << 20


def nodes_for(
    fabric: Fabric, hosts: Collection[str], load: Load | None = None, seed: int = 0
) -> tuple[Node, ...]:
    return tree_nodes(fabric, hosts, hosts, load or Load(), NBYTES, seed)

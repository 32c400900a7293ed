"""Connected components of undirected graphs."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> list[list[Node]]:
    """The nodes that edges join, directly or through others, as lists.

    Each component is in the order of `nodes`, and they are in the order of their first.  Edges to what is not
    among the nodes count for nothing.
    """
    above = {node: node for node in nodes}

    def root(node: Node) -> Node:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for a, b in edges:
        if a in above and b in above:
            above[root(a)] = root(b)
    found: defaultdict[Node, list[Node]] = defaultdict(list)
    for node in above:
        found[root(node)].append(node)
    return list(found.values())

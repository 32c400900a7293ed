"""Whose contributions a switch still lacks, from what it says of its children."""

from collections.abc import Mapping

from planning.fabrics.fabric import Egress
from planning.trees.tree import Node, Tree

RanksBehind = Mapping[Egress, tuple[int, ...]]
"""The ranks that contribute through each (switch, port) of a tree's children."""


def missing(
    tree: Tree, behind: RanksBehind, rank: int, levels: int, seen: int
) -> tuple[tuple[int, ...], ...]:
    """The ranks behind each of the children that are not in `seen`, ascending.

    The bitmap is of the switch `levels` above the one at which `rank`'s host is.  Empty if there is no such
    switch in the tree.
    """
    above = path(tree, behind, rank)
    if levels >= len(above):
        return ()
    node = above[levels]
    absent = [child for index, child in enumerate(node.children) if not seen >> index & 1]
    return tuple(behind[Egress(node.switch, child.port)] for child in absent)


def ranks_of(absent: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """All ranks behind what `missing` has found, ascending."""
    return tuple(sorted(rank for behind_one in absent for rank in behind_one))


def complaint(absent: tuple[tuple[int, ...], ...]) -> str:
    """What `missing` has found, in words.

    A child that is a switch may have the contributions of all its ranks but one.
    """
    if not absent:
        return "a switch says that nothing is missing"
    ranks = ranks_of(absent)
    some = "some of " if any(len(behind_one) > 1 for behind_one in absent) else ""
    return f"nothing comes from {some}rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def path(tree: Tree, behind: RanksBehind, rank: int) -> tuple[Node, ...]:
    """The switches that the rank's contributions go through, the root last."""
    return tuple(
        node
        for node in reversed(tree.nodes)  # each stands after its parent
        if any(rank in behind[Egress(node.switch, child.port)] for child in node.children)
    )

"""Which aggregation trees follow on which when cables fail and return.  Pure.

A tree that has moved has a larger epoch, for ever: the workers of a run outlive its repeats, and follow only
to larger ones.  A tree for which there is no way left stands here without nodes, so that its epoch is not
forgotten.
"""

from collections.abc import Collection, Sequence

from planning.fabrics.fabric import Link
from planning.plan import Plan
from planning.trees.ground import ground_of
from planning.trees.moving import lacks_room, moved
from planning.trees.shape import NoTree
from planning.trees.tree import Node, Tree, rebuilt

Trees = tuple[Tree, ...]


def led_around(first: Plan, now: Sequence[Tree], down: Collection[Link]) -> Trees:
    """The trees that follow on `now` when these cables are down.

    One that is whole stays, though it be on another way than in the plan: to go back would interrupt a sum.
    One that a cable in `down` is part of, and one without nodes, gets new ones if there is a way.  Where that
    leaves no room for some tree, all go where they would be had these cables failed at once, if that leaves
    fewer without: there is room for all of a plan's trees then, if these are failures of the plan
    (`planning.trees.foreseen`).
    """
    ground = ground_of(first)
    pairs = zip(first.trees, now, strict=True)
    found = moved(ground, [tree if tree.nodes else rebuilt(tree, home.nodes) for home, tree in pairs], down)
    if any(map(lacks_room, found)):
        found = min(found, moved(ground, first.trees, down), key=lambda made: sum(map(lacks_room, made)))
    return tuple(
        _on(tree, () if isinstance(made, NoTree) else made.nodes)
        for tree, made in zip(now, found, strict=True)
    )


def led_back(first: Plan, now: Sequence[Tree]) -> Trees:
    """The trees that follow on `now` when all is as in the plan."""
    return tuple(_on(tree, home.nodes) for home, tree in zip(first.trees, now, strict=True))


def _on(tree: Tree, nodes: tuple[Node, ...]) -> Tree:
    return tree if tree.nodes == nodes else rebuilt(tree, nodes)

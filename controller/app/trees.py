"""Which aggregation trees follow on which when cables fail and return.  Pure.

A tree that has moved has a larger epoch, for ever: the workers of a run outlive its repeats, and follow only
to larger ones.  A tree for which there is no way left stands here without nodes, so that its epoch is not
forgotten.
"""

from collections.abc import Collection, Sequence

from controller.aggregation.moving import moved
from emu.aggregation.tree import Node, Tree, rebuilt
from emu.fabrics.fabric import Link
from emu.plan import Plan

Trees = tuple[Tree, ...]


def led_around(first: Plan, now: Sequence[Tree], down: Collection[Link]) -> Trees:
    """The trees that follow on `now` when these cables are down.

    One that is whole stays, though it be on another way than in the plan: to go back would interrupt a sum.
    One that a cable in `down` is part of, and one without nodes, gets new ones if there is a way.
    """
    pairs = zip(first.trees, now, strict=True)
    asked = [tree if tree.nodes else rebuilt(tree, home.nodes) for home, tree in pairs]
    found = moved(first, asked, down)
    return tuple(_on(tree, ()) if new is None else new for tree, new in zip(now, found, strict=True))


def led_back(first: Plan, now: Sequence[Tree]) -> Trees:
    """The trees that follow on `now` when all is as in the plan."""
    return tuple(_on(tree, home.nodes) for home, tree in zip(first.trees, now, strict=True))


def _on(tree: Tree, nodes: tuple[Node, ...]) -> Tree:
    return tree if tree.nodes == nodes else rebuilt(tree, nodes)

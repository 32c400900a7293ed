"""What the switches should have installed, given the cables that are down: routes, rules, aggregation trees.

A tree that has moved has a larger epoch, for ever: the workers of a run outlive its repeats, and follow only
to larger ones.  A tree whose hosts no cables join any more stays here without nodes, so that its
epoch is not forgotten.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.openflow.hostrules import host_rules
from gradwire.planning.openflow.rules import Guarded, Rules, guarded_rules
from gradwire.planning.plan import ADAPTIVE, Plan
from gradwire.planning.routing.adapt import rebalanced
from gradwire.planning.routing.reroute import rerouted
from gradwire.planning.trees.capacity import ground_of
from gradwire.planning.trees.relocation import lacks_room, moved
from gradwire.planning.trees.shape import NoTree
from gradwire.planning.trees.tree import Node, Tree, rebuilt

Trees = tuple[Tree, ...]


@dataclass(frozen=True)
class Intent:
    """`plan` has the paths in force; without one, `routes` lead from every host to every other.

    `says` is one line about what the rules can and cannot do.  `guarded` is how `plan` is carried out.
    The plan's trees are those in force, too, and without nodes where none is left.
    """

    fabric: Fabric
    routes: str
    rules: Rules
    says: str
    guarded: Guarded | None = None

    @property
    def plan(self) -> Plan | None:
        return self.guarded.plan if self.guarded else None

    @property
    def has_trees(self) -> bool:
        return self.plan is not None and bool(self.plan.trees)

    @property
    def is_adaptive(self) -> bool:
        return self.plan is not None and self.routes == ADAPTIVE


def plan_intent(plan: Plan, down: Collection[Link] = (), before: Guarded | None = None) -> Intent:
    """The intent for a plan with the cables in `down` unusable; what is good in `before` stays, see
    `guarded_rules`.
    """
    guarded = guarded_rules(plan, down, before)
    return Intent(plan.fabric, plan.routes, guarded.rules, guarded.guard.says, guarded)


def fabric_intent(fabric: Fabric, routes: str, down: Collection[Link] = ()) -> Intent:
    """Raise Refused where the policy makes no sense, ValueError if there is none of that name."""
    return Intent(fabric, routes, host_rules(fabric, routes, down), f"routes {routes} between all hosts")


def rerouted_intent(first: Intent, now: Intent, down: Collection[Link]) -> Intent:
    """What follows on `now` when these cables are down; without any, the `first` again but for its trees."""
    if first.plan is None or now.plan is None:
        return fabric_intent(first.fabric, first.routes, down) if down else first
    trees = led_around(first.plan, now.plan.trees, down)
    if not down:
        return _with_trees(first, trees)
    moved_by_load = now.plan if first.is_adaptive else first.plan
    return plan_intent(replace(rerouted(moved_by_load, down), trees=trees), down, first.guarded)


def home_intent(first: Intent, now: Intent) -> Intent:
    """What follows on `now` when all is well again: `first`, whose trees have larger epochs if they moved."""
    if first.plan is None or now.plan is None:
        return first
    return _with_trees(first, led_back(first.plan, now.plan.trees))


def _with_trees(intent: Intent, trees: Trees) -> Intent:
    assert intent.plan is not None
    return (
        intent
        if trees == intent.plan.trees
        else plan_intent(replace(intent.plan, trees=trees), (), intent.guarded)
    )


def rebalanced_intent(
    now: Intent, rate_bps: Mapping[int, float], link_bps: Mapping[Egress, float], down: Collection[Link]
) -> Intent:
    """`now` with large flows spread as `planning.routing.adapt` says; itself if all is well."""
    if now.plan is None:
        return now
    plan = rebalanced(now.plan, rate_bps, link_bps, down)
    return now if plan is now.plan else plan_intent(plan, down, now.guarded)


def moves(before: Intent, after: Intent) -> list[dict[str, object]]:
    """The flows that take another path, as the control log records them."""
    if before.plan is None or after.plan is None or before.plan is after.plan:
        return []
    return [
        {
            "src": old.src,
            "dst": old.dst,
            "from": [end.node for end in old.path[1:]],
            "to": [end.node for end in new.path[1:]],
        }
        for old, new in zip(before.plan.flows, after.plan.flows, strict=True)
        if old.path != new.path
    ]


def tree_moves(before: Intent, after: Intent) -> list[dict[str, object]]:
    """The trees that other switches make, by their roots, as the control log records them.

    None in place of a root: there was no tree, or no cables are left for one.
    """
    if before.plan is None or after.plan is None:
        return []
    return [
        {"job": new.job, "epoch": new.epoch, "from": _root(old), "to": _root(new)}
        for old, new in zip(before.plan.trees, after.plan.trees, strict=True)
        if old.epoch != new.epoch
    ]


def _root(tree: Tree) -> str | None:
    return tree.nodes[0].switch if tree.nodes else None


def led_around(first: Plan, now: Sequence[Tree], down: Collection[Link]) -> Trees:
    """The trees that follow on `now` when these cables are down.

    One that is whole stays, though it be on another way than in the plan: to go back would interrupt a sum.
    One that a cable in `down` is part of, and one without nodes, gets new ones if there is a way.  Where that
    leaves no room for some tree, all go where they would be had these cables failed at once, if that leaves
    fewer without: there is room for all of a plan's trees then, if these are failures of the plan
    (`planning.trees.grants`).
    """
    ground = ground_of(first)
    pairs = zip(first.trees, now, strict=True)
    outcomes = moved(
        ground, [tree if tree.nodes else rebuilt(tree, home.nodes) for home, tree in pairs], down
    )
    if any(map(lacks_room, outcomes)):
        outcomes = min(
            outcomes, moved(ground, first.trees, down), key=lambda trees: sum(map(lacks_room, trees))
        )
    return tuple(
        _on(tree, () if isinstance(outcome, NoTree) else outcome.nodes)
        for tree, outcome in zip(now, outcomes, strict=True)
    )


def led_back(first: Plan, now: Sequence[Tree]) -> Trees:
    """The trees that follow on `now` when all is as in the plan."""
    return tuple(_on(tree, home.nodes) for home, tree in zip(first.trees, now, strict=True))


def _on(tree: Tree, nodes: tuple[Node, ...]) -> Tree:
    return tree if tree.nodes == nodes else rebuilt(tree, nodes)

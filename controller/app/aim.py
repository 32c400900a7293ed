"""What the switches should have at a moment: routes and rules, with some cables down.  Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller.adapt import rebalanced
from controller.reroute import rerouted
from controller.tables.hostrules import host_rules
from controller.tables.rules import Guarded, Rules, guarded_rules
from emu.fabrics.fabric import Egress, Fabric, Link
from emu.plan import ADAPTIVE, Plan


@dataclass(frozen=True)
class Aim:
    """`plan` has the paths in force; without one, `routes` lead from every host to every other.

    `says` is one line about what the rules can and cannot do.  `guarded` is how `plan` is carried out.
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
    def is_adaptive(self) -> bool:
        return self.plan is not None and self.routes == ADAPTIVE


def plan_aim(plan: Plan, down: Collection[Link] = (), before: Guarded | None = None) -> Aim:
    """What is good in `before` stays, see `guarded_rules`."""
    made = guarded_rules(plan, down, before)
    return Aim(plan.fabric, plan.routes, made.rules, made.guard.says, made)


def fabric_aim(fabric: Fabric, routes: str, down: Collection[Link] = ()) -> Aim:
    """Raise Refused where the policy makes no sense, ValueError if there is none of that name."""
    return Aim(fabric, routes, host_rules(fabric, routes, down), f"routes {routes} between all hosts")


def rerouted_aim(first: Aim, now: Aim, down: Collection[Link]) -> Aim:
    """What follows on `now` when these cables are down; without any, the `first` again."""
    if not down:
        return first
    if first.plan is None:
        return fabric_aim(first.fabric, first.routes, down)
    moved_by_load = now.plan if first.is_adaptive else None
    return plan_aim(rerouted(moved_by_load or first.plan, down), down, first.guarded)


def rebalanced_aim(
    now: Aim, rate_bps: Mapping[int, float], link_bps: Mapping[Egress, float], down: Collection[Link]
) -> Aim:
    """`now` with large flows spread as `controller.adapt` says; itself if all is well."""
    if now.plan is None:
        return now
    plan = rebalanced(now.plan, rate_bps, link_bps, down)
    return now if plan is now.plan else plan_aim(plan, down, now.guarded)


def moves(before: Aim, after: Aim) -> list[dict[str, object]]:
    """The flows that take another path, as the control log tells of them."""
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

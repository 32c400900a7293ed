"""Trees that failures in the plan would leave without a place, found before anything runs.

What the controller does about a failure depends on what it did before, and on which of two failures it hears
of first.  But where a tree finds no room it tries once more as if all cables that are down had failed at once
(`controller.trees`), and that depends on nothing else: so it is enough to look at that, for each set of
cables that are down together.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from planning.fabrics.fabric import Egress, Fabric, Link
from planning.failures import Failure, cable_name, outages
from planning.trees.ground import Ground
from planning.trees.moving import cables, lacks_room, moved
from planning.trees.tree import Tree

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """From `due_ns` on the cables at these ports are down, and no others."""

    due_ns: int
    ports: tuple[Egress, ...]
    down: frozenset[Link]


def stages(fabric: Fabric, failures: Sequence[Failure]) -> Iterator[Stage]:
    """Each set of cables that are down together, once; those of hosts are left out."""
    inner = frozenset(fabric.inner_links)
    seen: set[Collection[Link]] = {frozenset()}
    for due_ns, failed in outages(fabric, failures):
        ports = tuple(port for port in failed if fabric.cables[port] in inner)
        down = frozenset(fabric.cables[port] for port in ports)
        if down not in seen:
            seen.add(down)
            yield Stage(due_ns, ports, down)


def first_lost(ground: Ground, trees: Sequence[Tree], failing: Sequence[Stage]) -> tuple[Tree, str] | None:
    """The first tree for which there is no room at some stage although cables join its hosts, and why."""
    used = {cable for tree in trees for cable in cables(ground.fabric, tree)}
    for stage in failing:
        if not used.isdisjoint(stage.down):
            for tree, made in zip(trees, moved(ground, trees, stage.down), strict=True):
                if lacks_room(made):
                    return tree, f"{_told(ground.fabric, stage)} {made}"
    return None


def _told(fabric: Fabric, stage: Stage) -> str:
    names = [cable_name(fabric, port) for port in stage.ports]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"at {stage.due_ns / 1e9:g} s, with {', '.join(names[:_SHOWN])}{more} down,"

"""Routing policies by name: the built-in ones, and those of installed packages.

A package adds one with an entry point in the group `gradwire.routing`; it cannot replace a built-in.
"""

from collections.abc import Sequence
from functools import wraps
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol

from gradwire.traces import plugins
from gradwire.traces.plugins import entry_points
from gradwire.traces.units import not_one_of

if TYPE_CHECKING:
    from gradwire.planning.fabrics.fabric import Fabric
    from gradwire.planning.plan import Flow
    from gradwire.planning.routing.shortest import Path
    from gradwire.traces.schedules.schedule import Schedule

GROUP = "gradwire.routing"


class Policy(Protocol):
    """The path of every flow, in the order of `flows`; pure, so the seed is all it may draw from.

    `placement[r]` is the host of rank r.  Raise `planning.refused.Refused` where the policy makes no sense.
    """

    def __call__(
        self,
        fabric: "Fabric",
        placement: Sequence[str],
        flows: Sequence["Flow"],
        schedule: "Schedule",
        seed: int,
        /,
    ) -> Sequence["Path"]: ...


BUILT_IN = {  # loaded when they are asked for, as a package's are: help pages need only the names
    "ecmp": "gradwire.planning.routing.oblivious:ecmp",
    "dmodk": "gradwire.planning.routing.oblivious:dmodk",
    "direct": "gradwire.planning.routing.oblivious:direct",
    "planned": "gradwire.planning.routing.planned:planned",
    "adaptive": "gradwire.planning.routing.oblivious:ecmp",  # to begin with
}


def policy_names() -> tuple[str, ...]:
    """The names of all policies: the built-in ones, then those of installed packages by name."""
    offered = {entry.name for entry in entry_points(group=GROUP)}
    return (*BUILT_IN, *sorted(offered - set(BUILT_IN)))


def policy(name: str) -> Policy:
    """The policy of this name.  Raise ValueError if neither gradwire nor an installed package offers it."""
    loaded: Policy
    if name in BUILT_IN:
        loaded = resolve_name(BUILT_IN[name])
        return loaded
    for entry in entry_points(group=GROUP, name=name):
        return _checked(entry, plugins.loaded_with(entry, plugins.CALL))
    raise ValueError(not_one_of("routing policy", name, policy_names()))


def _checked(entry: EntryPoint, made: Policy) -> Policy:
    """The policy of a package.  It raises BadPlugin where that gives no paths."""
    from gradwire.planning.fabrics.fabric import Egress  # here, as help pages need only the names

    @wraps(made)
    def paths(
        fabric: "Fabric",
        placement: Sequence[str],
        flows: Sequence["Flow"],
        schedule: "Schedule",
        seed: int,
        /,
    ) -> Sequence["Path"]:
        given: object = made(fabric, placement, flows, schedule, seed)
        whose = plugins.plugin_name(entry)
        if not isinstance(given, Sequence):
            raise plugins.BadPlugin(f"{whose} gives a {type(given).__name__}, not the path of each flow")
        for path in given:
            if not isinstance(path, Sequence) or not all(isinstance(hop, Egress) for hop in path):
                raise plugins.BadPlugin(f"{whose} gives {str(path)[:40]!r}, which is not a path of Egress")
        return given

    return paths

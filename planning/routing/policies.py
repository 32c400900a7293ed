"""Routing policies by name: the built-in ones, and those of installed packages.

A package adds one with an entry point in the group `gradwire.routing`; it cannot replace a built-in.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol

from gradwire.traces import plugins
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
        loaded = plugins.loaded(entry)
        return loaded
    raise ValueError(not_one_of("routing policy", name, policy_names()))

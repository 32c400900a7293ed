"""The names of collective algorithms, for help pages and options, which need none of their code.

A package adds one with an entry point in the group `gradwire.collective`; it cannot replace a built-in.
"""

from importlib.metadata import EntryPoint
from itertools import chain
from typing import Literal

from gradwire.traces.plugins import entry_points
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.units import one_of

GROUP = "gradwire.collective"

AS_CAPTURED = "as-captured"  # as it was recognised in the capture
INA, INA_LEAF = "ina", "ina:leaf"  # switches add: those of a tree over all ranks, or each rank's first alone
PAIRWISE, BRUCK = "pairwise", "bruck"  # of alltoalls
TREES = (
    "tree:flat",
    "tree:binomial",
    "tree:in-order-binomial",
    "tree:chain",
    "tree:binary",
    "tree:chains",
)
OF_HOSTS = (  # allreduces, the same on every network
    "ring",
    "halving-doubling",
    "halving-doubling:far",
    "recursive-doubling",
    "all-pairs",
    *TREES,
)
OF_NETWORK = (  # made for one
    "double-binary-tree",
    "hierarchical",
    "hierarchical:grid",
    "2d-ring",
    "multitree",
    "multitree:reference",
)
FAMILIES = {  # of allreduces: what names begin with, up to the colon, and their form
    "ps": "ps:LAYOUT",
    "topk": "topk:RHO",
    "gtopk": "gtopk:RHO",
    "hitopk": "hitopk:RHO",
}
# Of these a rank sends to few others, whatever the number of ranks; of the rest, perhaps to each.  Those of
# families count before they make.
FEW_SENDS = (
    AS_CAPTURED,
    INA,
    INA_LEAF,
    "halving-doubling",
    "halving-doubling:far",
    "recursive-doubling",
    *(tree for tree in TREES if tree != "tree:chains"),
    "double-binary-tree",
    "2d-ring",
)
FAMILIES_OF_FEW = ("ps", "gtopk", "hitopk")
ALGORITHMS = (AS_CAPTURED, *OF_HOSTS, *OF_NETWORK, *FAMILIES.values(), INA, INA_LEAF)  # for allreduces
Pace = Literal["early", "step"]  # when ranks go on (traces.schedules.pacing)
EARLY: Pace = "early"
STEP: Pace = "step"
PACES = (EARLY, STEP)
_HALVES = (
    "ring",
    "halving-doubling",
    "halving-doubling:far",
    "all-pairs",
    "hierarchical",
    "hierarchical:grid",
    "multitree",
    "multitree:reference",
)
BY_COLLECTIVE: dict[CollectiveKind, tuple[str, ...]] = {
    "allreduce": ALGORITHMS,
    "reducescatter": _HALVES,
    "allgather": _HALVES,
    "broadcast": TREES,
    "reduce": TREES,
    "alltoall": (PAIRWISE, BRUCK, "hierarchical"),
}
DEFAULTS: dict[CollectiveKind, str] = {
    "allreduce": "ring",
    "reducescatter": "ring",
    "allgather": "ring",
    "broadcast": "tree:binomial",
    "reduce": "tree:binomial",
    "alltoall": PAIRWISE,
}
CHOICES = tuple(dict.fromkeys(chain.from_iterable(BY_COLLECTIVE.values())))


def parse_pace(text: str) -> Pace:
    """A pace by its name."""
    return one_of("pace", text, PACES)


def family_of(name: str) -> tuple[str, str] | None:
    """The family of such a name and its values, what comes after the colon; None for other names."""
    family, _, values = name.partition(":")
    return (family, values) if family in FAMILIES else None


def replaces_servers(name: str) -> bool:
    """Whether it does as allreduces what captured parameter servers did; a package's algorithm does."""
    return name not in (AS_CAPTURED, INA, INA_LEAF) and (name in ALGORITHMS or name not in CHOICES)


def of_packages() -> dict[str, EntryPoint]:
    """The algorithms of installed packages by name, in the order of their names."""
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: offered[name] for name in sorted(offered) if name not in CHOICES and not family_of(name)}


def algorithm_names(collective: CollectiveKind = "allreduce") -> tuple[str, ...]:
    """The names of the algorithms for a collective: gradwire's, then those of installed packages."""
    return (*BY_COLLECTIVE[collective], *of_packages())

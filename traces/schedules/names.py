"""The names of collective algorithms, for help pages and options, which need none of their code.

A package adds one with an entry point in the group `gradwire.collective`; it cannot replace a built-in.
"""

from importlib.metadata import EntryPoint, entry_points
from itertools import chain

GROUP = "gradwire.collective"

AS_CAPTURED = "as-captured"  # as it was recognised in the capture
INA, INA_LEAF = "ina", "ina:leaf"  # switches add: those of a tree over all ranks, or each rank's first alone
PAIRWISE = "pairwise"  # of an alltoall: every rank's chunks to all others, all posted at once
OF_HOSTS = (  # the same on every network
    "ring",
    "halving-doubling",
    "recursive-doubling",
    "all-pairs",
    "tree:flat",
    "tree:binomial",
    "tree:in-order-binomial",
    "tree:chain",
    "tree:binary",
    "tree:chains",
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
_COMPRESSED = ("topk", "gtopk", "hitopk")  # families whose result is not the sum
ALGORITHMS = (AS_CAPTURED, *OF_HOSTS, *OF_NETWORK, *FAMILIES.values(), INA, INA_LEAF)
EARLY, STEP = PACES = "early", "step"  # when ranks go on (traces.schedules.pacing)
BY_COLLECTIVE: dict[str, tuple[str, ...]] = {"allreduce": ALGORITHMS, "alltoall": (PAIRWISE,)}


def is_compressed(algorithm: str) -> bool:
    """Whether only the largest numbers are sent, and added up."""
    return algorithm.partition(":")[0] in _COMPRESSED


def of_packages() -> dict[str, EntryPoint]:
    """The algorithms of installed packages by name, in the order of their names."""
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    built_in = set(chain.from_iterable(BY_COLLECTIVE.values()))
    return {
        name: offered[name]
        for name in sorted(offered)
        if name not in built_in and name.partition(":")[0] not in FAMILIES
    }


def algorithm_names(collective: str = "allreduce") -> tuple[str, ...]:
    """The names of the algorithms for a collective: gradwire's, then those of installed packages.

    Of a family, whose names have values in them, it is the form.
    """
    return (*BY_COLLECTIVE[collective], *of_packages())

"""The names of collective algorithms, for help pages and options, which need none of their code.

A package adds one with an entry point in the group `gradwire.collective`; it cannot replace a built-in.
"""

from importlib.metadata import EntryPoint, entry_points

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
ALGORITHMS = (AS_CAPTURED, *OF_HOSTS, *OF_NETWORK, INA, INA_LEAF)


def of_packages() -> dict[str, EntryPoint]:
    """The algorithms of installed packages by name, in the order of their names."""
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: offered[name] for name in sorted(offered) if name not in (*ALGORITHMS, PAIRWISE)}


def algorithm_names() -> tuple[str, ...]:
    """The names of all algorithms for allreduces: gradwire's, then those of installed packages."""
    return (*ALGORITHMS, *of_packages())

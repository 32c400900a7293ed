"""The names of collective algorithms, for help pages and options, which need none of their code."""

AS_CAPTURED = "as-captured"  # as it was recognised in the capture
INA, INA_LEAF = "ina", "ina:leaf"  # switches add: those of a tree over all ranks, or each rank's first alone
PAIRWISE = "pairwise"  # of an alltoall: every rank's chunks to all others, all posted at once
OF_HOSTS = (
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
OF_NETWORK = (
    "double-binary-tree",
    "hierarchical",
    "hierarchical:grid",
    "2d-ring",
    "multitree",
    "multitree:reference",
)
ALGORITHMS = (AS_CAPTURED, *OF_HOSTS, *OF_NETWORK, INA, INA_LEAF)

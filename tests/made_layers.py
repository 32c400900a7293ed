"""The example for priorities in MLSL (Intel, arXiv 1801.08030): of two layers the first is needed first.

Backward of layer 2, then of layer 1, a unit each; an allreduce of each layer's gradients by halving and
doubling on 4 ranks, of 10 units (in steps of 10/3, 5/3, 5/3, 10/3) and of 1 unit; forward of layer 1 after
its allreduce, then of layer 2, a unit each.
"""

from gradwire.traces.making.layerwise import layerwise
from gradwire.traces.workload import Workload

N_RANKS = 4
UNIT_MS = 100
LARGE, SMALL = 4, 9  # ids of the allreduces


def two_layers(unit_nbytes: int) -> Workload:
    """`unit_nbytes` is the buffer of the small allreduce."""
    nbytes = (unit_nbytes, 10 * unit_nbytes)
    return layerwise(nbytes, n_ranks=N_RANKS, compute_ns=4 * UNIT_MS * 1_000_000, n_iterations=1)

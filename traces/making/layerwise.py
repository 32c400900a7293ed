"""Data-parallel training layer by layer: each layer's allreduce runs while the next layer is computed.

The backward pass computes gradients from the last layer to the first, the next forward pass needs them from
the first to the last (Intel MLSL: Sridharan et al., On scale-out deep learning training for cloud and HPC,
arXiv 1801.08030).  So the gradients that are ready last are needed first.
"""

from collections.abc import Sequence

from gradwire.traces.making.items import Ids, Items
from gradwire.traces.taxonomy import SYNCHRONOUS_DATA_PARALLEL
from gradwire.traces.workload import Workload


def layerwise(nbytes: Sequence[int], *, n_ranks: int, compute_ns: int, n_iterations: int) -> Workload:
    """`nbytes` are of the gradients of each layer, the first one first.

    An iteration is a backward pass, and the forward pass after it, in which each layer waits for its
    allreduce; every layer computes an equal part of `compute_ns`, as long backward as forward.
    """
    n_layers = len(nbytes)
    items = Items(n_ranks, n_iterations * n_layers * (2 * n_ranks + 1))
    pass_ns = compute_ns // (2 * n_layers)
    before: list[Ids] = [()] * n_ranks
    for number in range(n_iterations):
        reduced: dict[int, int] = {}
        for layer in reversed(range(n_layers)):
            before = [(items.add_compute(rank, pass_ns, before[rank], number),) for rank in range(n_ranks)]
            reduced[layer] = items.add_collective("allreduce", nbytes[layer], before, number)
        for layer in range(n_layers):
            before = [
                (items.add_compute(rank, pass_ns, (*before[rank], reduced[layer]), number),)
                for rank in range(n_ranks)
            ]
    return items.workload(f"{n_layers} layers", SYNCHRONOUS_DATA_PARALLEL)

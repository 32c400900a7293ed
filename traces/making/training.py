"""Training with one collective per iteration: all ranks compute, and then take part in it."""

from gradwire.traces.making.items import Ids, Items
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.taxonomy import SYNCHRONOUS_DATA_PARALLEL, Taxonomy
from gradwire.traces.workload import Workload


def training(
    kind: CollectiveKind, *, n_ranks: int, nbytes: int, compute_ns: int, n_iterations: int
) -> Workload:
    """`nbytes` are counted as in traces.schedules.kinds.  With a `compute_ns` of 0 nothing is computed: one
    collective follows the other.
    """
    items = Items(n_ranks, n_iterations * (n_ranks + 1))
    after: list[Ids] = [()] * n_ranks
    for number in range(n_iterations):
        if compute_ns:
            after = [(items.add_compute(rank, compute_ns, after[rank], number),) for rank in range(n_ranks)]
        after = [(items.add_collective(kind, nbytes, after, number),)] * n_ranks
    return items.workload(
        f"{kind} after {kind}", SYNCHRONOUS_DATA_PARALLEL if kind == "allreduce" else Taxonomy()
    )

"""A recommendation model (DLRM): embedding tables on some ranks each, a dense network on all.

ZionEX and Neo: Mudigere et al., Software-hardware co-design for fast and scalable training of deep learning
recommendation models, ISCA 2022 (arXiv 2104.05158), with its tables whole on a rank.  In each iteration ranks
exchange how many indices follow, the indices, what the tables give for them, the gradients of that, and add
up the gradients of the dense network.
"""

from collections.abc import Callable, Sequence

from gradwire.traces.making.items import Ids, Items
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import Workload

COUNT_NBYTES = 8  # of a table: how many indices follow, int64
INDEX_NBYTES = 8  # int64
VALUE_NBYTES = 4  # float32
NbytesOf = Callable[[int, int], int]
"""What a rank sends to another, by their numbers."""


def dlrm(
    tables: Sequence[int],
    *,
    n_ranks: int,
    batch: int,
    width: int,
    pooling: int,
    nbytes: int,
    compute_ns: int,
    n_iterations: int,
) -> Workload:
    """Iterations of a job whose ranks have `tables` by turns, and `batch` samples each.

    A sample has `pooling` indices for each table, which gives `width` float32 for them together.  A rank
    computes forward for half of `compute_ns` when all values are there, then backward for the other half, and
    then sends the gradients of the values back; those of the dense network, `nbytes`, are added up meanwhile.
    An alltoall is a message from every rank to every other, all at once.  Raise ValueError for more numbers
    than ranks, and if no rank has a table.
    """
    items = Items(n_ranks, n_iterations * (4 * n_ranks * (n_ranks - 1) + 2 * n_ranks + 1))
    if len(tables) > n_ranks or not any(tables):
        raise ValueError(f"{len(tables)} numbers of tables for {n_ranks} ranks: give one for each, not all 0")
    of_rank = [tables[rank % len(tables)] for rank in range(n_ranks)]

    def counts(_: int, dst: int) -> int:
        return of_rank[dst] * COUNT_NBYTES

    def indices(_: int, dst: int) -> int:
        return of_rank[dst] * batch * pooling * INDEX_NBYTES

    def values(src: int, _: int) -> int:
        return of_rank[src] * batch * width * VALUE_NBYTES

    def gradients(_: int, dst: int) -> int:
        return values(dst, _)

    after: list[Ids] = [()] * n_ranks
    for number in range(n_iterations):
        for nbytes_of in (counts, indices, values):
            after = _add_alltoall(items, nbytes_of, after, number)
        for _ in ("forward", "backward"):
            after = [
                (items.add_compute(rank, compute_ns // 2, ids, number),) for rank, ids in enumerate(after)
            ]
        dense = items.add_allreduce(nbytes, after, number)
        returned = _add_alltoall(items, gradients, after, number)
        after = [(dense, *ids) for ids in returned]
    taxonomy = Taxonomy(
        parallelism="hybrid", optimisation="centralised", scheduling="synchronous", pattern="alltoall"
    )
    return items.workload(f"dlrm, {','.join(map(str, tables))} tables", taxonomy)


def _add_alltoall(items: Items, nbytes_of: NbytesOf, after: Sequence[Ids], iteration: int) -> list[Ids]:
    """What each rank has then sent and received; a message of no bytes is left out."""
    n_ranks = len(after)
    done: list[Ids] = [()] * n_ranks
    for shift in range(1, n_ranks):
        for src in range(n_ranks):
            dst = (src + shift) % n_ranks
            if nbytes := nbytes_of(src, dst):
                message = items.add_message(src, dst, nbytes, after[src], iteration)
                done[src] += (message,)
                done[dst] += (message,)
    return done

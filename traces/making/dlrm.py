"""A recommendation model (DLRM): embedding tables on some ranks each, a dense network on all.

ZionEX and Neo: Mudigere et al., Software-hardware co-design for fast and scalable training of deep learning
recommendation models, ISCA 2022 (arXiv 2104.05158), with its tables whole on a rank.  In each iteration ranks
exchange how many indices follow, the indices, what the tables give for them, the gradients of that, and add
up the gradients of the dense network.
"""

from collections.abc import Sequence

from gradwire.traces.making.items import Ids, Items
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import Workload

COUNT_NBYTES = 8  # of a table: how many indices follow, int64
INDEX_NBYTES = 8  # int64
VALUE_NBYTES = 4  # float32


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
    Raise ValueError for more numbers than ranks, and if no rank has a table.
    """
    items = Items(n_ranks, n_iterations * (5 + 2 * n_ranks))
    if len(tables) > n_ranks:
        raise ValueError(f"{len(tables)} numbers of tables for {n_ranks} ranks: give at most one for each")
    if not any(tables):
        raise ValueError("no rank has a table: give a number of tables above 0")
    of_rank = [tables[rank % len(tables)] for rank in range(n_ranks)]
    values = [n_tables * batch * width * VALUE_NBYTES for n_tables in of_rank]
    indices = [n_tables * batch * pooling * INDEX_NBYTES for n_tables in of_rank]
    counts = [n_tables * COUNT_NBYTES for n_tables in of_rank]
    after: list[Ids] = [()] * n_ranks
    for number in range(n_iterations):
        for each in (counts, indices):
            after = items.add_alltoall(_to_tables(each), after, number)
        after = items.add_alltoall(_from_tables(values), after, number)
        for _ in ("forward", "backward"):
            after = [
                (items.add_compute(rank, compute_ns // 2, ids, number),) for rank, ids in enumerate(after)
            ]
        dense = items.add_allreduce(nbytes, after, number)
        after = [(dense, *ids) for ids in items.add_alltoall(_to_tables(values), after, number)]
    taxonomy = Taxonomy(
        parallelism="hybrid", optimisation="centralised", scheduling="synchronous", pattern="alltoall"
    )
    return items.workload(f"dlrm, {','.join(map(str, tables))} tables", taxonomy)


def _to_tables(nbytes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """What each rank has for each, if every rank sends this many bytes to rank r."""
    return (tuple(nbytes),) * len(nbytes)


def _from_tables(nbytes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The same if rank r sends this many bytes to every rank."""
    return tuple((each,) * len(nbytes) for each in nbytes)

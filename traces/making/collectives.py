"""Jobs that are collectives alone, of one kind and without computing: what `bench` sends."""

from gradwire.traces.schedules.kinds import BlockSizes, CollectiveKind, uneven_nbytes
from gradwire.traces.workload import SCHEMA, Collective, Start, Workload


def made_collective(kind: CollectiveKind, n_ranks: int, nbytes: int, count: int = 1) -> Workload:
    """`count` collectives of `nbytes` (traces.schedules.kinds says of what), one after the other."""
    items = tuple(
        Collective(
            kind=kind,
            tag=number,
            nbytes=nbytes,
            iteration=number,
            starts=tuple(Start(rank=r, after=(number - 1,) if number else ()) for r in range(n_ranks)),
        )
        for number in range(count)
    )
    return Workload(schema=SCHEMA, framing="none", n_ranks=n_ranks, source="made", items=items)


def made_allreduce(n_ranks: int, nbytes: int, count: int = 1) -> Workload:
    """`made_collective` of the usual kind."""
    return made_collective("allreduce", n_ranks, nbytes, count)


def made_uneven_alltoall(sizes: BlockSizes) -> Workload:
    """An alltoall in which rank r has `sizes[r][d]` bytes for rank d."""
    item = Collective(kind="alltoall", tag=0, nbytes=uneven_nbytes(sizes), sizes=sizes)
    return Workload(schema=SCHEMA, framing="none", n_ranks=len(sizes), source="made", items=(item,))

"""The example for priorities in MLSL (Intel, arXiv 1801.08030): of two layers the first is needed first.

Backward of layer 2, then of layer 1, a unit each; an allreduce of each layer's gradients by halving and
doubling on 4 ranks, of 10 units (in steps of 10/3, 5/3, 5/3, 10/3) and of 1 unit; forward of layer 1 after
its allreduce, then of layer 2, a unit each.
"""

from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Start, Workload

N_RANKS = 4
UNIT_MS = 100
LARGE, SMALL = 4, 9  # ids of the allreduces


def two_layers(unit_nbytes: int) -> Workload:
    """`unit_nbytes` is the buffer of the small allreduce."""
    items: list[Item] = []
    backward_2 = _compute(items, [()] * N_RANKS)
    large = _allreduce(items, 10 * unit_nbytes, backward_2)
    backward_1 = _compute(items, backward_2)
    small = _allreduce(items, unit_nbytes, backward_1)
    forward_1 = _compute(items, [small] * N_RANKS)
    _compute(items, [(*mine, *large) for mine in forward_1])
    return Workload(schema=SCHEMA, framing="none", n_ranks=N_RANKS, source="two layers", items=tuple(items))


def _compute(items: list[Item], after: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """A unit on each rank; returns what it is of each."""
    first = len(items)
    items += (
        Compute(start=Start(rank=rank, after=mine), duration_ns=UNIT_MS * 1_000_000)
        for rank, mine in enumerate(after)
    )
    return [(first + rank,) for rank in range(N_RANKS)]


def _allreduce(items: list[Item], nbytes: int, after: list[tuple[int, ...]]) -> tuple[int, ...]:
    starts = tuple(Start(rank=rank, after=mine) for rank, mine in enumerate(after))
    number = len(items)
    items.append(
        Collective(kind="allreduce", tag=number, nbytes=nbytes, algorithm="halving-doubling", starts=starts)
    )
    return (number,)

"""Alltoalls: each rank has a block of its own for each other rank.

Blocks lie at one place in the buffer that is sent and at another in the one that is received: a send's own
offset is that at its source, and a `Move` adds the one at its destination.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.algorithms.steps import Steps, Transfer
from gradwire.traces.schedules.sends import Send


@dataclass(frozen=True, slots=True)
class Move:
    """A send whose bytes come to another place than they are from; ids are positions among the moves."""

    send: Send
    dst_offset: int


def pairwise_alltoall(nbytes: Sequence[Sequence[int]]) -> list[Move]:
    """In step s = 1 ... p-1 rank r sends to r+s and receives from r-s; `nbytes[r][d]` is what r has for d.

    A rank's send buffer has the blocks in the order of their destinations, its receive buffer in that of
    their sources; what a rank has for itself is copied there without a send.
    """
    n_ranks = len(nbytes)
    check_ranks("an alltoall", n_ranks)
    if any(len(row) != n_ranks or min(row) < 0 for row in nbytes):
        raise ValueError(
            f"an alltoall of {n_ranks} ranks needs {n_ranks} sizes of at least 0 for each of them"
        )
    at_source = [list(accumulate(row, initial=0)) for row in nbytes]
    at_destination = [list(accumulate(column, initial=0)) for column in zip(*nbytes, strict=True)]
    steps = Steps()
    for shift in range(1, n_ranks):
        pairs = [(src, (src + shift) % n_ranks) for src in range(n_ranks)]
        steps.step([Transfer(a, b, at_source[a][b], nbytes[a][b]) for a, b in pairs], reduce=False)
    return [Move(send, at_destination[send.dst][send.src]) for send in steps.made]


def pairwise_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = (p-1) alpha + (p-1)/p S beta, S = p blocks of one size.

    Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
    """
    return (p - 1) * (alpha + nbytes / p * beta)


def bruck_alltoall(n_ranks: int, nbytes_per_pair: int) -> list[Move]:
    """ceil(lg p) steps: in step k rank r sends the blocks `bruck_blocks`, packed together, to rank r + 2^k.

    Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
    IEEE TPDS 1997.  Block i is at first what rank r has for rank r+i, at the end what it has from rank r-i.
    Both offsets are in buffers that a step's blocks are packed into, ascending, and taken out of: what
    arrives replaces the blocks of these numbers when the rank's own send of the step has left.
    """
    check_ranks("an alltoall", n_ranks)
    steps = Steps()
    for step in range((n_ranks - 1).bit_length()):
        size = len(bruck_blocks(n_ranks, step)) * nbytes_per_pair
        steps.step(
            [Transfer(src, (src + (1 << step)) % n_ranks, 0, size) for src in range(n_ranks)], reduce=False
        )
    return [Move(send, dst_offset=0) for send in steps.made]


def bruck_blocks(n_ranks: int, step: int) -> tuple[int, ...]:
    """The numbers of the blocks that move in this step: those with bit `step` set."""
    return tuple(block for block in range(n_ranks) if block >> step & 1)


def bruck_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = lg p (alpha + S/2 beta), S = p blocks; of other p than powers of two the blocks that do move.

    Thakur, Rabenseifner, Gropp, IJHPCA 2005.
    """
    moved = [len(bruck_blocks(p, step)) for step in range((p - 1).bit_length())]
    return sum(alpha + blocks * nbytes / p * beta for blocks in moved)

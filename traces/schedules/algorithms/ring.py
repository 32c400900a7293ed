"""Rings: the textbook allreduce, and its halves as collectives of their own.

Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Edges, Sends

Chunk = tuple[int, int]
"""(offset, bytes)."""


def ring(n_ranks: int, nbytes: int) -> Sends:
    """Reduce-scatter round the ring, then all-gather: 2(p-1) steps.

    In step s, rank r sends chunk (r - s) mod p to rank r+1.  After p-1 steps rank r owns the full sum
    of chunk r+1, which is just what the same rule sends next, so the second half needs no formula of
    its own.
    """
    check_ranks("a ring", n_ranks)
    return _round(_chunks(chunk_starts(nbytes, n_ranks)), n_adding=n_ranks - 1, n_copying=n_ranks - 1)


def reduce_scatter(n_ranks: int, nbytes: int) -> Sends:
    """Rank r ends with the sum of chunk r: p-1 steps.  In step s it sends chunk r-s-1."""
    check_ranks("a ring", n_ranks)
    return scatter_round(_chunks(chunk_starts(nbytes, n_ranks)))


def all_gather(n_ranks: int, nbytes: int) -> Sends:
    """Rank r begins with chunk r of `nbytes` and ends with all: p-1 steps.  In step s it sends chunk r-s."""
    check_ranks("a ring", n_ranks)
    return gather_round(_chunks(piece_cuts(nbytes, n_ranks)))


def scatter_round(chunks: Sequence[Chunk]) -> Sends:
    """`reduce_scatter` of chunks that may lie anywhere, one for each rank."""
    return _round(chunks, n_adding=len(chunks) - 1, first=-1).with_bytes()


def gather_round(chunks: Sequence[Chunk]) -> Sends:
    """`all_gather` of chunks that may lie anywhere, one for each rank."""
    return _round(chunks, n_copying=len(chunks) - 1).with_bytes()


def _chunks(cut: Sequence[int]) -> list[Chunk]:
    return [(begin, end - begin) for begin, end in pairwise(cut)]


def _round(chunks: Sequence[Chunk], *, n_adding: int = 0, n_copying: int = 0, first: int = 0) -> Sends:
    """Steps in which every rank sends one chunk to the next rank: first those that add, then those that copy.

    Rank r begins with chunk r + `first`, and passes on in each step what came in the one before.
    """
    n_ranks, n_steps = len(chunks), n_adding + n_copying
    offsets, sizes = np.array(chunks, np.int64).T
    step = np.repeat(np.arange(n_steps, dtype=np.int32), n_ranks)
    src = np.tile(np.arange(n_ranks, dtype=np.int32), n_steps)
    chunk = (src + first - step) % n_ranks
    later = step[step > 0]
    return Sends(
        op=np.zeros(len(step), np.int32),
        src=src,
        dst=(src + 1) % np.int32(n_ranks),
        step=step,
        offset=offsets[chunk],
        nbytes=sizes[chunk],
        shift=np.zeros(len(step), np.int64),
        reduce=step < n_adding,
        needs=Edges.one(step > 0, (later - 1) * n_ranks + (src[step > 0] - 1) % n_ranks),
        ready=Edges.none(len(step)),
    )


def ring_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2(p-1) alpha + 2(p-1)/p S beta: both halves."""
    return 2 * half_s(p, nbytes, alpha, beta)


def half_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = (p-1) alpha + (p-1)/p S beta, either half (Thakur, Rabenseifner, Gropp, IJHPCA 2005)."""
    return (p - 1) * (alpha + nbytes / p * beta)

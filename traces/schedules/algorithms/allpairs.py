"""An allreduce in two steps: every rank adds up one chunk for all, and then gives it to all others.

Each step is a collective of its own.
"""

from collections.abc import Sequence

import numpy as np

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Edges, Send, Sends


def all_pairs(n_ranks: int, nbytes: int) -> Sends:
    """Direct reduce-scatter and all-gather, all posted at once: 2(n-1)/n S bytes each rank, in two steps.

    Rank r adds up chunk r.  In either step send (i-1) n + r goes from rank r to rank r+i.
    """
    check_ranks("all-pairs", n_ranks)
    cut = np.array(chunk_starts(nbytes, n_ranks))
    size, ranks, n_sends = np.diff(cut), np.arange(n_ranks), n_ranks * (n_ranks - 1)
    src = np.tile(ranks, n_ranks - 1)
    dst = (src + np.repeat(ranks[1:], n_ranks)) % n_ranks
    into = (ranks[1:] - 1) * n_ranks + (ranks[:, None] - ranks[1:]) % n_ranks  # of each rank
    starts = np.concatenate([np.zeros(n_sends, np.int32), np.arange(n_sends + 1) * (n_ranks - 1)])
    is_sum = np.arange(2 * n_sends) < n_sends
    chunk = np.concatenate([dst, src])
    return Sends(
        op=np.zeros(2 * n_sends, np.int32),
        src=np.tile(src, 2).astype(np.int32),
        dst=np.tile(dst, 2).astype(np.int32),
        step=(~is_sum).astype(np.int32),
        offset=cut[chunk],
        nbytes=size[chunk],
        shift=np.zeros(2 * n_sends, np.int64),
        reduce=is_sum,
        needs=Edges(starts.astype(np.int32), into[src].ravel().astype(np.int32)),
        ready=Edges.none(2 * n_sends),
    )


def reduce_scatter(n_ranks: int, nbytes: int) -> list[Send]:
    """Every rank sends each other that one's chunk to add, all at once."""
    check_ranks("all-pairs", n_ranks)
    cut = chunk_starts(nbytes, n_ranks)
    return _one_step(n_ranks, [(cut[dst], cut[dst + 1] - cut[dst]) for dst in range(n_ranks)], reduce=True)


def all_gather(n_ranks: int, nbytes: int) -> list[Send]:
    """Every rank sends all others its own chunk, all at once."""
    check_ranks("all-pairs", n_ranks)
    cut = piece_cuts(nbytes, n_ranks)
    return _one_step(n_ranks, [(cut[src], cut[src + 1] - cut[src]) for src in range(n_ranks)], reduce=False)


def _one_step(n_ranks: int, chunks: Sequence[tuple[int, int]], *, reduce: bool) -> list[Send]:
    """Chunks are those of the destinations where they are added, else of the sources."""
    pairs = [(src, (src + shift) % n_ranks) for shift in range(1, n_ranks) for src in range(n_ranks)]
    sends = [Send(0, src, dst, *chunks[dst if reduce else src], reduce=reduce) for src, dst in pairs]
    return [send for send in sends if send.nbytes]


def half_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = alpha + (p-1)/p S beta either half; derived, as all sends leave at once."""
    return alpha + (p - 1) / p * nbytes * beta


def all_pairs_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2 alpha + 2(p-1)/p S beta: both halves."""
    return 2 * half_s(p, nbytes, alpha, beta)

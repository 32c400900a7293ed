"""An allreduce in two steps, each a collective of its own: every rank adds up one chunk, and gives it to all
others.
"""

from collections.abc import Sequence

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Send


def all_pairs(n_ranks: int, nbytes: int) -> list[Send]:
    """Direct reduce-scatter and all-gather, all posted at once: 2(n-1)/n S bytes each rank, in two steps.

    Rank r adds up chunk r.
    """
    check_ranks("all-pairs", n_ranks)
    cut = chunk_starts(nbytes, n_ranks)
    pairs = [(src, (src + shift) % n_ranks) for shift in range(1, n_ranks) for src in range(n_ranks)]
    number = {pair: place for place, pair in enumerate(pairs)}
    into = {rank: tuple(number[pair] for pair in pairs if pair[1] == rank) for rank in range(n_ranks)}
    size = [cut[chunk + 1] - cut[chunk] for chunk in range(n_ranks)]
    sends = [Send(0, src, dst, cut[dst], size[dst], reduce=True) for src, dst in pairs]
    for src, dst in pairs:
        sends.append(Send(0, src, dst, cut[src], size[src], reduce=False, needs=into[src], step=1))
    return sends


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

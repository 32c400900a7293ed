"""An allreduce in two steps: every rank adds up one chunk, and gives it to all others."""

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts
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


def all_pairs_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2 alpha + 2(p-1)/p S beta; derived, as all sends of a step leave at once."""
    return 2 * (alpha + (p - 1) / p * nbytes * beta)

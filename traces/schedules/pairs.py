"""An allreduce in which all talk to all: chunks to those that add them up, then the sums to everybody."""

from traces.schedules.collectives import check_ranks, chunk_starts
from traces.schedules.schedule import Send


def all_pairs(n_ranks: int, nbytes: int, op: int = 0, first: int = 0) -> list[Send]:
    """Direct reduce-scatter and all-gather, all posted at once: 2(n-1)/n S bytes each rank, in two steps.

    Rank r adds up chunk r.  Its closed form is 2 alpha + 2(n-1)/n S beta.
    """
    check_ranks("all-pairs", n_ranks)
    cut = chunk_starts(nbytes, n_ranks)
    pairs = [(src, (src + shift) % n_ranks) for shift in range(1, n_ranks) for src in range(n_ranks)]
    number = {pair: first + place for place, pair in enumerate(pairs)}
    into = {rank: tuple(number[pair] for pair in pairs if pair[1] == rank) for rank in range(n_ranks)}
    size = [cut[chunk + 1] - cut[chunk] for chunk in range(n_ranks)]
    sends = [Send(op, src, dst, cut[dst], size[dst], reduce=True) for src, dst in pairs]
    for src, dst in pairs:
        ready = (number[dst, src],)  # the receiver's own chunk has left
        sends.append(
            Send(op, src, dst, cut[src], size[src], reduce=False, needs=into[src], ready=ready, step=1)
        )
    return sends

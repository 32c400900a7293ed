"""The halves of a ring allreduce as collectives of their own: p-1 steps each, one chunk a step."""

from gradwire.traces.schedules.collectives import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Send


def reduce_scatter(n_ranks: int, nbytes: int) -> list[Send]:
    """Rank r ends with the sum of chunk r.  In step s it sends chunk r-s-1 to rank r+1."""
    check_ranks("a ring", n_ranks)
    return _round(chunk_starts(nbytes, n_ranks), shift=1, reduce=True)


def all_gather(n_ranks: int, nbytes: int) -> list[Send]:
    """Rank r begins with chunk r of `nbytes` and ends with all.  In step s it sends chunk r-s to rank r+1."""
    check_ranks("a ring", n_ranks)
    return _round(piece_cuts(nbytes, n_ranks), shift=0, reduce=False)


def _round(cut: list[int], *, shift: int, reduce: bool) -> list[Send]:
    """In each step what came in the one before goes on; receivers have two buffers, as in `ring`."""
    n_ranks = len(cut) - 1
    ids: dict[tuple[int, int], int] = {}
    sends: list[Send] = []
    for step in range(n_ranks - 1):
        for src in range(n_ranks):
            chunk = (src - step - shift) % n_ranks
            size = cut[chunk + 1] - cut[chunk]
            if not size:
                continue
            ids[step, src] = len(sends)
            came, freed = (step - 1, (src - 1) % n_ranks), (step - 2, src)
            needs = (ids[came],) if came in ids else ()
            ready = (ids[freed],) if freed in ids else ()
            sends.append(Send(0, src, (src + 1) % n_ranks, cut[chunk], size, reduce, needs, ready, step))
    return sends


def half_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = (p-1) alpha + (p-1)/p S beta, either half (Thakur, Rabenseifner, Gropp, IJHPCA 2005)."""
    return (p - 1) * (alpha + nbytes / p * beta)

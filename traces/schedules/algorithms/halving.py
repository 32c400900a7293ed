"""The halves of a halving-doubling allreduce as collectives of their own, for powers of two.

Recursive halving and recursive doubling, Thakur, Rabenseifner, Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 2005.
"""

from gradwire.traces.schedules.algorithms.steps import Steps, Transfer
from gradwire.traces.schedules.collectives import NotServedError, check_ranks
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Send


def reduce_scatter(n_ranks: int, nbytes: int, *, near_first: bool = False) -> list[Send]:
    """lg p exchanges of S/2, S/4, ... bytes; rank r ends with the sum of chunk `chunk_of(r, n_ranks, ...)`.

    The partners are at distance p/2, p/4, ..., 1, so that chunk r stays at rank r.  With `near_first`, as
    in `halving_doubling`, they are at distance 1, 2, ..., p/2: most bytes go to the neighbour.
    """
    _check(n_ranks)
    steps, cut = Steps(), chunk_starts(nbytes, n_ranks)
    for distance in reversed(_distances(n_ranks)):
        steps.step(_exchange(n_ranks, distance, cut, near_first, gives_own=False), reduce=True)
    return steps.made


def all_gather(n_ranks: int, nbytes: int, *, near_first: bool = False) -> list[Send]:
    """`reduce_scatter` backwards: rank r begins with chunk `chunk_of(r, n_ranks, ...)` and ends with all."""
    _check(n_ranks)
    steps, cut = Steps(), piece_cuts(nbytes, n_ranks)
    for distance in _distances(n_ranks):
        steps.step(_exchange(n_ranks, distance, cut, near_first, gives_own=True), reduce=False)
    return steps.made


def chunk_of(rank: int, n_ranks: int, *, near_first: bool = False) -> int:
    """The rank's own chunk between the halves; with `near_first` the bits of the rank's number reversed."""
    if not near_first:
        return rank
    return sum(1 << place for place, bit in enumerate(f"{rank:0{n_ranks.bit_length() - 1}b}") if bit == "1")


def _exchange(
    n_ranks: int, distance: int, cut: list[int], near_first: bool, *, gives_own: bool
) -> list[Transfer]:
    """Each rank with the one whose chunk is `distance` from its own: a block of so many chunks each way."""
    transfers = []
    for src in range(n_ranks):
        own = chunk_of(src, n_ranks, near_first=near_first)
        other = own ^ distance
        begin = (own if gives_own else other) // distance * distance
        dst = chunk_of(other, n_ranks, near_first=near_first)  # reversing bits is its own inverse
        transfers.append(Transfer(src, dst, cut[begin], cut[begin + distance] - cut[begin]))
    return transfers


def _distances(n_ranks: int) -> list[int]:
    return [1 << bit for bit in range(n_ranks.bit_length() - 1)]


def _check(n_ranks: int) -> None:
    check_ranks("halving-doubling", n_ranks)
    if n_ranks & (n_ranks - 1):
        raise NotServedError(
            f"half of halving-doubling needs a power of two ranks, got {n_ranks}; use a ring"
        )


def half_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = lg p alpha + (p-1)/p S beta either half (the same paper)."""
    return (p.bit_length() - 1) * alpha + (p - 1) / p * nbytes * beta

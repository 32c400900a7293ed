"""Exchanges at doubling distances: allreduces for any number of ranks, and halving-doubling's halves.

The allreduces are as in Open MPI 4.1 (ompi/mca/coll/base/coll_base_allreduce.c),
`..._intra_recursivedoubling` and `..._intra_redscat_allgather` (Rabenseifner's).  Of n = 2^q + e ranks the
first 2e are folded in pairs, so that 2^q exchange.  The halves, recursive halving and recursive doubling, are
collectives of their own for powers of two: Thakur, Rabenseifner, Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 2005.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from gradwire.traces.schedules.algorithm import NotServedError, check_ranks
from gradwire.traces.schedules.algorithms.steps import Steps, Transfer
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Send


@dataclass(frozen=True)
class Fold:
    """`keeps_odd`: of each folded pair the odd rank takes part in the exchanges, else the even one."""

    n_ranks: int
    keeps_odd: bool = True

    @property
    def n_inner(self) -> int:
        """How many ranks exchange: the largest power of two."""
        return 1 << (self.n_ranks.bit_length() - 1)

    @property
    def distances(self) -> tuple[int, ...]:
        return _distances(self.n_inner)

    @property
    def folded(self) -> tuple[tuple[int, int], ...]:
        """The pairs (even rank, odd rank) of which one takes part for both."""
        return tuple((2 * i, 2 * i + 1) for i in range(self.n_ranks - self.n_inner))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that exchange."""
        return tuple(map(self.rank, range(self.n_inner)))

    def rank(self, virtual: int) -> int:
        """The rank that takes part as number `virtual`."""
        extra = self.n_ranks - self.n_inner
        return 2 * virtual + self.keeps_odd if virtual < extra else virtual + extra


def recursive_doubling(n_ranks: int, nbytes: int) -> list[Send]:
    """lg n exchanges of the whole buffer, near first."""
    check_ranks("recursive doubling", n_ranks)
    chunk_starts(nbytes, 1)  # refuses half an element
    fold, steps = Fold(n_ranks), Steps()
    steps.step([Transfer(even, odd, 0, nbytes) for even, odd in fold.folded], reduce=True)
    for distance in fold.distances:
        pairs = [(src, fold.rank(v ^ distance)) for v, src in enumerate(fold.ranks)]
        steps.step([Transfer(src, dst, 0, nbytes) for src, dst in pairs], reduce=True)
    steps.step([Transfer(odd, even, 0, nbytes) for even, odd in fold.folded], reduce=False)
    return steps.made


def halving_doubling(n_ranks: int, nbytes: int, *, near_first: bool = True) -> list[Send]:
    """Rabenseifner's allreduce: halves of what is left, near first, then the same back, as EFLOPS, gloo and
    Open MPI do it.  2 lg n steps, 2(n-1)/n S bytes each rank.

    Without `near_first` the first partner, with half of the buffer, is the farthest, as in MPICH.  Folded
    pairs first exchange halves, the odd rank gives back its sum, and gets the whole at the end.
    """
    check_ranks("halving-doubling", n_ranks)
    chunk_starts(nbytes, 1)  # refuses half an element
    fold, steps = Fold(n_ranks, keeps_odd=False), Steps()
    left = _half(nbytes)
    into = [Transfer(even, odd, left, nbytes - left) for even, odd in fold.folded]
    steps.step(into + [Transfer(odd, even, 0, left) for even, odd in fold.folded], reduce=True)
    steps.step([Transfer(odd, even, left, nbytes - left) for even, odd in fold.folded], reduce=False)
    cut = _halved(nbytes, fold.n_inner)
    for distance in reversed(fold.distances):
        steps.step(_exchange(fold.ranks, distance, cut, near_first, gives_own=False), reduce=True)
    for distance in fold.distances:
        steps.step(_exchange(fold.ranks, distance, cut, near_first, gives_own=True), reduce=False)
    steps.step([Transfer(even, odd, 0, nbytes) for even, odd in fold.folded], reduce=False)
    return steps.made


def recursive_doubling_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = lg p (alpha + S beta) for powers of two; of other p floor(lg p) and 2 more such steps, to fold."""
    fold = Fold(p)
    return (len(fold.distances) + 2 * bool(fold.folded)) * (alpha + nbytes * beta)


def halving_doubling_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2 lg p alpha + 2(p-1)/p S beta for powers of two (Thakur, Rabenseifner, Gropp).

    Of other p the same of the q ranks that exchange, and 3 alpha + 2 S beta: S/2, S/2 and S to fold.
    """
    fold = Fold(p)
    folding_s = 3 * alpha + 2 * nbytes * beta if fold.folded else 0.0
    return 2 * half_s(fold.n_inner, nbytes, alpha, beta) + folding_s


def reduce_scatter(n_ranks: int, nbytes: int, *, near_first: bool = False) -> list[Send]:
    """lg p exchanges of S/2, S/4, ... bytes; rank r ends with the sum of chunk r.

    The partners are at distance p/2, p/4, ..., 1, and what each gets lies together.  With `near_first` they
    are at distance 1, 2, ..., p/2, so that most bytes go to the neighbour: of those chunks every second,
    fourth, ..., a send each, as a rank keeps those whose numbers end like its own.
    """
    _check_power_of_two(n_ranks)
    steps, cut = Steps(), chunk_starts(nbytes, n_ranks)
    for distance in _distances(n_ranks)[:: 1 if near_first else -1]:
        pairs = [(src, src ^ distance) for src in range(n_ranks)]
        steps.step(_gives(pairs, distance, cut, near_first, gives_own=False), reduce=True)
    return steps.made


def all_gather(n_ranks: int, nbytes: int, *, near_first: bool = False) -> list[Send]:
    """`reduce_scatter` backwards: rank r begins with chunk r and ends with all."""
    _check_power_of_two(n_ranks)
    steps, cut = Steps(), piece_cuts(nbytes, n_ranks)
    for distance in _distances(n_ranks)[:: -1 if near_first else 1]:
        pairs = [(src, src ^ distance) for src in range(n_ranks)]
        steps.step(_gives(pairs, distance, cut, near_first, gives_own=True), reduce=False)
    return steps.made


def _gives(
    pairs: Sequence[tuple[int, int]], distance: int, cut: Sequence[int], near_first: bool, *, gives_own: bool
) -> list[Transfer]:
    """What the source of each pair has, or adds up, of the chunks that itself or its partner ends with."""
    n_ranks, transfers = len(cut) - 1, []
    for src, dst in pairs:
        rank = src if gives_own else dst
        if near_first:
            chunks = range(rank % (2 * distance), n_ranks, 2 * distance)
            transfers += [Transfer(src, dst, cut[chunk], cut[chunk + 1] - cut[chunk]) for chunk in chunks]
        else:
            begin = rank // distance * distance
            transfers.append(Transfer(src, dst, cut[begin], cut[begin + distance] - cut[begin]))
    return transfers


def chunk_of(rank: int, n_ranks: int, *, near_first: bool = False) -> int:
    """A rank's own chunk between an allreduce's halves; with `near_first` the bits of its number reversed."""
    if not near_first:
        return rank
    return sum(1 << place for place, bit in enumerate(f"{rank:0{n_ranks.bit_length() - 1}b}") if bit == "1")


def _exchange(
    ranks: Sequence[int], distance: int, cut: Sequence[int], near_first: bool, *, gives_own: bool
) -> list[Transfer]:
    """Each rank with the one whose chunk is `distance` from its own: a block of that many chunks each way.

    Chunks are numbered among the `ranks` that exchange, a power of two; chunk i begins at `cut[i]`.
    """
    transfers = []
    for number, src in enumerate(ranks):
        own = chunk_of(number, len(ranks), near_first=near_first)
        other = own ^ distance
        begin = (own if gives_own else other) // distance * distance
        dst = ranks[chunk_of(other, len(ranks), near_first=near_first)]  # reversing bits is its own inverse
        transfers.append(Transfer(src, dst, cut[begin], cut[begin + distance] - cut[begin]))
    return transfers


def _distances(n_ranks: int) -> tuple[int, ...]:
    """1, 2, 4, ... below a power of two."""
    return tuple(1 << bit for bit in range(n_ranks.bit_length() - 1))


def _halved(nbytes: int, n_chunks: int) -> list[int]:
    """Where to cut into chunks, a power of two, by halving what is left; the lower half is shorter."""
    cut = [0, nbytes]
    while len(cut) <= n_chunks:
        halves = ((begin, begin + _half(end - begin)) for begin, end in pairwise(cut))
        cut = [*chain.from_iterable(halves), nbytes]
    return cut


def _half(nbytes: int) -> int:
    return nbytes // ELEMENT_NBYTES // 2 * ELEMENT_NBYTES


def _check_power_of_two(n_ranks: int) -> None:
    check_ranks("halving-doubling", n_ranks)
    if n_ranks & (n_ranks - 1):
        raise NotServedError(
            f"half of halving-doubling needs a power of two ranks, got {n_ranks}; choose ring"
        )


def half_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = lg p alpha + (p-1)/p S beta either half (Thakur, Rabenseifner, Gropp)."""
    return (p.bit_length() - 1) * alpha + (p - 1) / p * nbytes * beta

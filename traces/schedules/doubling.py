"""Allreduces by exchanges at doubling distances, for any number of ranks, as in Open MPI.

Source: ompi/mca/coll/base/coll_base_allreduce.c (Open MPI 4.1), `..._intra_recursivedoubling` and
`..._intra_redscat_allgather` (Rabenseifner's).  Of n = 2^q + e ranks the first 2e are folded in pairs, so
that 2^q exchange.
"""

from dataclasses import dataclass, field

from gradwire.traces.schedules.collectives import check_ranks
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
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
        return tuple(1 << j for j in range(self.n_inner.bit_length() - 1))

    @property
    def folded(self) -> tuple[tuple[int, int], ...]:
        """The pairs (even rank, odd rank) of which one takes part for both."""
        return tuple((2 * i, 2 * i + 1) for i in range(self.n_ranks - self.n_inner))

    def rank(self, virtual: int) -> int:
        """The rank that takes part as number `virtual`."""
        extra = self.n_ranks - self.n_inner
        return 2 * virtual + self.keeps_odd if virtual < extra else virtual + extra


@dataclass
class _Sends:
    """Sends in the making; `last[r]` are those that rank r must be done with before its next."""

    made: list[Send] = field(default_factory=list)
    last: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def step(self, exchanges: list[tuple[int, int, int, int]], reduce: bool) -> None:
        """Sends (src, dst, offset, nbytes) that leave together; empty ones are left out."""
        step = self.made[-1].step + 1 if self.made else 0
        ids: dict[int, list[int]] = {}
        for src, dst, offset, nbytes in exchanges:
            if nbytes:
                number = len(self.made)
                needs, ready = self.last.get(src, ()), self.last.get(dst, ())
                self.made.append(Send(0, src, dst, offset, nbytes, reduce, needs, ready, step))
                for rank in (src, dst):
                    ids.setdefault(rank, []).append(number)
        self.last |= {rank: tuple(some) for rank, some in ids.items()}


def recursive_doubling(n_ranks: int, nbytes: int) -> list[Send]:
    """lg n exchanges of the whole buffer, near first; lg n (alpha + S beta) if n is a power of two."""
    _check("recursive doubling", n_ranks, nbytes)
    fold, sends = Fold(n_ranks), _Sends()
    sends.step([(even, odd, 0, nbytes) for even, odd in fold.folded], reduce=True)
    for distance in fold.distances:
        pairs = [(fold.rank(v), fold.rank(v ^ distance)) for v in range(fold.n_inner)]
        sends.step([(src, dst, 0, nbytes) for src, dst in pairs], reduce=True)
    sends.step([(odd, even, 0, nbytes) for even, odd in fold.folded], reduce=False)
    return sends.made


def halving_doubling(n_ranks: int, nbytes: int) -> list[Send]:
    """Rabenseifner's allreduce: halves of what is left, near first, then the same back, as EFLOPS, gloo and
    Open MPI do it.  2 lg n steps, 2(n-1)/n S bytes each rank.

    A rank is ready for a step when it has done the one before: without that a fast pair's next step would
    compete with the steps that others are still in.  Folded pairs first exchange halves, the odd rank gives
    back its sum, and gets the whole at the end.
    """
    _check("halving-doubling", n_ranks, nbytes)
    fold, sends = Fold(n_ranks, keeps_odd=False), _Sends()
    left = _half(nbytes)
    into = [(even, odd, left, nbytes - left) for even, odd in fold.folded]
    sends.step(into + [(odd, even, 0, left) for even, odd in fold.folded], reduce=True)
    sends.step([(odd, even, left, nbytes - left) for even, odd in fold.folded], reduce=False)
    window = dict.fromkeys(range(fold.n_inner), (0, nbytes))
    history: list[tuple[int, dict[int, tuple[int, int]]]] = []
    for distance in fold.distances:
        own = {v: _kept(window[v], v < v ^ distance) for v in window}
        gives = [(fold.rank(v), fold.rank(v ^ distance), *own[v ^ distance]) for v in window]
        sends.step(gives, reduce=True)
        window = own
        history.append((distance, own))
    for distance, own in reversed(history):
        sends.step([(fold.rank(v), fold.rank(v ^ distance), *own[v]) for v in own], reduce=False)
    sends.step([(even, odd, 0, nbytes) for even, odd in fold.folded], reduce=False)
    return sends.made


def _kept(window: tuple[int, int], lower: bool) -> tuple[int, int]:
    """The part (offset, nbytes) of it that the lower or the higher rank of an exchange keeps."""
    offset, nbytes = window
    half = _half(nbytes)
    return (offset, half) if lower else (offset + half, nbytes - half)


def _half(nbytes: int) -> int:
    return nbytes // ELEMENT_NBYTES // 2 * ELEMENT_NBYTES


def _check(what: str, n_ranks: int, nbytes: int) -> None:
    check_ranks(what, n_ranks)
    if nbytes % ELEMENT_NBYTES:
        raise ValueError(
            f"an allreduce adds {ELEMENT_NBYTES}-byte elements; {nbytes} is not a multiple of "
            f"{ELEMENT_NBYTES}"
        )

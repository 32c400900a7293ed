"""The built-in algorithms of alltoalls.  docs/collectives.md says what each costs."""

from collections.abc import Sequence

from gradwire.traces.schedules.algorithm import Algorithm, NotServedError, everywhere_s
from gradwire.traces.schedules.algorithms.alltoall import (
    bruck_alltoall,
    bruck_s,
    even,
    hierarchical_alltoall,
    hierarchical_s,
    pairwise_alltoall,
    pairwise_s,
)
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.names import BRUCK, PAIRWISE, STEP
from gradwire.traces.schedules.networks import even_leaves, even_leaves_s
from gradwire.traces.schedules.sends import Send


def _pairwise(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    return pairwise_alltoall(nbytes, hints.sizes or even(n_ranks, nbytes))


def _bruck(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    _check_even(BRUCK, hints)
    return bruck_alltoall(n_ranks, nbytes)


def _hierarchical(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    _check_even("hierarchical", hints)
    return hierarchical_alltoall(even_leaves("a hierarchical alltoall", n_ranks, hints, PAIRWISE), nbytes)


def _check_even(name: str, hints: Hints) -> None:
    if hints.sizes:
        raise NotServedError(f"{name} is for blocks of one size; for uneven ones choose {PAIRWISE}")


ALLTOALLS = (  # what is posted at once has no pace
    Algorithm(
        PAIRWISE,
        _pairwise,
        lambda p, n, a, b, hints: pairwise_s(hints.sizes or even(p, n), a, b),
        "α + nβ, n bytes of the busiest rank: (p−1)/p·S of even blocks (derived)",
        collective="alltoall",
        any_pace=True,
        pace=None,
    ),
    Algorithm(
        BRUCK,
        _bruck,
        everywhere_s(bruck_s),
        "lg p (α + S/2·β), for other p than powers of two the blocks that move (Thakur et al. 2005)",
        collective="alltoall",
        pace=STEP,
    ),
    Algorithm(
        "hierarchical",
        _hierarchical,
        even_leaves_s(hierarchical_s),
        "2α + ((m−1)g + (g−1)m)S/p·β, p = mg (derived)",
        collective="alltoall",
        pace=STEP,
    ),
)

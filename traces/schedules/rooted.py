"""The built-in algorithms of broadcasts and reduces, by rank 0: along trees.

docs/collectives.md says what each costs.
"""

from gradwire.traces.schedules.algorithm import Algorithm, ClosedForm, no_closed_form
from gradwire.traces.schedules.algorithms.trees import (
    SHAPES,
    binomial_s,
    broadcast,
    chain_s,
    flat_s,
    reduce,
)
from gradwire.traces.schedules.names import STEP
from gradwire.traces.workload import Shape

_TIMES: dict[Shape, tuple[ClosedForm, str]] = {
    "flat": (lambda p, nbytes, alpha, beta, _: flat_s(p, nbytes, alpha, beta), "α + (p−1)Sβ (derived)"),
    "binomial": (
        lambda p, nbytes, alpha, beta, _: binomial_s(p, nbytes, alpha, beta),
        "⌈lg p⌉(α + Sβ) (Chan et al. 2007)",
    ),
    "chain": (
        lambda p, nbytes, alpha, beta, _: chain_s(p, nbytes, alpha, beta),
        "(p−1)(α + Sβ) (derived)",
    ),
}
_NO_TIME: tuple[ClosedForm, str] = (no_closed_form, "")


def _broadcast(shape: Shape) -> Algorithm:
    return Algorithm(
        f"tree:{shape}",
        lambda n_ranks, nbytes, _: broadcast(n_ranks, nbytes, 0, shape),
        *_TIMES.get(shape, _NO_TIME),
        collective="broadcast",
        pace=STEP,  # else a rank's children share its link, and the first is as late as the last
    )


def _reduce(shape: Shape) -> Algorithm:
    return Algorithm(
        f"tree:{shape}",
        lambda n_ranks, nbytes, _: reduce(n_ranks, nbytes, 0, shape),
        *_TIMES.get(shape, _NO_TIME),
        collective="reduce",
    )


BROADCASTS = tuple(map(_broadcast, SHAPES))
REDUCES = tuple(map(_reduce, SHAPES))

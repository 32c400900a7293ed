"""The built-in algorithms of broadcasts and reduces, by rank 0: along trees.

docs/collectives.md says what each costs.
"""

from gradwire.traces.schedules.algorithm import Algorithm, ClosedForm, everywhere_s, no_closed_form
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
    "flat": (everywhere_s(flat_s), "α + (p−1)Sβ (derived)"),
    "binomial": (
        everywhere_s(binomial_s),
        "⌈lg p⌉(α + Sβ) (Chan et al. 2007)",
    ),
    "chain": (
        everywhere_s(chain_s),
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
        any_pace=shape == "chain",
        pace=STEP,  # else a rank's children share its link, and the first is as late as the last
    )


def _reduce(shape: Shape) -> Algorithm:
    return Algorithm(
        f"tree:{shape}",
        lambda n_ranks, nbytes, _: reduce(n_ranks, nbytes, 0, shape),
        *_TIMES.get(shape, _NO_TIME),
        collective="reduce",
        any_pace=shape == "chain",
    )


BROADCASTS = tuple(map(_broadcast, SHAPES))
REDUCES = tuple(map(_reduce, SHAPES))

"""A job with slower ranks, or with compute times that vary."""

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from gradwire.traces.workload import MAX_GAP_NS, Compute, Item, Workload


def straggling(
    workload: Workload, slow: Mapping[int, Fraction], jitter: Fraction = Fraction(0), seed: int = 0
) -> Workload:
    """`workload` where ranks compute as many times longer as `slow` says, times a random factor of mean 1.

    `jitter` is the standard deviation of that factor, which is drawn from a normal distribution, cut off at
    0, for each rank and each time it computes.  Raises ValueError for a rank that the job does not have, a
    factor that is not above 0, and a jitter that is not from 0 to 1.
    """
    for rank, factor in slow.items():
        if not 0 <= rank < workload.n_ranks:
            raise ValueError(f"cannot slow down rank {rank}: the job has ranks 0 to {workload.n_ranks - 1}")
        if factor <= 0:
            raise ValueError(f"rank {rank} cannot compute {factor} times as long: give a factor above 0")
    if not 0 <= jitter <= 1:
        raise ValueError(f"a jitter must be from 0% to 100%, got {float(jitter):.0%}")
    random = Random(seed)

    def changed(item: Item) -> Item:
        if not isinstance(item, Compute):
            return item
        factor = slow.get(item.rank, Fraction(1))
        drawn = Fraction(max(0.0, random.gauss(1, float(jitter))) if jitter else 1.0)
        times_ns = {name: getattr(item, name) for name in ("duration_ns", "least_ns", "most_ns")}
        return item.model_copy(
            update={
                name: min(MAX_GAP_NS, round(ns * factor * drawn))
                for name, ns in times_ns.items()
                if ns is not None
            }
        )

    return workload.model_copy(update={"items": tuple(map(changed, workload.items))})


def straggler_words(slow: Mapping[int, Fraction], jitter: Fraction) -> str:
    """What was changed of the job, for the name of its source; empty if nothing was."""
    words = [f"rank {rank} ×{float(factor):g}" for rank, factor in sorted(slow.items())]
    words += [f"jitter {float(jitter):.3g}"] if jitter else []
    return f" ({', '.join(words)})" if words else ""

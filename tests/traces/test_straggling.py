"""Slow ranks and jitter change what is computed, also at the very end, and nothing else."""

from fractions import Fraction
from statistics import fmean, pstdev

import pytest

from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Start, Workload

GAP_NS = 1_000_000


def job(n_iterations: int = 3) -> Workload:
    """Before each allreduce every rank computes, and rank 2 once more after the last."""
    items: list[Item] = []
    for iteration in range(n_iterations):
        first = len(items)
        for rank in range(4):
            start = Start(rank=rank, after=(first - 1,) if iteration else ())
            items.append(Compute(start=start, duration_ns=GAP_NS, iteration=iteration))
        starts = tuple(Start(rank=rank, after=(first + rank,)) for rank in range(4))
        items.append(
            Collective(kind="allreduce", tag=iteration, nbytes=4096, iteration=iteration, starts=starts)
        )
    last = Compute(
        start=Start(rank=2, after=(len(items) - 1,)), duration_ns=GAP_NS, iteration=n_iterations - 1
    )
    return Workload(schema=SCHEMA, framing="none", n_ranks=4, items=(*items, last))


def gaps_ns(workload: Workload, rank: int) -> list[int]:
    return [item.duration_ns for item in workload.items if isinstance(item, Compute) and item.rank == rank]


def test_a_slow_rank_computes_longer_and_no_other_does() -> None:
    slowed = straggling(job(), {2: Fraction(2)})
    assert gaps_ns(slowed, 2) == [2 * GAP_NS] * 4
    assert gaps_ns(slowed, 1) == [GAP_NS] * 3
    same = straggling(slowed, {2: Fraction(1, 2)})
    assert same == job()


def test_jitter_has_its_mean_and_deviation_and_comes_from_the_seed_alone() -> None:
    drawn = straggling(job(300), {}, Fraction(1, 10), seed=7)
    some = [ns / GAP_NS for rank in range(4) for ns in gaps_ns(drawn, rank)]
    assert fmean(some) == pytest.approx(1, abs=0.02)
    assert pstdev(some) == pytest.approx(0.1, rel=0.1)
    assert drawn == straggling(job(300), {}, Fraction(1, 10), seed=7)
    assert drawn != straggling(job(300), {}, Fraction(1, 10), seed=8)


@pytest.mark.parametrize(
    ("slow", "jitter", "words"),
    [
        ({4: Fraction(2)}, Fraction(0), "cannot slow down rank 4: the job has ranks 0 to 3"),
        ({0: Fraction(0)}, Fraction(0), "give a factor above 0"),
        ({}, Fraction(2), "a jitter must be from 0% to 100%, got 200%"),
    ],
)
def test_what_makes_no_sense_is_refused(slow: dict[int, Fraction], jitter: Fraction, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        straggling(job(), slow, jitter)

"""Compares two matrices of runs, cell by cell: what changed by more than the noise of the repeats.

A cell's value is the median of its repeats.  Of two cells' repeats RESAMPLES pairs of samples are drawn with
replacement, each as large as the original; the interval that holds 95 % of the differences of their medians
(Efron's percentile bootstrap) is the difference's uncertainty.  A cell has changed if 0 is outside of it.
With fewer than MIN_REPEATS on either side nothing is claimed: so few values hold too little of the noise; nor
of a cell that is not valid on either, whose times may be the machine's.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from gradwire.results.matrixfile import MatrixCell
from gradwire.results.row import REFUSED

COMPARISON_SCHEMA = "gradwire.comparison/1"
NOT_VALID: Literal["not valid"] = "not valid"  # a verdict
MIN_REPEATS = 5
RESAMPLES = 10_000
CONFIDENCE = 0.95
SEED = 0

Change = Literal[
    "slower",
    "faster",
    "no change seen",
    "too few repeats",
    "not valid",
    "refused",
    "only in the first",
    "only in the second",
]


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """`difference` and its interval `low` to `high` are shares of the first median, `before_s`.

    Without times there is no difference, and where nothing can be claimed no interval.
    """

    cell: str
    change: Change
    before: str | None
    after: str | None
    before_s: float | None = None
    after_s: float | None = None
    before_repeats: int = 0
    after_repeats: int = 0
    difference: float | None = None
    low: float | None = None
    high: float | None = None


def named(cells: Sequence[MatrixCell]) -> dict[str, MatrixCell]:
    """Cells by name, in their order; of several with one name the later ones are numbered."""
    names = Counter[str]()
    found = {}
    for cell in cells:
        names[cell.cell] += 1
        again = f" ({names[cell.cell]})" if names[cell.cell] > 1 else ""
        found[cell.cell + again] = cell
    return found


def compared(before: Mapping[str, MatrixCell], after: Mapping[str, MatrixCell]) -> list[ComparedCell]:
    """Every cell of either, in the first one's order."""
    names = [*before, *(name for name in after if name not in before)]
    return [_compared(name, before.get(name), after.get(name)) for name in names]


def _compared(name: str, before: MatrixCell | None, after: MatrixCell | None) -> ComparedCell:
    if before is None or after is None:
        which: Change = "only in the first" if after is None else "only in the second"
        there = before or after
        assert there
        return ComparedCell(name, which, before.verdict if before else None, after.verdict if after else None)
    first, second = before.times_s, after.times_s
    difference = low = high = None
    change: Change = "too few repeats"
    if first and second:
        difference = median(second) / median(first) - 1
    if REFUSED in (before.verdict, after.verdict):
        change = "refused"
    elif NOT_VALID in (before.verdict, after.verdict):
        change = "not valid"
    elif min(len(first), len(second)) >= MIN_REPEATS:
        low, high = interval(first, second)
        change = "slower" if low > 0 else "faster" if high < 0 else "no change seen"
    return ComparedCell(
        cell=name,
        change=change,
        before=before.verdict,
        after=after.verdict,
        before_s=median(first) if first else None,
        after_s=median(second) if second else None,
        before_repeats=len(first),
        after_repeats=len(second),
        difference=difference,
        low=low,
        high=high,
    )


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The interval of median(after) - median(before), as shares of median(before): Efron's percentile
    bootstrap.

    The same values give the same interval.
    """
    random = np.random.default_rng(SEED)
    drawn = [
        np.median(random.choice(np.asarray(values), (RESAMPLES, len(values))), axis=1)
        for values in (before, after)
    ]
    edges = np.quantile(drawn[1] - drawn[0], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(edges[0]) / median(before), float(edges[1]) / median(before)

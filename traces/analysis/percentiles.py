"""The distribution of a quantity, as a few percentiles."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.jit import compiled

SHARES = (0.0, 0.5, 0.9, 0.99, 1.0)
FEW = 64  # values that Python sorts sooner than numpy begins to


@dataclass(frozen=True)
class Percentiles:
    """Of `n` values, in their unit; the nearest value that there was, never one in between."""

    n: int
    min: int
    p50: int
    p90: int
    p99: int
    max: int


def percentiles(values: npt.NDArray[np.int64]) -> Percentiles | None:
    """None if there is no value."""
    if not len(values):
        return None
    n = len(values)
    places = _places(n)
    if n <= FEW:
        found = values.tolist()
        found.sort()
        return Percentiles(n, *(found[place] for place in places))
    return Percentiles(n, *np.partition(values, places)[[*places]].tolist())


def grouped(values: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[Percentiles | None]:
    """Of each group of values, one after the other: group i ends before `ends[i]`.

    The values are put into another order.
    """
    found = np.zeros(len(SHARES) * len(ends), np.int64)
    _sort_few(values, ends, found)
    sizes = np.diff(ends, prepend=0).tolist()
    rows = found.reshape(-1, len(SHARES)).tolist()
    return [
        None if not n else Percentiles(n, *row) if n <= FEW else percentiles(values[end - n : end])
        for n, row, end in zip(sizes, rows, ends.tolist(), strict=True)
    ]


@compiled
def _sort_few(
    values: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], found: npt.NDArray[np.int64]
) -> None:
    """Sort each group that has not more than FEW, and write its percentiles to `found`."""
    begin = 0
    for group in range(len(ends)):
        end = ends[group]
        n = end - begin
        if n <= FEW:
            for row in range(begin + 1, end):
                value, place = values[row], row
                while place > begin and values[place - 1] > value:
                    values[place] = values[place - 1]
                    place -= 1
                values[place] = value
            if n:
                for number in range(len(SHARES)):
                    nearest = int(np.rint((n - 1) * SHARES[number]))  # as `round` does
                    found[group * len(SHARES) + number] = values[begin + nearest]
        begin = end


@lru_cache(maxsize=FEW)
def _places(n: int) -> tuple[int, ...]:
    return tuple(round((n - 1) * share) for share in SHARES)

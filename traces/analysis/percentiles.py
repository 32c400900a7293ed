"""The distribution of a quantity, as a few percentiles."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

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


@lru_cache(maxsize=FEW)
def _places(n: int) -> tuple[int, ...]:
    return tuple(round((n - 1) * share) for share in SHARES)

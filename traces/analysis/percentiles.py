"""The distribution of a quantity, as a few percentiles."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


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
    found = np.percentile(values, (0, 50, 90, 99, 100), method="nearest").astype(np.int64)
    return Percentiles(len(values), *found.tolist())

"""Percentiles beside numpy's."""

import numpy as np
import pytest

from gradwire.traces.analysis.percentiles import FEW, percentiles


@pytest.mark.parametrize("n", [1, 2, 3, 6, 10, 51, FEW, FEW + 1, 201, 1_000])
def test_each_is_the_value_that_numpy_calls_the_nearest(n: int) -> None:
    values = np.random.default_rng(n).integers(0, 10**12, n)
    found = percentiles(values)
    assert found is not None
    expected = np.percentile(values, (0, 50, 90, 99, 100), method="nearest").tolist()
    assert [found.n, found.min, found.p50, found.p90, found.p99, found.max] == [n, *expected]


def test_of_nothing_there_are_none() -> None:
    assert percentiles(np.empty(0, np.int64)) is None

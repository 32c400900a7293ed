"""The arithmetic of quantised sums against exact fractions and float32's own definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.replay.sums import (
    Floats,
    agreed,
    block_exponents,
    bounds,
    scale_log2,
    to_floats,
    to_ints,
)
from gradwire.traces.framing.aggregation import NO_PEAK

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SMALL = st.floats(-(2.0**100), 2.0**100, width=32)


@given(st.lists(FLOATS, min_size=1, max_size=8))
def test_an_exponent_is_the_least_with_all_numbers_below(values: list[float]) -> None:
    (exponent,) = block_exponents(np.array(values, np.float32), 8).tolist()
    largest = max(abs(Fraction(value)) for value in values)
    if not largest:
        assert exponent == NO_PEAK
    else:
        assert Fraction(2) ** (exponent - 1) <= largest < Fraction(2) ** exponent


@pytest.mark.parametrize(
    ("value", "exponent"),
    [(1.0, 1), (0.99, 0), (2.0**-149, -148), (2.0**-126, -125), (3.4028235e38, 128), (0.0, NO_PEAK)],
)
def test_an_exponent_is_the_least_power_of_two_above_all_numbers_of_its_block(
    value: float, exponent: int
) -> None:
    assert block_exponents(np.array([0, -value, 0], np.float32), 2).tolist() == [exponent, NO_PEAK]


def test_the_first_blocks_share_the_largest_exponent_of_all_givers() -> None:
    ours, theirs = np.array([1, 5, 2, NO_PEAK], np.int32), np.array([0, 3, NO_PEAK, NO_PEAK], np.int32)
    assert agreed([ours, theirs], 2).tolist() == [5, 5, 2, NO_PEAK]
    assert agreed([ours[:0]], 2).tolist() == []


@pytest.mark.parametrize("n_givers", [1, 2, 3, 4, 5, 16, 63, 64])
def test_no_sum_of_rounded_numbers_leaves_an_int32(n_givers: int) -> None:
    """The largest numbers below 2^e, all of one sign, and one step less of scale would do as well."""
    largest = np.nextafter(np.float32(2.0**7), np.float32(0))
    (each,) = to_ints(np.array([largest], np.float32), 7, n_givers).tolist()
    assert 1 << 28 < n_givers * each <= 1 << 30


@pytest.mark.parametrize(
    ("scaled", "rounded"), [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (0.75, 1)]
)
def test_halves_are_rounded_to_even(scaled: float, rounded: int) -> None:
    unit = 2.0 ** -scale_log2(5, 3)
    assert to_ints(np.array([scaled * unit], np.float32), 5, 3).tolist() == [rounded]


@given(st.lists(st.lists(SMALL, min_size=6, max_size=6), min_size=1, max_size=5))
def test_a_sum_is_no_further_from_the_exact_one_than_its_bound(values: list[list[float]]) -> None:
    data: list[Floats] = [np.array(each, np.float32) for each in values]
    exponents = agreed([block_exponents(each, 3) for each in data], 1)
    result = np.zeros(6, np.float32)
    for block in range(2):
        elements = slice(3 * block, 3 * block + 3)
        ints = np.sum([to_ints(each[elements], int(exponents[block]), len(data)) for each in data], axis=0)
        result[elements] = to_floats(ints.astype(np.int32), int(exponents[block]), len(data))
    bound = bounds(result, exponents, 3, len(data))
    for i in range(6):
        exact = sum(Fraction(float(each[i])) for each in data)
        assert abs(Fraction(float(result[i])) - exact) <= Fraction(bound[i])


@pytest.mark.parametrize(
    ("result", "exponent", "bound"),
    [
        (1.0, NO_PEAK, 2.0**-24),  # half of float32's step at 1
        (1.0, 1, 2.0**-24 + 3 * 2.0**-28),  # k = 30 - 2 - 1, half a unit for each of three
        (0.0, NO_PEAK, 2.0**-150),
        (2.0**-149, NO_PEAK, 2.0**-150),
        (3.4028235e38, NO_PEAK, 2.0**103),
        (np.inf, 128, np.inf),
    ],
)
def test_an_element_may_be_off_by_half_a_unit_for_each_giver_and_half_one_of_the_result(
    result: float, exponent: int, bound: float
) -> None:
    exponents = np.array([exponent], np.int32)
    assert bounds(np.array([result, -result], np.float32), exponents, 2, 3).tolist() == [bound, bound]


def test_a_sum_that_float32_cannot_hold_is_infinite_as_its_own_would_be() -> None:
    """k = 30 - 2 - 128: 2^30 units are 2^130, 2^27 are 2^127."""
    sums = np.array([1 << 30, -(1 << 30), 1 << 27], np.int32)
    assert to_floats(sums, 128, 4).tolist() == [np.inf, -np.inf, 2.0**127]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_its_place(wrong: float) -> None:
    with pytest.raises(ValueError, match="element 3 is not a finite number"):
        block_exponents(np.array([1, 2, 3, wrong, 5], np.float32), 2)

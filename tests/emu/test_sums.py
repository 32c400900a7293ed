"""Numbers to add up: their sum is known exactly, rounding shows in them, and a wrong sum is counted."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from gradwire.emu.replay import sums
from gradwire.traces.schedules.schedule import Aggregation
from tests.made_tree_plans import star_tree

OP, N, ELEMENTS, SLOTS = 5, 300_000, 64, 8  # more than one piece, and no whole number of packets
GIVERS = (0, 1, 2, 5, 6, 7)
AGGREGATION = Aggregation(OP, GIVERS, GIVERS)
TREE = replace(star_tree((0, 1), slots=SLOTS, elements=ELEMENTS), givers=GIVERS, takers=GIVERS)
GIVEN = np.stack([sums.numbers(OP, rank, N) for rank in GIVERS])


def switches_sum(n_given: int = len(GIVERS)) -> NDArray[np.float32]:
    """By the protocol: integers by the scale of the packet's largest number, added, scaled back.

    The first packets, one for each slot, have one scale together.
    """
    padded = np.zeros((len(GIVERS), -(-N // ELEMENTS) * ELEMENTS))
    padded[:, :N] = GIVEN
    packets = padded.reshape(len(GIVERS), -1, ELEMENTS)
    exponents = np.frexp(np.abs(packets).max(axis=(0, 2)))[1]
    exponents[:SLOTS] = exponents[:SLOTS].max()
    k = (30 - 3 - exponents)[None, :, None]
    added = np.rint(np.ldexp(packets, k))[:n_given].sum(axis=0)
    assert np.abs(added).max() < 1 << 31
    result: NDArray[np.float32] = np.ldexp(added, -k[0]).astype(np.float32).reshape(-1)[:N]
    return result


def test_the_sum_that_is_expected_is_that_of_the_numbers_in_exact_arithmetic() -> None:
    expected = np.concatenate([piece for _, piece, _ in sums._expected(AGGREGATION, N)])
    for element in (*range(0, N, 997), N - 1):
        exact = sum((Fraction(float(x)) for x in GIVEN[:, element]), Fraction(0))
        assert Fraction(float(expected[element])) == exact


def test_the_numbers_are_of_many_magnitudes_some_blocks_are_zero_and_no_two_ranks_have_the_same() -> None:
    largest = np.abs(GIVEN[:, : N // 256 * 256].reshape(len(GIVERS), -1, 256)).max(axis=2)
    exponents = np.frexp(largest[0][largest[0] > 0])[1]
    assert exponents.max() - exponents.min() > 40
    assert 0 < np.count_nonzero(largest.max(axis=0) == 0) < largest.shape[1] / 10
    assert 0 < np.count_nonzero((largest == 0).any(axis=0)) < largest.shape[1]
    assert len({row.tobytes() for row in GIVEN}) == len(GIVERS)


def test_what_switches_add_up_is_right_although_it_is_not_exact() -> None:
    wrong, error = sums.checked(AGGREGATION, switches_sum(), TREE)
    assert wrong == 0
    assert error.op == OP
    assert 0 < error.rms < error.largest <= error.bound


def test_a_sum_by_a_scale_of_half_as_many_bits_is_wrong() -> None:
    coarse = np.rint(np.ldexp(switches_sum().astype(np.float64), 4))
    assert sums.checked(AGGREGATION, np.ldexp(coarse, -4).astype(np.float32), TREE)[0] > N / 2


@pytest.mark.parametrize(
    ("n_given", "spoiled"), [(len(GIVERS), "shifted"), (len(GIVERS) - 1, "whole"), (len(GIVERS), "nan")]
)
def test_a_shifted_block_a_missing_rank_and_what_is_no_number_are_wrong(n_given: int, spoiled: str) -> None:
    result = switches_sum(n_given)
    if spoiled == "shifted":
        place = np.flatnonzero(np.abs(result) > 1)[0] // ELEMENTS * ELEMENTS
        result[place : place + ELEMENTS] = np.roll(result[place : place + ELEMENTS], 1)
    if spoiled == "nan":
        result[[7, 9]] = np.nan, np.inf
    wrong, error = sums.checked(AGGREGATION, result, TREE)
    least = {"shifted": ELEMENTS - 8, "whole": N * 0.8, "nan": 2}[spoiled]
    assert wrong >= least
    assert np.isfinite([error.largest, error.rms, error.bound]).all()

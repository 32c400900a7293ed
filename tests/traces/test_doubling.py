"""Exchanges at doubling distances: right sums, and the steps and bytes of their closed forms."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms.doubling import Fold, halving_doubling, recursive_doubling
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.sends import Sends, swaps
from tests.made_orders import held

BOTH = (recursive_doubling, halving_doubling)


@pytest.mark.parametrize("algorithm", BOTH)
@given(st.integers(2, 17), st.integers(1, 40))
def test_every_rank_ends_with_everybodys_data_once(algorithm: object, n_ranks: int, words: int) -> None:
    assert callable(algorithm)
    sends = algorithm(n_ranks, 4 * words)
    have = held(sends, n_ranks, 4 * words)
    everybody = Counter(range(n_ranks))
    assert all(piece == everybody for rank in have for piece in rank.values())


@pytest.mark.parametrize(("n_ranks", "lg"), [(2, 1), (4, 2), (8, 3), (16, 4)])
def test_of_a_power_of_two_each_rank_sends_the_whole_buffer_lg_n_times(n_ranks: int, lg: int) -> None:
    sends = recursive_doubling(n_ranks, 4000)
    assert Counter(send.src for send in sends) == dict.fromkeys(range(n_ranks), lg)
    assert {send.nbytes for send in sends} == {4000}
    assert max(send.step for send in sends) == lg - 1


@pytest.mark.parametrize("n_ranks", [3, 5, 6, 7, 9, 12])
def test_folded_ranks_give_and_get_the_whole_once(n_ranks: int) -> None:
    """Open MPI: of the first 2e ranks the even ones send to the next and wait for the result."""
    q = n_ranks.bit_length() - 1
    extra = n_ranks - (1 << q)
    sends = recursive_doubling(n_ranks, 4000)
    assert len(sends) == (1 << q) * q + 2 * extra
    for even in range(0, 2 * extra, 2):
        assert [(s.src, s.dst) for s in sends if even in (s.src, s.dst)] == [
            (even, even + 1),
            (even + 1, even),
        ]


@pytest.mark.parametrize("n_ranks", [4, 8, 16])
def test_of_a_power_of_two_a_step_over_distance_d_carries_the_vector_over_2d(n_ranks: int) -> None:
    """Vector halving with distance doubling, then its mirror (Rabenseifner 2004)."""
    nbytes = 4 * 16 * 100
    near_first = [1 << j for j in range(n_ranks.bit_length() - 1)]
    for step, distance in enumerate(near_first + near_first[::-1]):
        sends = [send for send in halving_doubling(n_ranks, nbytes) if send.step == step]
        assert {(send.src, send.dst) for send in sends} == {(r, r ^ distance) for r in range(n_ranks)}
        assert {send.nbytes for send in sends} == {nbytes // (2 * distance)}


def test_folded_halving_doubling_has_two_floor_lg_n_plus_three_steps() -> None:
    steps = {send.step for send in halving_doubling(6, 4096)}
    assert len(steps) == 2 * 2 + 3  # halves in, their sum back, 2 lg 4 exchanges, the whole out


def test_swaps_are_exchanges_of_the_same_bytes_only() -> None:
    doubling = swaps(Sends.of(recursive_doubling(4, 400)))
    assert doubling == {0: 1, 1: 0, 2: 3, 3: 2, 4: 6, 6: 4, 5: 7, 7: 5}
    assert swaps(ring(4, 400)) == swaps(Sends.of(halving_doubling(4, 400))) == {}


def test_a_fold_numbers_the_ranks_that_take_part() -> None:
    assert [Fold(6).rank(v) for v in range(4)] == [1, 3, 4, 5]
    assert [Fold(6, keeps_odd=False).rank(v) for v in range(4)] == [0, 2, 4, 5]


@pytest.mark.parametrize("algorithm", BOTH)
def test_one_rank_or_half_an_element_is_refused(algorithm: object) -> None:
    assert callable(algorithm)
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        algorithm(1, 400)
    with pytest.raises(ValueError, match="402 is not a multiple of 4"):
        algorithm(4, 402)

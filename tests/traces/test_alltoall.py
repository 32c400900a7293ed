"""Alltoalls: every block arrives at its place, in the steps and bytes of the closed forms."""

from collections import Counter, defaultdict
from fractions import Fraction
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.making.collectives import made_collective, made_uneven_alltoall
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms.alltoall import (
    bruck_alltoall,
    bruck_s,
    even,
    hierarchical_alltoall,
    hierarchical_s,
    pairwise_alltoall,
    pairwise_s,
)
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import BlockSizes, uneven_nbytes
from gradwire.traces.schedules.schedule import sent_nbytes
from gradwire.traces.schedules.sends import Send
from tests.made_orders import step_by_step_s

ALPHA, BETA = 3e-5, 8e-8
GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


@st.composite
def tables(draw: st.DrawFn) -> BlockSizes:
    n_ranks = draw(st.integers(2, 17))
    row = st.tuples(*[st.integers(0, 9)] * n_ranks)
    return draw(st.tuples(*[row] * n_ranks))


def sent(sizes: BlockSizes) -> list[int]:
    """What each rank has for others."""
    return [sum(row) - row[rank] for rank, row in enumerate(sizes)]


def received(sizes: BlockSizes) -> list[int]:
    return sent(tuple(zip(*sizes, strict=True)))


@given(tables())
def test_blocks_of_any_sizes_arrive_at_their_places(sizes: BlockSizes) -> None:
    made = expand(made_uneven_alltoall(sizes), "pairwise")
    check_correct(made)
    assert sent_nbytes(made) == sent(sizes)
    assert made.sends.nbytes.min(initial=1) > 0


@given(tables())
def test_a_pairwise_alltoall_costs_what_the_busiest_rank_sends_or_gets(sizes: BlockSizes) -> None:
    sends = pairwise_alltoall(uneven_nbytes(sizes), sizes)
    busiest = max(*sent(sizes), *received(sizes))
    assert pairwise_s(sizes, ALPHA, BETA) == pytest.approx(ALPHA + busiest * BETA)
    if busiest:
        assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(ALPHA + busiest * BETA)


@given(tables())
def test_an_uneven_alltoall_costs_max_over_mean_of_an_even_one_with_as_many_bytes(sizes: BlockSizes) -> None:
    mean = Fraction(sum(sent(sizes)), len(sizes))
    if mean:
        even_s = float(mean) * BETA  # each rank sends the mean, and gets it
        imbalance = max(*sent(sizes), *received(sizes)) / mean
        assert pairwise_s(sizes, 0.0, BETA) / even_s == pytest.approx(float(imbalance))


def test_all_of_a_pairwise_alltoall_is_posted_at_once_to_the_next_rank_first() -> None:
    sends = pairwise_alltoall(80, even(8, 80))
    assert {(send.needs, send.ready, send.step) for send in sends} == {((), (), 0)}
    assert [send.dst for send in sends if send.src == 6] == [7, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("n_ranks", [2, 4, 8, 16])
def test_brucks_alltoall_of_a_power_of_two_sends_half_the_buffer_lg_p_times(n_ranks: int) -> None:
    nbytes, lg = 12 * n_ranks, int(log2(n_ranks))
    expected = lg * (ALPHA + nbytes / 2 * BETA)
    assert bruck_s(n_ranks, nbytes, ALPHA, BETA) == pytest.approx(expected)
    assert step_by_step_s(bruck_alltoall(n_ranks, nbytes), ALPHA, BETA) == pytest.approx(expected)


@pytest.mark.parametrize("n_ranks", [3, 5, 6, 7, 11, 17])
def test_brucks_alltoall_of_other_ranks_takes_ceil_lg_p_steps(n_ranks: int) -> None:
    sends = bruck_alltoall(n_ranks, 12 * n_ranks)
    assert {send.step for send in sends} == set(range(len(f"{n_ranks - 1:b}")))
    assert sum(s.nbytes for s in sends if s.src == 0) == 12 * sum(i.bit_count() for i in range(n_ranks))
    assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(bruck_s(n_ranks, 12 * n_ranks, ALPHA, BETA))


@pytest.mark.parametrize("n_ranks", range(2, 18))
def test_in_a_step_of_brucks_a_rank_has_one_partner_and_blocks_that_lie_together_are_one_send(
    n_ranks: int,
) -> None:
    sends = bruck_alltoall(n_ranks, 12 * n_ranks)
    partners = defaultdict[tuple[int, int], set[int]](set)
    for send in sends:
        partners[send.step, send.src].add((send.dst - send.src) % n_ranks)
    assert all(len(found) == 1 for found in partners.values())
    assert len(sends) <= n_ranks * 2 * n_ranks  # of n/2 lg n blocks
    assert lies_apart(sends)


def lies_apart(sends: list[Send]) -> bool:
    """Whether no two sends of a pair and a step could be one."""
    ends = {(s.step, s.src, s.dst, s.shift, s.offset + s.nbytes) for s in sends}
    return not any((s.step, s.src, s.dst, s.shift, s.offset) in ends for s in sends)


def test_a_hierarchical_alltoall_costs_what_its_closed_form_says() -> None:
    sends = hierarchical_alltoall(GROUPS, 12 * 20)
    expected = 2 * ALPHA + (2 * 4 + 3 * 3) * 20 * BETA  # 4 blocks for each of 2, then 3 for each of 3
    assert hierarchical_s(3, 4, 12 * 20, ALPHA, BETA) == pytest.approx(expected)
    assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(expected)
    assert lies_apart(sends)


def test_a_hierarchical_alltoall_leaves_a_group_only_between_members_of_the_same_place() -> None:
    sends = hierarchical_alltoall(GROUPS, 12 * 20)
    leaving = [send for send in sends if send.src // 3 != send.dst // 3]
    assert {(send.src % 3, send.step) for send in leaving} == {(place, 1) for place in range(3)}
    assert all(send.src % 3 == send.dst % 3 for send in leaving)
    assert sum(send.nbytes for send in leaving) == 12 * 9 * 20  # as of any alltoall: each for 9 others
    together = Counter((send.src, send.dst) for send in leaving)
    assert max(together.values()) == 3  # a rank's own block, what lies before it and what follows it


@pytest.mark.parametrize("name", ["bruck", "hierarchical"])
def test_uneven_blocks_are_refused_with_the_algorithm_that_takes_them(name: str) -> None:
    sizes = ((0, 1, 2, 3),) * 4
    with pytest.raises(NotServedError, match=f"{name} is for blocks of one size; .* choose pairwise"):
        expand(made_uneven_alltoall(sizes), name, hints=Hints(((0, 1), (2, 3))))


def test_blocks_of_no_byte_are_not_sent_and_one_rank_is_refused() -> None:
    for n_ranks in (2, 5):
        assert not bruck_alltoall(n_ranks, n_ranks - 1)
        assert not pairwise_alltoall(n_ranks - 1, even(n_ranks, n_ranks - 1))
    assert not hierarchical_alltoall([[0, 1], [2, 3]], 3)
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        bruck_alltoall(1, 4)
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        pairwise_alltoall(4, ((4,),))


def test_bytes_that_make_no_block_stay_where_they_are() -> None:
    for name in ("pairwise", "bruck"):
        made = expand(made_collective("alltoall", 5, 103), name)
        check_correct(made)
        assert min(sent_nbytes(made)) >= 4 * 20

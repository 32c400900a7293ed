"""Alltoalls: every block arrives at its place, in the steps and bytes of the closed forms."""

from dataclasses import replace
from itertools import accumulate
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms.alltoall import (
    Move,
    bruck_alltoall,
    bruck_blocks,
    bruck_s,
    pairwise_alltoall,
    pairwise_s,
)
from tests.made_orders import in_any_order, step_by_step_s

ALPHA, BETA = 3e-5, 8e-8
Byte = tuple[int, int, int]
"""(source, destination, place in the block)."""


def received(moves: list[Move], matrix: list[list[int]]) -> list[dict[int, Byte]]:
    """What comes to each place of each rank's receive buffer; a place that gets two bytes is an error."""
    n_ranks = len(matrix)
    buffers = [[(src, d, i) for d in range(n_ranks) for i in range(row[d])] for src, row in enumerate(matrix)]
    got: list[dict[int, Byte]] = [{} for _ in range(n_ranks)]
    for move in moves:
        send = move.send
        for i in range(send.nbytes):
            if move.dst_offset + i in got[send.dst]:
                raise ValueError("two bytes for one place")
            got[send.dst][move.dst_offset + i] = buffers[send.src][send.offset + i]
    return got


def right(got: list[dict[int, Byte]], matrix: list[list[int]]) -> bool:
    for rank, have in enumerate(got):
        sizes = [row[rank] for row in matrix]
        starts = list(accumulate(sizes, initial=0))
        want = {
            starts[src] + i: (src, rank, i)
            for src, size in enumerate(sizes)
            for i in range(size)
            if src != rank
        }
        if have != want:
            return False
    return True


def is_wrong(moves: list[Move], matrix: list[list[int]]) -> bool:
    try:
        return not right(received(moves, matrix), matrix)
    except (ValueError, IndexError):  # beyond the buffer
        return True


@st.composite
def matrices(draw: st.DrawFn) -> list[list[int]]:
    n_ranks = draw(st.integers(2, 17))
    row = st.lists(st.integers(0, 9), min_size=n_ranks, max_size=n_ranks)
    return draw(st.lists(row, min_size=n_ranks, max_size=n_ranks))


@given(matrices())
def test_blocks_of_any_sizes_arrive_at_their_places(matrix: list[list[int]]) -> None:
    moves = pairwise_alltoall(matrix)
    assert right(received(moves, matrix), matrix)
    assert all(move.send.nbytes and not move.send.reduce for move in moves)
    assert len(in_any_order([move.send for move in moves], 0)) == len(moves)
    for number, move in enumerate(moves):
        for broken in (
            replace(move, send=replace(move.send, nbytes=0)),
            replace(move, dst_offset=move.dst_offset + 1_000),
            replace(move, send=replace(move.send, src=move.send.dst, dst=move.send.src)),
        ):
            assert is_wrong([*moves[:number], broken, *moves[number + 1 :]], matrix)


@pytest.mark.parametrize("p", range(2, 18))
def test_a_pairwise_alltoall_of_even_blocks_costs_what_its_closed_form_says(p: int) -> None:
    sends = [move.send for move in pairwise_alltoall([[40] * p for _ in range(p)])]
    expected = (p - 1) * ALPHA + (p - 1) / p * (40 * p) * BETA
    assert pairwise_s(p, 40 * p, ALPHA, BETA) == pytest.approx(expected)
    assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(expected)
    assert [(s.step, s.dst) for s in sends if s.src == 1] == [(s - 1, (1 + s) % p) for s in range(1, p)]


def carried_out(moves: list[Move], n_ranks: int, size: int) -> list[list[tuple[int, int]]]:
    """The block (source, destination) of each number at each rank in the end."""
    work = [[(rank, (rank + block) % n_ranks) for block in range(n_ranks)] for rank in range(n_ranks)]
    for step in sorted({move.send.step for move in moves}):
        blocks = bruck_blocks(n_ranks, step)
        packed = [[row[block] for block in blocks] for row in work]
        for move in moves:
            if move.send.step == step:
                count = move.send.nbytes // size
                assert move.send.offset == move.dst_offset == 0
                for place, block in enumerate(blocks[:count]):
                    work[move.send.dst][block] = packed[move.send.src][place]
    return work


@pytest.mark.parametrize("n_ranks", range(2, 18))
def test_brucks_alltoall_brings_every_block_to_its_destination(n_ranks: int) -> None:
    moves = bruck_alltoall(n_ranks, 12)
    want = [[((rank - block) % n_ranks, rank) for block in range(n_ranks)] for rank in range(n_ranks)]
    assert carried_out(moves, n_ranks, 12) == want
    for number, move in enumerate(moves):
        short = replace(move, send=replace(move.send, nbytes=move.send.nbytes - 12))
        assert carried_out([*moves[:number], short, *moves[number + 1 :]], n_ranks, 12) != want


@pytest.mark.parametrize("n_ranks", [2, 4, 8, 16])
def test_brucks_alltoall_of_a_power_of_two_sends_half_the_buffer_lg_p_times(n_ranks: int) -> None:
    sends = [move.send for move in bruck_alltoall(n_ranks, 12)]
    nbytes, lg = 12 * n_ranks, int(log2(n_ranks))
    expected = lg * (ALPHA + nbytes / 2 * BETA)
    assert bruck_s(n_ranks, nbytes, ALPHA, BETA) == pytest.approx(expected)
    assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(expected)
    assert len(sends) == n_ranks * lg


@pytest.mark.parametrize("n_ranks", [3, 5, 6, 7, 11, 17])
def test_brucks_alltoall_of_other_ranks_takes_ceil_lg_p_steps(n_ranks: int) -> None:
    sends = [move.send for move in bruck_alltoall(n_ranks, 12)]
    assert {send.step for send in sends} == set(range(len(f"{n_ranks - 1:b}")))
    assert sum(s.nbytes for s in sends if s.src == 0) == 12 * sum(i.bit_count() for i in range(n_ranks))
    assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(bruck_s(n_ranks, 12 * n_ranks, ALPHA, BETA))


def test_alltoalls_of_nothing_send_nothing_and_odd_matrices_are_refused() -> None:
    assert bruck_alltoall(5, 0) == pairwise_alltoall([[7, 0], [0, 7]]) == []
    for matrix in ([[1, 2], [3]], [[1, -1], [1, 1]]):
        with pytest.raises(ValueError, match="2 ranks needs 2 sizes of at least 0 for each of them"):
            pairwise_alltoall(matrix)
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        bruck_alltoall(1, 4)
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        pairwise_alltoall([[4]])

"""Trees over ranks, and allreduces along them."""

from collections import Counter

import pytest

from gradwire.planning.model.phases import phase_keys
from gradwire.traces.schedules.algorithms.allpairs import all_pairs
from gradwire.traces.schedules.algorithms.trees import SHAPES, broadcast, parents, reduce_broadcast
from gradwire.traces.schedules.kinds import OpKind
from gradwire.traces.schedules.schedule import Op, Schedule, sent_nbytes, together
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Shape
from tests.made_orders import held_pieces


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("flat", [0, 0, 0, 0, 0, 0, 0]),
        ("binomial", [0, 0, 1, 0, 1, 2, 3]),
        ("in-order-binomial", [0, 0, 2, 0, 4, 4, 6]),
        ("chain", [0, 1, 2, 3, 4, 5, 6]),
        ("binary", [0, 0, 1, 2, 1, 2, 3]),  # the drawing in Open MPI's coll_base_topo.c, for the first 7
        ("chains", [0, 1, 0, 3, 0, 5, 0]),
    ],
)
def test_the_parents_of_ranks_1_to_7(shape: str, expected: list[int]) -> None:
    assert shape in SHAPES
    parent = parents(shape, 8)
    assert [parent[rank] for rank in range(1, 8)] == expected


@pytest.mark.parametrize("up", SHAPES)
@pytest.mark.parametrize("down", SHAPES)
def test_an_allreduce_by_trees_gives_everybody_everything_once(up: str, down: str) -> None:
    for n_ranks in range(2, 10):
        for root in (0, n_ranks - 1):
            sends = reduce_broadcast(n_ranks, 8, root=root, up=up, down=down)  # type: ignore[arg-type]
            assert len(sends) == 2 * (n_ranks - 1)
            everybody = Counter(range(n_ranks))
            assert all(have[0] == everybody for have in held_pieces(sends, n_ranks, [0]))


@pytest.mark.parametrize("n_ranks", range(2, 18))
@pytest.mark.parametrize("root", [0, 1])
def test_the_binomial_broadcast_is_gloos(n_ranks: int, root: int) -> None:
    """gloo/broadcast.cc: in step i each rank below 2^i, from the root, sends to the one 2^i above it."""
    sends = {
        (s.step, (s.src - root) % n_ranks, (s.dst - root) % n_ranks) for s in broadcast(n_ranks, 8, root)
    }
    gloos = {(i, low, low + (1 << i)) for i in range(5) for low in range(1 << i) if low + (1 << i) < n_ranks}
    assert sends == gloos


@pytest.mark.parametrize(
    ("shape", "up", "down"),
    [("flat", 1, 7), ("binomial", 3, 3), ("chain", 7, 7), ("binary", 3, 4), ("chains", 2, 4)],
)
def test_the_phases_of_a_tree_are_its_height_upwards_and_steps_of_one_send_downwards(
    shape: Shape, up: int, down: int
) -> None:
    """Of 8 ranks.  Down: flat n-1; binomial lg n; a chain n-1; of a binary tree two for each second child on
    the way to the last leaf, one for each first; of chains of 2, 2, 2 and 1 ranks i and its length.
    """
    assert phases_of("broadcast", broadcast(8, 100, 0, shape)) == down
    assert phases_of("allreduce", reduce_broadcast(8, 100, up=shape, down=shape)) == up + down


@pytest.mark.parametrize("shape", SHAPES)
def test_in_a_step_no_rank_sends_twice_and_what_a_send_needs_is_in_an_earlier_one(shape: Shape) -> None:
    for n_ranks in range(2, 18):
        sends = reduce_broadcast(n_ranks, 8, up=shape, down=shape)
        assert max(Counter((s.step, s.src) for s in sends).values()) == 1
        assert max(Counter((s.step, s.dst) for s in sends if not s.reduce).values()) == 1
        assert all(sends[other].step < send.step for send in sends for other in send.needs)


def test_the_binomial_reduction_is_the_broadcast_backwards() -> None:
    """Also with its ranks in order: lg n steps of n/2, n/4, ... sends."""
    for shape in ("binomial", "in-order-binomial"):
        steps = Counter(s.step for s in reduce_broadcast(16, 8, up=shape) if s.reduce)
        assert steps == {0: 8, 1: 4, 2: 2, 3: 1}


def phases_of(kind: OpKind, sends: list[Send]) -> int:
    schedule = Schedule.of(8, (Op(kind, 100),), tuple(sends))
    return len(set(phase_keys(schedule)))


@pytest.mark.parametrize("n_ranks", range(2, 10))
def test_all_pairs_sends_what_a_ring_does_in_two_steps(n_ranks: int) -> None:
    sends = all_pairs(n_ranks, 4 * 7 * n_ranks)
    everybody = Counter(range(n_ranks))
    have = held_pieces(sends, n_ranks, [28 * chunk for chunk in range(n_ranks)])
    assert all(held == everybody for rank in have for held in rank.values())
    schedule = Schedule.of(n_ranks, (Op("allreduce", 28 * n_ranks),), tuple(sends))
    assert sent_nbytes(schedule) == [2 * (n_ranks - 1) * 28] * n_ranks
    assert {send.step for send in sends} == {0, 1}
    assert together([schedule, schedule]).sends[len(sends)].op == 1

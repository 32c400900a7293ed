"""Trees over ranks, and allreduces along them."""

from collections import Counter

import pytest

from traces.schedules.collectives import binomial_broadcast
from traces.schedules.pairs import all_pairs
from traces.schedules.schedule import Op, Schedule, contributions, sent_nbytes, together
from traces.schedules.trees import SHAPES, broadcast, parents, reduce_broadcast


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
            assert all(have[0] == everybody for have in contributions(sends, n_ranks, [0]))


def test_the_binomial_broadcast_is_gloos() -> None:
    ours = Counter((s.src, s.dst) for s in broadcast(7, 100, 2, "binomial"))
    assert ours == Counter((s.src, s.dst) for s in binomial_broadcast(7, 100, 2))


@pytest.mark.parametrize("n_ranks", range(2, 10))
def test_all_pairs_sends_what_a_ring_does_in_two_steps(n_ranks: int) -> None:
    sends = all_pairs(n_ranks, 4 * 7 * n_ranks)
    everybody = Counter(range(n_ranks))
    have = contributions(sends, n_ranks, [28 * chunk for chunk in range(n_ranks)])
    assert all(held == everybody for rank in have for held in rank.values())
    schedule = Schedule(n_ranks, (Op("allreduce", 28 * n_ranks),), tuple(sends))
    assert sent_nbytes(schedule) == [2 * (n_ranks - 1) * 28] * n_ranks
    assert {send.step for send in sends} == {0, 1}
    assert together([schedule, schedule]).sends[len(sends)].op == 1

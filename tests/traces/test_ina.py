"""Aggregations and the sends around them are checked by what they achieve and by the closed forms."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms.ina import ina, ina_leaf
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.schedule import Aggregation
from gradwire.traces.schedules.sends import Send
from tests.made_orders import held, held_pieces

LEAVES = [
    [[0, 1], [2, 3]],
    [[3, 1], [0, 5], [4, 2]],
    [[0, 1, 2, 3], [4, 5, 6, 7]],
    [[0, 1, 2], [3, 4]],
    [[0, 3, 4, 5], [1], [2, 6]],
    [[0], [1], [2]],
    [[2, 0, 1]],
    [[0, 1], [], [2, 3]],
]


def n_ranks_of(leaves: list[list[int]]) -> int:
    return sum(map(len, leaves))


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("nbytes", [4, 1000, 340_008])
def test_every_rank_ends_with_every_ranks_data_once(leaves: list[list[int]], nbytes: int) -> None:
    n_ranks = n_ranks_of(leaves)
    added, sends = ina_leaf(n_ranks, leaves, nbytes)
    have = held(sends, n_ranks, nbytes, aggregations=added)
    assert all(piece == Counter(range(n_ranks)) for rank in have for piece in rank.values())


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("seed", range(5))
def test_the_sums_are_right_in_every_order_that_the_sends_needs_allow(
    leaves: list[list[int]], seed: int
) -> None:
    n_ranks, nbytes = n_ranks_of(leaves), 1000
    added, sends = ina_leaf(n_ranks, leaves, nbytes)
    have = held(in_another_order(sends, seed), n_ranks, nbytes, aggregations=added)
    assert all(piece == Counter(range(n_ranks)) for rank in have for piece in rank.values())


def in_another_order(sends: list[Send], seed: int) -> list[Send]:
    pick = random.Random(seed)
    place: dict[int, int] = {}
    while len(place) < len(sends):
        free = [n for n, s in enumerate(sends) if n not in place and all(o in place for o in s.needs)]
        place[pick.choice(free)] = len(place)
    ordered = sorted(range(len(sends)), key=place.__getitem__)
    return [replace(sends[n], needs=tuple(place[o] for o in sends[n].needs), ready=()) for n in ordered]


def test_an_aggregation_alone_gives_the_sum_of_the_givers_to_the_takers_only() -> None:
    have = held_pieces([], 4, [0], [Aggregation(0, givers=(1, 2), takers=(0, 2))])
    assert [rank[0] for rank in have] == [Counter([1, 2]), Counter([1]), Counter([1, 2]), Counter([3])]


@pytest.mark.parametrize("leaves", [leaves for leaves in LEAVES if sum(map(bool, leaves)) > 1])
def test_bytes_through_each_leafs_uplinks_are_those_of_the_closed_form(leaves: list[list[int]]) -> None:
    full = [leaf for leaf in leaves if leaf]
    n_leaves, shards = len(full), min(map(len, full))
    nbytes = 4 * 1000 * n_leaves * shards  # divides into whole elements
    _, sends = ina_leaf(n_ranks_of(leaves), leaves, nbytes)
    for leaf in full:
        up = sum(send.nbytes for send in sends if send.src in leaf and send.dst not in leaf)
        down = sum(send.nbytes for send in sends if send.dst in leaf and send.src not in leaf)
        assert up == down == 2 * (n_leaves - 1) * nbytes // n_leaves


def test_bytes_through_each_hosts_link_are_those_of_the_closed_form() -> None:
    _, sends = ina_leaf(6, [[0, 1, 2, 3], [4, 5]], nbytes=4000)
    sent, received = Counter[int](), Counter[int]()
    for send in sends:
        sent[send.src] += send.nbytes
        received[send.dst] += send.nbytes
    # S/2 round a ring of 2 leaves (2 (L-1)/L = 1), then S/2 to each of the leaf's others.
    assert [sent[rank] for rank in range(6)] == [2000 + 3 * 2000] * 2 + [0] * 2 + [2000 + 2000] * 2
    assert [received[rank] for rank in range(6)] == [2000 + 2000] * 2 + [4000] * 2 + [2000 + 2000] * 2


def test_a_send_waits_only_for_earlier_ones_that_its_rank_knows() -> None:
    _, sends = ina_leaf(6, [[3, 1], [0, 5], [4, 2]], 12_000)
    for number, send in enumerate(sends):
        for rank, others in ((send.src, send.needs), (send.dst, send.ready)):
            assert all(0 <= other < number for other in others)
            assert all(rank in (sends[other].src, sends[other].dst) for other in others)


def test_ranks_alone_under_their_switches_make_a_textbook_ring() -> None:
    assert ina_leaf(5, [[rank] for rank in range(5)], 20_000) == ((), list(ring(5, 20_000)))


def test_one_leaf_is_one_aggregation_and_nothing_else() -> None:
    assert ina_leaf(4, [[2, 0, 3, 1]], 4000) == ((ina(4),), [])


@pytest.mark.parametrize("n_ranks", [2, 16])
def test_ina_is_one_aggregation_of_all_ranks(n_ranks: int) -> None:
    everybody = tuple(range(n_ranks))
    assert ina(n_ranks) == Aggregation(0, everybody, everybody)


def test_one_rank_has_nothing_to_add() -> None:
    with pytest.raises(NotServedError, match="at least 2 ranks, got 1"):
        ina(1)
    with pytest.raises(NotServedError, match="at least 2 ranks, got 1"):
        ina_leaf(1, [[0]], 4000)


@pytest.mark.parametrize("leaves", [[], [[0, 1]], [[0, 1], [1, 2]], [[0, 1], [2, 3]]])
def test_leaves_that_do_not_have_each_rank_once_are_refused(leaves: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="each of 3 ranks once"):
        ina_leaf(3, leaves, 4000)

"""Algorithms: what ranks end with in any order that is allowed, and the steps and bytes of closed forms."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, log2, sqrt

import pytest

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms import doubling, ring, trees
from gradwire.traces.schedules.algorithms.doubletree import (
    best_pieces,
    double_binary_tree,
    double_binary_tree_s,
    edges,
)
from gradwire.traces.schedules.algorithms.hierarchical import (
    four_way_ring,
    four_way_ring_s,
    hierarchical,
    hierarchical_s,
    two_d_ring,
)
from gradwire.traces.schedules.algorithms.trees import SHAPES
from gradwire.traces.schedules.pacing import early
from gradwire.traces.schedules.schedule import Schedule, sent_nbytes
from gradwire.traces.schedules.sends import Send, Sends
from tests.made_orders import Held, held, in_any_order, step_by_step_s

ALPHA, BETA = 3e-5, 8e-8
GRIDS = [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (1, 5), (2, 8), (4, 4), (5, 3)]
SIZES = [0, 4, 12, 52, 1004]
Right = Callable[[Held, int, int], bool]


def summed(have: Held, n_ranks: int, nbytes: int) -> bool:
    everybody = Counter(range(n_ranks))
    return all(each == everybody for rank in have for each in rank.values())


def scattered() -> Right:
    """Whether each rank has the sum of its own chunk; chunks are cut at elements, as evenly as possible."""

    def right(have: Held, n_ranks: int, nbytes: int) -> bool:
        return all(
            have[rank][start] == Counter(range(n_ranks))
            for rank in range(n_ranks)
            for start in have[rank]
            if chunk_at(start, n_ranks, nbytes) == rank
        )

    return right


def gathered() -> Right:
    def right(have: Held, n_ranks: int, nbytes: int) -> bool:
        return all(
            each == Counter([chunk_at(start, n_ranks, nbytes)])
            for rank in have
            for start, each in rank.items()
        )

    return right


def chunk_at(start: int, n_ranks: int, nbytes: int) -> int:
    """Chunk i has the elements from floor(i E / p) on."""
    n_elements = nbytes // 4
    return max(i for i in range(n_ranks) if n_elements * i // n_ranks <= start // 4)


def at_root(root: int) -> Right:
    return lambda have, n_ranks, _: all(each == Counter(range(n_ranks)) for each in have[root].values())


def from_root(root: int) -> Right:
    return lambda have, *_: all(each == Counter([root]) for rank in have for each in rank.values())


def cases(sizes: list[int]) -> list[tuple[str, int, int, Sequence[Send], Right]]:
    """(name, ranks, bytes, early sends, whether what ranks hold is right) of every generator."""
    found: list[tuple[str, int, int, Sequence[Send], Right]] = []
    for nbytes in sizes:
        for p in range(2, 18):
            found += [
                ("ring reduce-scatter", p, nbytes, ring.reduce_scatter(p, nbytes), scattered()),
                ("ring all-gather", p, nbytes, ring.all_gather(p, nbytes), gathered()),
            ]
            if nbytes:  # a tree sends nothing, too, if that is all there is
                found += [
                    ("reduce", p, nbytes, trees.reduce(p, nbytes, root=p - 1), at_root(p - 1)),
                    ("broadcast", p, nbytes, trees.broadcast(p, nbytes, root=1), from_root(1)),
                ]
            for pieces in (1, 2, 5):
                name = f"double binary tree of {pieces} pieces"
                found.append((name, p, nbytes, double_binary_tree(p, nbytes, pieces), summed))
            if p & (p - 1) == 0:
                for near in (False, True):
                    scatter = doubling.reduce_scatter(p, nbytes, near_first=near)
                    gather = doubling.all_gather(p, nbytes, near_first=near)
                    found.append((f"halving, near first {near}", p, nbytes, scatter, scattered()))
                    found.append((f"doubling, near first {near}", p, nbytes, gather, gathered()))
        for rows, columns in GRIDS:
            p = rows * columns
            mixed = [[(7 * (i * columns + j)) % p for j in range(columns)] for i in range(rows)]
            across = doubling.halving_doubling if rows > 2 else ring.ring
            grouped = hierarchical(mixed, nbytes, across)
            found.append((f"hierarchical {rows} of {columns}", p, nbytes, grouped, summed))
            found.append((f"2D ring {rows}x{columns}", p, nbytes, two_d_ring(rows, columns, nbytes), summed))
            found.append(
                (f"four-way ring {rows}x{columns}", p, nbytes, four_way_ring(rows, columns, nbytes), summed)
            )
    return [(name, p, size, list(early(Sends.of(sends))), right) for name, p, size, sends, right in found]


@pytest.mark.broad(5)
@pytest.mark.parametrize("nbytes", SIZES)
def test_every_generator_keeps_its_contract_in_any_order_that_its_sends_allow(nbytes: int) -> None:
    for name, p, _, sends, right in cases([nbytes]):
        assert all(send.nbytes > 0 and send.op == 0 and send.src != send.dst for send in sends), name
        assert right(held(sends, p, nbytes), p, nbytes), (name, p, "as numbered")
        for seed in range(3):
            assert right(held(in_any_order(sends, seed), p, nbytes), p, nbytes), (name, p, seed)


def test_a_rank_waits_only_for_what_it_sends_or_receives_and_steps_go_up() -> None:
    for name, p, _, sends, _ in cases([1004]):
        for number, send in enumerate(sends):
            assert all(send.src in (sends[i].src, sends[i].dst) for i in send.needs), (name, p)
            assert all(send.dst in (sends[i].src, sends[i].dst) for i in send.ready), (name, p)
            for i in (*send.needs, *send.ready):  # two rings between the same two ranks come in their order
                same_ranks = (sends[i].src, sends[i].dst) == (send.src, send.dst)
                assert i < number and (sends[i].step < send.step or same_ranks), name


@pytest.mark.long
def test_a_send_left_out_or_added_for_replaced_breaks_every_contract() -> None:
    for name, p, nbytes, sends, right in cases([68]):
        if p not in (4, 6):
            continue
        for number, send in enumerate(sends):
            for broken in (replace(send, nbytes=0), replace(send, reduce=not send.reduce)):
                wrong = [*sends[:number], broken, *sends[number + 1 :]]
                have = held(wrong, p, nbytes, cut_by=sends)
                assert not right(have, p, nbytes), (name, p, number, broken)


def test_half_an_element_is_refused_where_data_are_added_and_copied_elsewhere() -> None:
    halves = ring.reduce_scatter, doubling.reduce_scatter, trees.reduce
    adders: tuple[Callable[[int, int], Sequence[Send]], ...] = (
        *halves,
        lambda p, nbytes: double_binary_tree(p, nbytes, 2),
        lambda p, nbytes: two_d_ring(2, p // 2, nbytes),
        lambda p, nbytes: four_way_ring(2, p // 2, nbytes),
    )
    for adds in adders:
        with pytest.raises(ValueError, match="1002 is not a multiple of 4"):
            adds(4, 1002)
    for sends in (ring.all_gather(4, 1002), doubling.all_gather(4, 1002)):
        assert gathered()(held(sends, 4, 1002), 4, 1002)
        assert sum(sent_nbytes(Schedule.of(4, (), tuple(sends)))) == 3 * 1002


@pytest.mark.parametrize("p", range(2, 18))
def test_halves_cost_what_their_closed_forms_say(p: int) -> None:
    nbytes = 4 * p * 30
    for half in (ring.reduce_scatter, ring.all_gather):
        sends = half(p, nbytes)
        assert set(sent_nbytes(Schedule.of(p, (), tuple(sends)))) == {(p - 1) * nbytes // p}
        assert {send.step for send in sends} == set(range(p - 1))
        expected = (p - 1) * ALPHA + (p - 1) / p * nbytes * BETA
        assert ring.half_s(p, nbytes, ALPHA, BETA) == pytest.approx(expected)
        assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(expected)
    broadcast = trees.broadcast(p, nbytes)
    expected = ceil(log2(p)) * (ALPHA + nbytes * BETA)
    assert trees.binomial_s(p, nbytes, ALPHA, BETA) == pytest.approx(expected)
    assert step_by_step_s(broadcast, ALPHA, BETA) == pytest.approx(expected)
    assert len(trees.reduce(p, nbytes)) == p - 1


@pytest.mark.parametrize("p", [2, 4, 8, 16])
@pytest.mark.parametrize("near_first", [False, True])
def test_halves_of_halving_doubling_have_lg_p_steps_at_the_distances_of_their_order(
    p: int, near_first: bool
) -> None:
    nbytes, lg = 4 * p * 30, int(log2(p))
    expected = lg * ALPHA + (p - 1) / p * nbytes * BETA
    assert doubling.half_s(p, nbytes, ALPHA, BETA) == pytest.approx(expected)
    scatter = doubling.reduce_scatter(p, nbytes, near_first=near_first)
    gather = doubling.all_gather(p, nbytes, near_first=near_first)
    up = [1 << bit for bit in range(lg)]
    for sends, distances in (
        (scatter, up if near_first else up[::-1]),
        (gather, up[::-1] if near_first else up),
    ):
        assert set(sent_nbytes(Schedule.of(p, (), tuple(sends)))) == {(p - 1) * nbytes // p}
        assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(expected)
        assert {(send.step, send.src ^ send.dst) for send in sends} == set(enumerate(distances))
    sent = Counter[int]()
    for send in scatter:
        sent[send.step] += send.nbytes
    assert [sent[step] // p for step in range(lg)] == [nbytes >> k for k in range(1, lg + 1)]


def test_near_first_halves_together_are_halving_doubling() -> None:
    nbytes = 4 * 16 * 10
    halves = (
        doubling.reduce_scatter(16, nbytes, near_first=True),
        doubling.all_gather(16, nbytes, near_first=True),
    )
    both = passed(halves[0], 0) + passed(halves[1], 4)
    assert both == passed(doubling.halving_doubling(16, nbytes), 0)


def passed(sends: Sequence[Send], first_step: int) -> Counter[tuple[int, int, int]]:
    """Bytes by step, source and destination: which ones they are differs, as rank r ends with chunk r."""
    found = Counter[tuple[int, int, int]]()
    for send in sends:
        found[send.step + first_step, send.src, send.dst] += send.nbytes
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reduce_along_any_shape_sums_at_its_root(shape: str) -> None:
    for p in range(2, 10):
        sends = trees.reduce(p, 8, 0, shape)  # type: ignore[arg-type]
        assert len(sends) == p - 1
        assert at_root(0)(held(sends, p, 8), p, 8)


@pytest.mark.parametrize("p", [3, 6, 12])
def test_halves_of_halving_doubling_refuse_other_ranks_than_powers_of_two(p: int) -> None:
    for half in (doubling.reduce_scatter, doubling.all_gather):
        with pytest.raises(NotServedError, match=f"power of two ranks, got {p}"):
            half(p, 400)


@pytest.mark.parametrize("p", range(2, 40))
def test_a_rank_has_children_in_one_of_the_two_trees_at_most(p: int) -> None:
    found = edges(p)
    for tree in (0, 1):
        assert sorted(edge.child for edge in found if edge.tree == tree) == sorted(
            set(range(p)) - {next(e.parent for e in found if e.tree == tree)}
        )
        children = Counter(edge.parent for edge in found if edge.tree == tree)
        assert max(children.values()) <= 2
    assert not {e.parent for e in found if e.tree == 0} & {e.parent for e in found if e.tree == 1}
    depth: dict[tuple[int, int], int] = {}
    for edge in found:
        depth[edge.tree, edge.child] = depth.get((edge.tree, edge.parent), 0) + 1
    assert max(depth.values()) <= ceil(log2(p))


@pytest.mark.parametrize("p", range(2, 18))
@pytest.mark.parametrize("n_pieces", [1, 3, 8])
def test_a_double_binary_tree_keeps_to_one_send_a_step_and_to_the_steps_of_its_closed_form(
    p: int, n_pieces: int
) -> None:
    nbytes = 4 * 2 * n_pieces * 10
    sends = double_binary_tree(p, nbytes, n_pieces)
    assert max(Counter((send.step, send.src) for send in sends).values()) == 1
    assert max(Counter((send.step, send.dst) for send in sends).values()) == 1
    height = ceil(log2(p))
    n_steps = max(send.step for send in sends) + 1
    assert n_steps <= 4 * (n_pieces + height - 1)
    assert n_steps >= 4 * (n_pieces - 1) + 2 * int(log2(p))
    sent = sent_nbytes(Schedule.of(p, (), tuple(sends)))
    assert sum(sent) == 2 * (p - 1) * nbytes
    assert max(sent) <= 2 * nbytes
    assert {send.nbytes for send in sends} == {nbytes // (2 * n_pieces)}


def test_the_best_pieces_of_a_double_binary_tree_are_those_of_the_formula() -> None:
    """T* = 2 S beta + 4(h-1) alpha + 4 sqrt(2(h-1) S alpha beta)."""
    for p, nbytes in ((8, 1 << 20), (17, 1 << 24), (64, 1 << 26)):
        h = ceil(log2(p))
        ideal = sqrt((h - 1) * nbytes * BETA / (2 * ALPHA))
        best_s = 2 * nbytes * BETA + 4 * (h - 1) * ALPHA + 4 * sqrt(2 * (h - 1) * nbytes * ALPHA * BETA)
        assert double_binary_tree_s(p, nbytes, ALPHA, BETA, ideal) == pytest.approx(best_s)
        assert abs(best_pieces(p, nbytes, ALPHA, BETA) - ideal) < 1
        assert double_binary_tree_s(p, nbytes, ALPHA, BETA) == pytest.approx(best_s, rel=1e-3)
    assert best_pieces(8, 40, ALPHA, 0.0) == best_pieces(2, 1 << 20, ALPHA, BETA) == 1
    assert best_pieces(8, 40, 0.0, BETA) == 5  # an element each


def test_a_double_binary_tree_without_pieces_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 piece for each tree, got 0"):
        double_binary_tree(4, 400, 0)


@pytest.mark.parametrize(("rows", "columns"), GRIDS)
def test_hierarchical_allreduces_cost_what_their_closed_form_says(rows: int, columns: int) -> None:
    p = rows * columns
    nbytes = 4 * p * 30
    sends = two_d_ring(rows, columns, nbytes)
    expected = 2 * (rows + columns - 2) * ALPHA + 2 * (p - 1) / p * nbytes * BETA
    assert hierarchical_s(columns, rows, nbytes, ALPHA, BETA) == pytest.approx(expected)
    assert step_by_step_s(sends, ALPHA, BETA) == pytest.approx(expected)
    assert set(sent_nbytes(Schedule.of(p, (), tuple(sends)))) == {2 * (p - 1) * nbytes // p}
    outside = Counter(s.src for s in sends for _ in range(s.nbytes) if s.src // columns != s.dst // columns)
    assert set(outside.values()) <= {2 * (rows - 1) * nbytes // p}


@pytest.mark.parametrize("a", [2, 3, 4, 5])
def test_the_four_way_ring_keeps_each_link_of_a_torus_to_one_send_a_step(a: int) -> None:
    nbytes = 4 * 4 * a * a * 10
    sends = four_way_ring(a, a, nbytes)
    expected = 4 * (a - 1) * (ALPHA + nbytes / (4 * a) * BETA)
    assert four_way_ring_s(a, nbytes, ALPHA, BETA) == pytest.approx(expected)
    assert set(sent_nbytes(Schedule.of(a * a, (), tuple(sends)))) == {4 * (a - 1) * nbytes // a}
    if a > 2:  # else both ways round a ring lead over the same two cables, one for each
        assert max(Counter((s.step, s.src, s.dst) for s in sends).values()) == 1
        assert step_by_step_s(sends, ALPHA, BETA, by_link=True) == pytest.approx(expected)


def test_groups_that_cannot_be_served_are_refused() -> None:
    with pytest.raises(ValueError, match="groups of one size, got 1 to 2 ranks each"):
        hierarchical(((0, 1), (2,)), 400)
    for groups in (((0, 1), (1, 2)), ((0, 1), (2, 4))):
        with pytest.raises(ValueError, match="each of the ranks 0 to 3 once"):
            hierarchical(groups, 400)
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        hierarchical(((0,),), 400)
    with pytest.raises(ValueError, match="at least 1 row and 1 column, got 0 and 3"):
        two_d_ring(0, 3, 400)


def test_one_rank_is_refused() -> None:
    for one in (ring.reduce_scatter, ring.all_gather, doubling.reduce_scatter, doubling.all_gather):
        with pytest.raises(NotServedError, match="at least 2 ranks"):
            one(1, 400)
    for other in (trees.reduce, trees.broadcast, lambda p, n: double_binary_tree(p, n, 1)):
        with pytest.raises(NotServedError, match="at least 2 ranks"):
            other(1, 400)

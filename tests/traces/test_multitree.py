"""MultiTree: the step counts and depths of the authors' simulator, exclusive links, and right sums."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.algorithms.multitree import grow, multitree, multitree_s
from gradwire.traces.schedules.names import PACES
from gradwire.traces.schedules.pacing import by_step, paced
from gradwire.traces.schedules.schedule import Schedule, sent_nbytes
from gradwire.traces.schedules.sends import Sends
from tests.made_orders import held, in_any_order

# The simulator's order of a node's links (src/allreduce/network/kncube.py); the counts of meshes hang on it.
UP_DOWN_LEFT_RIGHT = ((-1, 0), (1, 0), (0, -1), (0, 1))


def grid(side: int, *, wraps: bool, at_switches: bool = False) -> Graph:
    """A torus or a mesh whose nodes are hosts, or switches with one host whose link is four times as fast."""
    n = side * side
    name = "s{}" if at_switches else "{}"
    capacity: Counter[tuple[str, str]] = Counter()
    for row, column in product(range(side), repeat=2):
        for down, right in UP_DOWN_LEFT_RIGHT:
            to_row, to_column = row + down, column + right
            if wraps:
                to_row, to_column = to_row % side, to_column % side
            if 0 <= to_row < side and 0 <= to_column < side:
                a, b = name.format(row * side + column), name.format(to_row * side + to_column)
                capacity[a, b] += 1
    nodes = tuple(name.format(number) for number in range(n))
    if not at_switches:
        return Graph(nodes, nodes, nodes, capacity)
    hosts = tuple(f"h{number}" for number in range(n))
    for host, switch in zip(hosts, nodes, strict=True):
        capacity[host, switch] = capacity[switch, host] = 4
    return Graph((*hosts, *nodes), hosts, hosts, capacity)


def switched(switches: Sequence[str], access: Sequence[str], between: Sequence[tuple[str, str]]) -> Graph:
    """Host i hangs off switch `access[i]`; all links are alike."""
    hosts = tuple(f"h{number}" for number in range(len(access)))
    cables = [*zip(hosts, access, strict=True), *between]
    capacity = {link: 1 for a, b in cables for link in ((a, b), (b, a))}
    return Graph((*hosts, *switches), hosts, hosts, capacity)


def bigraph(n: int, m: int) -> Graph:
    upper, lower = [f"upper{i}" for i in range(n // 2)], [f"lower{i}" for i in range(n // 2)]
    both = upper + lower
    return switched(both, [switch for switch in both for _ in range(m)], list(product(upper, lower)))


def leaf_spine(leaves: int, spines: int, hosts: int) -> Graph:
    below, above = [f"leaf{i}" for i in range(leaves)], [f"spine{i}" for i in range(spines)]
    return switched(
        below + above, [leaf for leaf in below for _ in range(hosts)], list(product(below, above))
    )


GOLDEN = [  # (graph, tau, D): a run of the authors' simulator, github.com/farabimahmud/accelerator
    ("mesh 2x2", grid(2, wraps=False), 2, 2),
    ("torus 4x4", grid(4, wraps=True), 5, 4),
    ("torus 6x6", grid(6, wraps=True), 10, 6),
    ("torus 8x8", grid(8, wraps=True), 17, 8),
    ("torus 10x10", grid(10, wraps=True), 26, 10),
    ("bigraph:n=4,m=2", bigraph(4, 2), 7, 2),
    ("bigraph:n=8,m=2", bigraph(8, 2), 15, 2),
    ("bigraph:n=8,m=4", bigraph(8, 4), 31, 2),
    ("bigraph:n=16,m=4", bigraph(16, 4), 63, 2),
    ("leaf-spine 4x4", leaf_spine(4, 4, 4), 15, 1),
    ("leaf-spine 8x8", leaf_spine(8, 8, 8), 63, 1),
]
NAMES = [name for name, *_ in GOLDEN]


@pytest.mark.broad(6)
@pytest.mark.parametrize(("name", "graph", "tau", "depth"), GOLDEN, ids=NAMES)
@pytest.mark.parametrize("reference", [False, True])
def test_steps_and_depths_are_those_of_the_authors_simulator(
    name: str, graph: Graph, tau: int, depth: int, reference: bool
) -> None:
    trees = grow(graph, reference=reference)
    assert (trees.n_steps, trees.depth) == (tau, depth)


@pytest.mark.parametrize(
    ("side", "reference", "tau", "depth"),
    [(4, True, 10, 6), (8, True, 33, 14), (4, False, 8, 6), (8, False, 32, 15)],
)
def test_a_mesh_takes_more_steps_by_the_simulators_rule_for_the_end_of_one(
    side: int, reference: bool, tau: int, depth: int
) -> None:
    """The lower bound, 15/2 and 63/2 at a corner, is met without that rule."""
    trees = grow(grid(side, wraps=False), reference=reference)
    assert (trees.n_steps, trees.depth) == (tau, depth)


@pytest.mark.parametrize(("side", "tau"), [(4, 5), (6, 10), (8, 17), (10, 26)])
def test_a_torus_of_switches_takes_as_many_steps_if_its_hosts_can_fill_four_links(
    side: int, tau: int
) -> None:
    assert grow(grid(side, wraps=True, at_switches=True)).n_steps == tau


def test_an_oversubscribed_leaf_spine_takes_what_its_uplinks_need() -> None:
    """24 = 12 chunks from outside for each of 4 hosts of a leaf, over 2 uplinks."""
    assert grow(leaf_spine(4, 2, 4)).n_steps == 24


@pytest.mark.parametrize(("name", "graph", "tau", "depth"), GOLDEN, ids=NAMES)
def test_trees_span_all_ranks_over_links_that_no_step_takes_twice(
    name: str, graph: Graph, tau: int, depth: int
) -> None:
    trees = grow(graph)
    used: Counter[tuple[int, str, str]] = Counter()
    joined = {(root, root): -1 for root in range(graph.n_ranks)}
    for edge in trees.edges:
        assert edge.path[0] == graph.ranks[edge.parent] and edge.path[-1] == graph.ranks[edge.child]
        used.update((edge.step, a, b) for a, b in pairwise(edge.path))
        assert joined[edge.root, edge.parent] < edge.step
        assert (edge.root, edge.child) not in joined
        joined[edge.root, edge.child] = edge.step
    assert len(joined) == graph.n_ranks**2
    assert all(count <= graph.capacity[a, b] for (_, a, b), count in used.items())


@pytest.mark.parametrize("p", range(2, 18))
def test_under_one_switch_a_power_of_two_takes_p_minus_1_steps_and_no_number_of_ranks_twice_as_many(
    p: int,
) -> None:
    """The first child that is free is root xor step for a power of two, so that nobody is left without."""
    tau = grow(switched(["s"], ["s"] * p, [])).n_steps
    assert tau == p - 1 if p & (p - 1) == 0 else p - 1 <= tau <= 2 * p - 2


SMALL = [grid(2, wraps=False), grid(3, wraps=True), grid(4, wraps=False), bigraph(4, 2), leaf_spine(3, 2, 2)]
STARS = [switched(["s"], ["s"] * p, []) for p in range(2, 18)]


@pytest.mark.broad(6)
@pytest.mark.parametrize("graph", SMALL + STARS)
def test_every_rank_ends_with_the_sum_in_any_order_that_its_sends_allow(graph: Graph) -> None:
    everybody = Counter(range(graph.n_ranks))
    for nbytes, pace in product((0, 4, 52, 1004), PACES):
        sends = paced(Sends.of(multitree(graph, nbytes)), pace)
        for order in (sends, in_any_order(sends, 1), in_any_order(sends, 2)):
            have = held(order, graph.n_ranks, nbytes)
            assert all(each == everybody for rank in have for each in rank.values())
        assert all(send.nbytes for send in sends)


@pytest.mark.broad(6)
@pytest.mark.parametrize("graph", [*SMALL, STARS[3]])
def test_a_send_left_out_or_replaced_for_added_is_noticed(graph: Graph) -> None:
    nbytes = 4 * graph.n_ranks
    sends = multitree(graph, nbytes)
    everybody = Counter(range(graph.n_ranks))
    for number, send in list(enumerate(sends))[:: len(sends) // 60 or 1]:
        for broken in (replace(send, nbytes=0), replace(send, reduce=not send.reduce)):
            wrong = [*sends[:number], broken, *sends[number + 1 :]]
            have = held(wrong, graph.n_ranks, nbytes, cut_by=sends)
            assert any(each != everybody for rank in have for each in rank.values())


@pytest.mark.broad(4)
@pytest.mark.parametrize(("name", "graph", "tau", "depth"), GOLDEN[:8], ids=NAMES[:8])
def test_each_rank_gives_and_gets_what_a_ring_gives_it_in_2_tau_steps(
    name: str, graph: Graph, tau: int, depth: int
) -> None:
    p = graph.n_ranks
    nbytes = 4 * p
    sends = multitree(graph, nbytes)
    up, down = Counter[int](), Counter[int]()
    for send in sends:
        if send.reduce:
            up[send.src] += send.nbytes
        else:
            down[send.dst] += send.nbytes
    assert up == down == dict.fromkeys(range(p), (p - 1) * nbytes // p)
    assert sum(send.nbytes for send in sends) == 2 * (p - 1) * nbytes
    assert {send.step for send in sends} == set(range(2 * tau))
    at = 3e-5, 8e-8
    assert multitree_s(grow(graph), nbytes, *at) == pytest.approx(
        2 * (tau * nbytes / p * at[1] + depth * at[0])
    )


def test_on_switches_each_rank_sends_and_receives_one_chunk_a_step() -> None:
    for graph in (bigraph(8, 2), leaf_spine(4, 4, 4)):
        sends = multitree(graph, 4 * graph.n_ranks)
        assert max(Counter((send.step, send.src) for send in sends).values()) == 1
        assert max(Counter((send.step, send.dst) for send in sends).values()) == 1
        sent = sent_nbytes(Schedule.of(graph.n_ranks, (), tuple(sends)))
        assert set(sent) == {2 * (graph.n_ranks - 1) * 4}


def test_paced_ranks_are_done_with_a_step_before_the_next() -> None:
    sends = by_step(Sends.of(multitree(bigraph(4, 2), 64)))
    for send in sends:
        for rank, before in ((send.src, send.needs), (send.dst, send.ready)):
            earlier = [i for i, s in enumerate(sends) if s.step < send.step and rank in (s.src, s.dst)]
            last = max((sends[i].step for i in earlier), default=None)
            assert {i for i in earlier if sends[i].step == last} <= set(before)


LINE = {
    link: 1
    for a, b in (("h0", "a"), ("a", "b"), ("b", "c"), ("h1", "b"), ("h2", "c"))
    for link in ((a, b), (b, a))
}


def test_a_switch_on_the_way_that_has_only_hosts_without_ranks_is_refused() -> None:
    nodes = ("h0", "h1", "h2", "a", "b", "c")
    graph = Graph(nodes, hosts=("h0", "h1", "h2"), ranks=("h0", "h2"), capacity=LINE)
    with pytest.raises(
        ValueError, match="no way from rank 0 to rank 1: it passes only switches without hosts, and b"
    ):
        grow(graph)
    assert grow(replace(graph, ranks=("h0", "h1", "h2"))).depth == 2  # by way of the host at b
    without = {link: 1 for link in LINE if "h1" not in link}
    assert grow(Graph(nodes, ("h0", "h1", "h2"), ("h0", "h2"), without)).depth == 1


def test_what_is_not_connected_is_refused() -> None:
    apart = {link: 1 for link in LINE if link not in (("b", "c"), ("c", "b"))}
    with pytest.raises(ValueError, match="no way from rank 0 to rank 2: the network does not connect them"):
        grow(Graph(("h0", "h1", "h2", "a", "b", "c"), ("h0", "h1", "h2"), ("h0", "h1", "h2"), apart))


def test_graphs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 message a step, and as many back"):
        Graph(("a", "b"), ("a", "b"), ("a", "b"), {("a", "b"): 2, ("b", "a"): 1})
    with pytest.raises(ValueError, match="a node that the graph does not have"):
        Graph(("a",), ("a",), ("a",), {("a", "b"): 1, ("b", "a"): 1})
    with pytest.raises(ValueError, match="every rank needs a host of its own"):
        Graph(("a", "b"), ("a",), ("a", "b"), {("a", "b"): 1, ("b", "a"): 1})
    with pytest.raises(NotServedError, match="at least 2 ranks"):
        multitree(Graph(("a",), ("a",), ("a",), {}), 4)

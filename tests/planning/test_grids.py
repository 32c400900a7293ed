"""Tori and meshes: cables, distances and cuts from closed forms, and what MultiTree makes of their order."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import comb

import numpy as np
import pytest

from gradwire.planning.fabrics.bisection import worst_even_cut
from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.grids import least_cuts
from gradwire.planning.fabrics.paths import access_switch, distances, path_counts
from gradwire.planning.fabrics.spec import parse_fabric

M = 10**6


def neighbours(fabric: Fabric, number: int) -> list[int]:
    """The numbers of the nodes that node `number` has a cable to, ascending."""
    own = fabric.neighbours[f"node{number}"].values()
    return sorted(int(peer.removeprefix("node")) for peer in own if peer not in fabric.host_set)


def test_node_x_y_has_the_number_x_times_y_s_size_plus_y_and_four_neighbours() -> None:
    fabric = parse_fabric("torus:x=3,y=5")
    for x, y in product(range(3), range(5)):
        beside = [((x + 1) % 3, y), ((x - 1) % 3, y), (x, (y + 1) % 5), (x, (y - 1) % 5)]
        assert neighbours(fabric, 5 * x + y) == sorted(5 * u + v for u, v in beside)
        assert access_switch(fabric, f"h{5 * x + y}") == f"node{5 * x + y}"


def test_a_mesh_has_no_cables_around() -> None:
    fabric = parse_fabric("mesh:x=3,y=5")
    for x, y in product(range(3), range(5)):
        beside = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
        assert neighbours(fabric, 5 * x + y) == sorted(
            5 * u + v for u, v in beside if 0 <= u < 3 and 0 <= v < 5
        )


@pytest.mark.parametrize(
    ("spec", "n_cables"),
    [
        ("torus:x=4,y=4", 32),  # 2 * x * y
        ("torus:x=3,y=7", 42),
        ("mesh:x=4,y=4", 24),  # x * (y - 1) + y * (x - 1)
        ("mesh:x=3,y=7", 32),
        ("torus:x=2,y=5", 2 * 5 + 5),  # two rings, and one cable between each two nodes
        ("torus:x=2,y=2", 4),
        ("torus:x=1,y=6", 6),  # a ring
        ("torus:x=6,y=1", 6),
        ("torus:x=1,y=2", 1),
        ("mesh:x=1,y=6", 5),
    ],
)
def test_cables_are_as_many_as_the_closed_form_says_and_no_two_join_the_same_nodes(
    spec: str, n_cables: int
) -> None:
    fabric = parse_fabric(spec)
    assert len(fabric.inner_links) == n_cables
    assert len({frozenset((link.a, link.b)) for link in fabric.inner_links}) == n_cables


def test_a_host_has_four_times_the_rate_of_a_cable_between_switches() -> None:
    def rates(spec: str) -> set[tuple[bool, int]]:
        fabric = parse_fabric(spec)
        return {(is_host(fabric, link), link.rate_bps) for link in fabric.links}

    assert rates("torus:x=3,y=3,rate=50M") == {(True, 200 * M), (False, 50 * M)}
    assert rates("mesh:x=3,y=3,host_rate=70M") == {(True, 70 * M), (False, 100 * M)}


def is_host(fabric: Fabric, link: Link) -> bool:
    return link in fabric.host_links


@pytest.mark.parametrize(("n_x", "n_y"), [(4, 4), (5, 4), (2, 6), (3, 7)])
def test_hops_of_a_torus_go_round_the_shorter_way(n_x: int, n_y: int) -> None:
    far = distances(parse_fabric(f"torus:x={n_x},y={n_y}"), "node0")
    for x, y in product(range(n_x), range(n_y)):
        assert far[f"node{x * n_y + y}"] == min(x, n_x - x) + min(y, n_y - y)


def test_shortest_paths_are_the_orders_in_which_hops_can_be_taken() -> None:
    mesh = parse_fabric("mesh:x=4,y=5")
    counts = path_counts(mesh, distances(mesh, "node0"))
    assert all(counts[f"node{5 * x + y}"] == comb(x + y, x) for x, y in product(range(4), range(5)))
    torus = parse_fabric("torus:x=4,y=4")
    # Both ways round are as short for two of four, so twice two ways in each of comb(4, 2) orders.
    assert path_counts(torus, distances(torus, "node0"))["node10"] == 4 * comb(4, 2)


@pytest.mark.parametrize("k", [4, 6, 8, 16, 32])
def test_half_of_a_square_torus_has_2_k_cables_to_the_other_and_of_a_mesh_k(k: int) -> None:
    for family, n_cables in (("torus", 2 * k), ("mesh", k)):
        cut = worst_even_cut(parse_fabric(f"{family}:x={k},y={k},rate=50M"))
        assert cut.is_exact
        assert cut.bps == n_cables * 50 * M
        assert cut.near == tuple(f"node{number}" for number in range(k * k // 2))


@pytest.mark.parametrize("k", [3, 5, 7])
def test_with_an_odd_number_of_columns_one_of_them_is_parted_as_well(k: int) -> None:
    assert worst_even_cut(parse_fabric(f"torus:x={k},y={k}")).bps == (2 * k + 2) * 100 * M
    assert worst_even_cut(parse_fabric(f"mesh:x={k},y={k}")).bps == (k + 1) * 100 * M


@pytest.mark.parametrize("family", ["torus", "mesh"])
@pytest.mark.parametrize(
    ("n_x", "n_y"),
    [(1, 2), (2, 1), (1, 9), (2, 2), (2, 3), (3, 2), (2, 7), (7, 2), (3, 3), (3, 5), (5, 3), (4, 4), (2, 8)],
)
def test_no_cut_of_any_size_severs_fewer_cables(family: str, n_x: int, n_y: int) -> None:
    """All 2^n cuts against the closed form."""
    fabric, n_nodes = parse_fabric(f"{family}:x={n_x},y={n_y}"), n_x * n_y
    masks = np.arange(1 << n_nodes)
    near = [masks >> number & 1 for number in range(n_nodes)]
    size, severed = sum(near), np.zeros_like(masks)
    ends = [
        (int(link.a.removeprefix("node")), int(link.b.removeprefix("node"))) for link in fabric.inner_links
    ]
    for a, b in ends:
        severed += near[a] != near[b]
    found = list(least_cuts(n_x, n_y, wraps=family == "torus"))
    assert [len(nodes) for _, nodes in found] == list(range(n_nodes // 2 + 1))
    for count, (n_severed, nodes) in enumerate(found):
        assert n_severed == severed[size == count].min()
        assert n_severed == sum((a in nodes) != (b in nodes) for a, b in ends)


def grown(fabric: Fabric, ends_early: bool) -> tuple[int, int]:
    """The time steps and the depth of MultiTree's trees (Huang et al., ISCA 2021), one from each node.

    In each step every tree may take links that no other takes; in rounds each adds one node, in the order of
    their roots.  `ends_early`: a step ends when the last tree that is not complete cannot grow, as in its
    authors' simulator.
    """
    switches = fabric.switches
    beside = {
        switch: [peer for peer in fabric.neighbours[switch].values() if peer in switches]
        for switch in switches
    }
    depth = [{root: 0} for root in switches]
    step = 0
    while any(len(tree) < len(switches) for tree in depth):
        free = {(switch, peer) for switch in switches for peer in beside[switch]}
        parents = [list(tree) for tree in depth]
        goes_on = True
        while goes_on:
            growing = [root for root, tree in enumerate(depth) if len(tree) < len(switches)]
            grew = [add_node(depth[root], parents[root], beside, free) for root in growing]
            goes_on = any(grew) and (grew[-1] or not ends_early)
        step += 1
    return step, max(max(tree.values()) for tree in depth)


def add_node(
    tree: dict[str, int],
    parents: Sequence[str],
    beside: Mapping[str, Sequence[str]],
    free: set[tuple[str, str]],
) -> bool:
    """Whether a link was free from a parent to a node that the tree lacks."""
    for parent in parents:
        for child in beside[parent]:
            if child not in tree and (parent, child) in free:
                free.remove((parent, child))
                tree[child] = tree[parent] + 1
                return True
    return False


@pytest.mark.parametrize(
    ("spec", "ends_early", "golden"),
    [
        ("torus:x=4,y=4", True, (5, 4)),
        ("torus:x=4,y=4", False, (5, 4)),
        ("torus:x=6,y=6", True, (10, 6)),
        ("torus:x=8,y=8", True, (17, 8)),
        ("torus:x=10,y=10", True, (26, 10)),
        ("mesh:x=2,y=2", True, (2, 2)),
        ("mesh:x=4,y=4", True, (10, 6)),
        ("mesh:x=4,y=4", False, (8, 6)),
        ("mesh:x=8,y=8", True, (33, 14)),
        ("mesh:x=8,y=8", False, (32, 15)),
    ],
)
def test_multitree_takes_the_published_numbers_of_steps(
    spec: str, ends_early: bool, golden: tuple[int, int]
) -> None:
    """Of its authors' simulator; the order of nodes and of ports decides what can be added."""
    assert grown(parse_fabric(spec), ends_early) == golden


def test_ports_lead_to_the_host_then_along_x_then_along_y() -> None:
    mesh = parse_fabric("mesh:x=3,y=3")
    assert list(mesh.neighbours["node4"].values()) == ["h4", "node1", "node7", "node3", "node5"]
    torus = parse_fabric("torus:x=3,y=3")
    assert list(torus.neighbours["node4"].values()) == ["h4", "node1", "node7", "node3", "node5"]
    assert list(torus.neighbours["node0"].values()) == ["h0", "node6", "node3", "node2", "node1"]

"""Figures of a fabric against brute force over all halves, and against the papers' formulas."""

from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest

from emu.fabric import Fabric, cable
from emu.figures import figures, oversubscription
from emu.spec import parse_fabric

M = 10**6


def least_cut_bps(fabric: Fabric) -> int:
    """The least max-flow between two halves of the hosts, over all ways to halve them."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for end, peer in fabric.peers.items():
        graph.add_edge(end.node, peer.node, capacity=fabric.rates[end])
    first, *others = fabric.hosts
    least = None
    for rest in combinations(others, len(fabric.hosts) // 2 - 1):
        near = {first, *rest}
        for host in fabric.hosts:
            graph.add_edge("near", host, capacity=M**3 if host in near else 0)
            graph.add_edge(host, "far", capacity=0 if host in near else M**3)
        cut = int(nx.maximum_flow_value(graph, "near", "far"))
        least = cut if least is None else min(least, cut)
    assert least is not None
    return least


@pytest.mark.parametrize(
    "spec",
    [
        "star:hosts=5",
        "star:hosts=6",
        "fat-tree:k=2",
        "fat-tree:k=2,levels=2",
        "fat-tree:k=4,levels=2",
        "fat-tree:k=4,levels=2,uplink_rate=30M",
        "fat-tree:k=4,levels=2,uplink_rate=300M",
        "leaf-spine:leaves=3,spines=1,hosts=2",
        "leaf-spine:leaves=3,spines=2,hosts=3,uplink_rate=60M",
        "leaf-spine:leaves=5,spines=1,hosts=1",
        "bigraph:n=2,m=3",
        "bigraph:n=4,m=2",
        "bigraph:n=4,m=2,uplink_rate=300M",
        "bigraph:n=6,m=1",
        "bigraph:n=8,m=1",
    ],
)
def test_bisection_is_the_least_cut_over_all_halves(spec: str) -> None:
    fabric = parse_fabric(spec)
    assert figures(fabric).bisection_bps == least_cut_bps(fabric)


@pytest.mark.parametrize("spec", ["bigraph:n=4,m=2", "fat-tree:k=4,levels=2,uplink_rate=30M", "star:hosts=5"])
def test_of_an_unknown_family_a_bound_of_the_bisection_is_told_as_one(spec: str) -> None:
    known = parse_fabric(spec)
    unknown = replace(known, family="made", shape={})
    assert figures(known).bisection_is_exact
    assert not figures(unknown).bisection_is_exact
    assert figures(unknown).bisection_bps >= least_cut_bps(known)
    assert figures(unknown).bisection_bps <= len(known.hosts) // 2 * 100 * M


def test_a_bound_of_the_bisection_counts_cables_side_by_side() -> None:
    cables = [("h0", "left", M), ("h1", "right", M), ("left", "right", M // 4), ("left", "right", M // 2)]
    fabric = Fabric("made:", "made", {}, ("h0", "h1"), ("left", "right"), cable(cables))
    assert figures(fabric).bisection_bps == M // 4 + M // 2


def test_a_three_level_fat_trees_bisection_holds_against_some_hard_cuts() -> None:
    fabric = parse_fabric("fat-tree:k=4,uplink_rate=40M")
    graph: nx.Graph[str] = nx.Graph()
    for link in fabric.links:
        graph.add_edge(link.a, link.b, capacity=link.rate_bps)
    for near in (range(8), range(0, 16, 2), (0, 1, 4, 5, 8, 9, 12, 13), (0, 1, 2, 3, 4, 5, 8, 9)):
        cut = graph.copy()
        for i, host in enumerate(fabric.hosts):
            cut.add_edge("near" if i in near else "far", host, capacity=M**3)
        assert nx.maximum_flow_value(cut, "near", "far") >= figures(fabric).bisection_bps == 8 * 40 * M


@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_bigraphs_worst_even_cut_has_n_squared_over_8_cables(n: int) -> None:
    fabric = parse_fabric(f"bigraph:n={n},m={n // 2}")
    assert figures(fabric).bisection_bps == n * n // 8 * 100 * M


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # hosts, switches, switch ports, cables, oversubscription, path counts, diameter
        ("fat-tree:k=4", (16, 20, 80, 48, 1.0, (1, 2, 4), 5)),
        ("fat-tree:k=8", (128, 80, 640, 384, 1.0, (1, 4, 16), 5)),
        ("fat-tree:k=4,levels=2", (8, 6, 24, 16, 1.0, (1, 2), 3)),
        ("leaf-spine:leaves=4,spines=2,hosts=8", (32, 6, 48, 40, 4.0, (1, 2), 3)),
        ("bigraph:n=4,m=2", (8, 4, 16, 12, 1.0, (1, 2), 3)),
        ("bigraph:n=8,m=2", (16, 8, 48, 32, 0.5, (1, 4), 3)),
        ("bigraph:n=4,m=1", (4, 4, 12, 8, 0.5, (1, 2), 3)),
        ("star:hosts=8", (8, 1, 8, 8, 1.0, (1,), 1)),
    ],
)
def test_the_figures_are_the_textbooks(spec: str, expected: tuple[object, ...]) -> None:
    f = figures(parse_fabric(spec))
    shown = (f.n_hosts, f.n_switches, f.n_ports, f.n_cables, f.oversubscription, f.n_paths, f.diameter)
    assert shown == expected


def test_a_slower_uplink_is_oversubscribed() -> None:
    assert oversubscription(parse_fabric("fat-tree:k=4,uplink_rate=25M")) == 4.0

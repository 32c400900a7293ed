"""The worst even cut against brute force over all halves of the hosts, by maximum flow."""

from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics import bisection
from gradwire.planning.fabrics.bisection import full_bps, worst_even_cut
from gradwire.planning.fabrics.fabric import Fabric, Wire, cable
from gradwire.planning.fabrics.spec import parse_fabric

M = 10**6
SPECS = [
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
    "torus:x=2,y=2",
    "torus:x=1,y=5",
    "torus:x=3,y=3",
    "torus:x=2,y=4,host_rate=100M",
    "mesh:x=3,y=3",
    "mesh:x=2,y=5,host_rate=100M",
    "mesh:x=7,y=1,host_rate=30M",
    "star:hosts=5,rate@h0=800M",
    "bigraph:n=4,m=2,rate@h7=10M,rate@upper0-lower1=20M",
    "torus:x=3,y=3,rate@node0-node1=10M",
]


def least_cut_bps(fabric: Fabric) -> int:
    """The least max-flow between two halves of the hosts, over all ways to halve them."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for end, peer in fabric.peers.items():
        others_bps = graph.get_edge_data(end.node, peer.node, {"capacity": 0})["capacity"]
        graph.add_edge(end.node, peer.node, capacity=others_bps + fabric.rates[end])
    first, *others = fabric.hosts
    least = None
    sizes = {len(fabric.hosts) // 2, (len(fabric.hosts) + 1) // 2}  # of the half that the first is in
    for rest in (rest for size in sizes for rest in combinations(others, size - 1)):
        near = {first, *rest}
        for host in fabric.hosts:
            graph.add_edge("near", host, capacity=M**3 if host in near else 0)
            graph.add_edge(host, "far", capacity=0 if host in near else M**3)
        cut = int(nx.maximum_flow_value(graph, "near", "far"))
        least = cut if least is None else min(least, cut)
    assert least is not None
    return least


@pytest.mark.parametrize("spec", SPECS)
def test_bisection_is_the_least_cut_over_all_halves(spec: str) -> None:
    fabric = parse_fabric(spec)
    assert worst_even_cut(fabric).bps == least_cut_bps(fabric)


@pytest.mark.parametrize("spec", SPECS)
def test_the_worst_cut_is_found_without_knowing_the_family(spec: str) -> None:
    known = parse_fabric(spec)
    found = worst_even_cut(replace(known, family="file", shape={}))
    assert found.is_exact
    assert found.bps == worst_even_cut(known).bps


@given(st.data())
def test_of_any_cabling_the_worst_even_cut_is_the_least_over_all_halves(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    found = worst_even_cut(fabric)
    least = least_cut_bps(fabric)
    assert found.is_exact
    assert found.bps == least
    assert least <= full_bps(fabric)
    # The search for larger fabrics, on the same one: a cut that there is, so never less.
    weights = bisection._Weights(fabric)
    assert len(fabric.switches) == 1 or min(weights.improved(start)[0] for start in weights.starts()) >= least


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """A connected fabric with up to 6 hosts and 5 switches, all rates different perhaps."""
    rate = st.integers(1, 5).map(lambda n: Wire(n * M))
    switches = [f"s{i}" for i in range(draw(st.integers(1, 5)))]
    hosts = [f"h{i}" for i in range(draw(st.integers(2, 6)))]
    cables = [(host, draw(st.sampled_from(switches)), draw(rate)) for host in hosts]
    cables += [
        (switches[i], draw(st.sampled_from(switches[:i])), draw(rate)) for i in range(1, len(switches))
    ]
    for a, b in (
        draw(st.lists(st.sampled_from(list(combinations(switches, 2))), max_size=6))
        if len(switches) > 1
        else ()
    ):
        cables.append((a, b, draw(rate)))
    return Fabric("made", "file", {}, tuple(hosts), tuple(switches), cable(set(hosts), cables))


@pytest.mark.parametrize(
    "spec",
    [
        "fat-tree:k=6,uplink_rate=40M",
        "fat-tree:k=8",
        "bigraph:n=32,m=16",
        "leaf-spine:leaves=30,spines=4,hosts=8",
        "torus:x=6,y=8",
        "mesh:x=10,y=4",
    ],
)
def test_of_a_large_fabric_a_bound_is_marked_as_one_and_reaches_the_least_cut(spec: str) -> None:
    known = parse_fabric(spec)
    found = worst_even_cut(replace(known, family="file", shape={}))
    assert not found.is_exact
    assert found.bps == worst_even_cut(known).bps


@pytest.mark.parametrize(("left", "right"), [(4, 5), (5, 4), (4, 4), (1, 9)])
def test_a_switch_without_hosts_takes_the_side_that_severs_less(left: int, right: int) -> None:
    cables = [(host, switch, Wire(10 * M)) for host, switch in (("h0", "s0"), ("h1", "s1"))]
    cables += [("s0", "top", Wire(left * M)), ("s1", "top", Wire(right * M))]
    fabric = Fabric("made", "file", {}, ("h0", "h1"), ("s0", "s1", "top"), cable({"h0", "h1"}, cables))
    assert worst_even_cut(fabric).bps == min(left, right) * M


def test_a_cut_counts_cables_side_by_side() -> None:
    wires = Wire(M), Wire(M // 4), Wire(M // 2)
    cables = [("h0", "left", wires[0]), ("h1", "right", wires[0])]
    cables += [("left", "right", wires[1]), ("left", "right", wires[2])]
    fabric = Fabric("made", "file", {}, ("h0", "h1"), ("left", "right"), cable({"h0", "h1"}, cables))
    assert worst_even_cut(fabric).bps == M // 4 + M // 2


def test_a_three_level_fat_trees_bisection_holds_against_some_hard_cuts() -> None:
    fabric = parse_fabric("fat-tree:k=4,uplink_rate=40M")
    graph: nx.Graph[str] = nx.Graph()
    for link in fabric.links:
        graph.add_edge(link.a, link.b, capacity=link.rate_bps)
    for near in (range(8), range(0, 16, 2), (0, 1, 4, 5, 8, 9, 12, 13), (0, 1, 2, 3, 4, 5, 8, 9)):
        cut = graph.copy()
        for i, host in enumerate(fabric.hosts):
            cut.add_edge("near" if i in near else "far", host, capacity=M**3)
        assert nx.maximum_flow_value(cut, "near", "far") >= worst_even_cut(fabric).bps == 8 * 40 * M


@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_bigraphs_worst_even_cut_has_n_squared_over_8_cables(n: int) -> None:
    fabric = parse_fabric(f"bigraph:n={n},m={n // 2}")
    assert worst_even_cut(fabric).bps == n * n // 8 * 100 * M


def test_the_near_side_of_a_bigraphs_worst_cut_is_half_of_both_layers() -> None:
    near = worst_even_cut(parse_fabric("bigraph:n=8,m=4")).near
    assert near == ("upper0", "upper1", "lower0", "lower1")

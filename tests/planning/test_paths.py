"""Distances and numbers of shortest paths, against networkx."""

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.paths import access_port, access_switch, distances, graph_of, path_counts
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.schedules.algorithms.multitree import grow
from tests.made_graphs import graph

SPECS = [
    "star:hosts=3",
    "fat-tree:k=4",
    "fat-tree:k=4,levels=2",
    "leaf-spine:leaves=3,spines=4,hosts=2",
    "bigraph:n=6,m=2",
    "torus:x=5,y=4",
    "mesh:x=4,y=3",
]


@pytest.mark.parametrize("spec", SPECS)
def test_distances_and_path_counts_are_those_of_the_graph_of_switches(spec: str) -> None:
    fabric = parse_fabric(spec)
    switches = graph(fabric).subgraph(fabric.switches)
    for start in fabric.switches:
        far = distances(fabric, start)
        assert far == nx.single_source_shortest_path_length(switches, start)
        counts = path_counts(fabric, far)
        for end in fabric.switches:
            assert counts[end] == len(list(nx.all_shortest_paths(switches, start, end)))


@pytest.mark.parametrize("spec", SPECS)
def test_a_hosts_access_port_is_the_other_end_of_its_cable(spec: str) -> None:
    fabric = parse_fabric(spec)
    (ends,) = {tuple((link.b, link.b_port) for link in fabric.links if link.a == fabric.hosts[-1])}
    port = access_port(fabric, fabric.hosts[-1])
    assert ends == ((port.node, port.port),)
    assert access_switch(fabric, fabric.hosts[-1]) == port.node


def test_no_path_leads_through_a_host() -> None:
    links = (Link("h0", 0, "left", 1, 10**6), Link("h0", 1, "right", 1, 10**6))
    fabric = Fabric("made:", "made", {}, ("h0",), ("left", "right"), links)
    assert distances(fabric, "left") == {"left": 0}


def test_cables_side_by_side_are_paths_of_their_own() -> None:
    links = (Link("left", 1, "right", 1, 10**6), Link("left", 2, "right", 2, 10**6))
    fabric = Fabric("made:", "made", {}, (), ("left", "right"), links)
    assert path_counts(fabric, distances(fabric, "left")) == {"left": 1, "right": 2}


@pytest.mark.parametrize(
    ("spec", "tau", "depth"),
    [
        ("bigraph:n=4,m=2", 7, 2),
        ("bigraph:n=8,m=2", 15, 2),
        ("bigraph:n=8,m=4", 31, 2),
        ("bigraph:n=16,m=4", 63, 2),
        ("leaf-spine:leaves=4,spines=4,hosts=4", 15, 1),
        ("leaf-spine:leaves=8,spines=8,hosts=8", 63, 1),
        ("leaf-spine:leaves=4,spines=2,hosts=4", 24, 2),
        ("leaf-spine:leaves=4,spines=2,hosts=4,uplink_rate=200M", 15, 1),
        ("star:hosts=8", 7, 1),
    ],
)
def test_multitree_on_a_fabric_takes_the_published_steps(spec: str, tau: int, depth: int) -> None:
    fabric = parse_fabric(spec)
    trees = grow(graph_of(fabric, fabric.hosts))
    assert (trees.n_steps, trees.depth) == (tau, depth)


def test_faster_cables_carry_as_many_messages_as_they_are_whole_times_as_fast() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=2,rate=100M,uplink_rate=250M")
    graph = graph_of(fabric, fabric.hosts[::-1])
    assert graph.ranks == ("h3", "h2", "h1", "h0")
    assert graph.capacity["leaf0", "spine0"] == graph.capacity["spine0", "leaf0"] == 2
    assert graph.capacity["h0", "leaf0"] == graph.capacity["leaf0", "h0"] == 1
    assert len(graph.capacity) == 2 * len(fabric.links)


def test_a_fabric_on_whose_way_hosts_have_no_rank_is_refused() -> None:
    fabric = parse_fabric("bigraph:n=4,m=1")
    with pytest.raises(ValueError, match="passes only switches without hosts, and lower0 has hosts"):
        grow(graph_of(fabric, ("h0", "h1")))

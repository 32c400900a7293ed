"""Distances and numbers of shortest paths, against networkx."""

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.paths import access_port, access_switch, distances, path_counts
from gradwire.planning.fabrics.spec import parse_fabric
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

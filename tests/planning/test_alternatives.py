"""Every shortest path is found, and none where there is no way."""

from dataclasses import replace

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plancheck import check_path
from gradwire.planning.routing.links import Alternatives


def graph_of(fabric: Fabric) -> "nx.Graph[str]":
    return nx.Graph([(link.a, link.b) for link in fabric.links])


@pytest.mark.parametrize(
    "spec",
    ["fat-tree:k=4", "fat-tree:k=4,levels=2", "bigraph:n=6,m=2", "leaf-spine:leaves=3,spines=4,hosts=1"],
)
def test_networkx_finds_the_same_paths(spec: str) -> None:
    fabric = parse_fabric(spec)
    alternatives = Alternatives(fabric)
    source = fabric.hosts[0]
    for destination in fabric.hosts[1:]:
        paths = alternatives.paths(source, destination)
        for path in paths:
            check_path(fabric, source, destination, path)
        nodes = [(*(end.node for end in path), destination) for path in paths]
        wanted = nx.all_shortest_paths(graph_of(fabric), source, destination)
        assert sorted(nodes) == sorted(map(tuple, wanted))


def test_without_a_cable_the_way_round_it_is_found() -> None:
    fabric = parse_fabric("bigraph:n=4,m=1")
    cut = replace(
        fabric, links=tuple(link for link in fabric.links if (link.a, link.b) != ("upper0", "lower0"))
    )
    (path,) = Alternatives(cut).paths("h0", "h2")
    assert [end.node for end in path] == ["h0", "upper0", "lower1", "upper1", "lower0"]


def test_a_host_without_a_cable_has_no_path() -> None:
    fabric = parse_fabric("star:hosts=3")
    alternatives = Alternatives(replace(fabric, links=fabric.links[1:]))
    assert alternatives.paths("h0", "h1") == alternatives.paths("h1", "h0") == []
    assert len(alternatives.paths("h1", "h2")) == 1


def test_switches_without_a_way_to_each_other_have_no_path() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1")
    cut = replace(fabric, links=tuple(link for link in fabric.links if link.b != "spine0"))
    assert Alternatives(cut).paths("h0", "h1") == []

"""A BiGraph is known by its cabling, whatever its names, ports and order are."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from gradwire.planning.fabrics.bigraph import BiGraph, bigraph_of
from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.placement import place
from gradwire.planning.plan import Flow
from gradwire.planning.refused import Refused
from gradwire.planning.routing.policies import policy
from gradwire.traces.schedules.schedule import Schedule

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
KNOWN = parse_fabric("bigraph:n=4,m=2")
LAYERS = BiGraph(
    ("upper0", "upper1"),
    ("lower0", "lower1"),
    {"upper0": ("h0", "h1"), "upper1": ("h2", "h3"), "lower0": ("h4", "h5"), "lower1": ("h6", "h7")},
)


def recabled(fabric: Fabric, seed: int) -> Fabric:
    """The same cables in another order, turned round, on other ports."""
    random = Random(seed)
    ports = {
        switch: dict(zip(numbers, random.sample(range(1, 100), len(numbers)), strict=True))
        for switch, numbers in fabric.ports.items()
        if switch in fabric.switches
    }
    links = []
    for link in random.sample(fabric.links, len(fabric.links)):
        ends = [(link.a, link.a_port), (link.b, link.b_port)]
        (a, a_port), (b, b_port) = ((node, ports.get(node, {}).get(port, port)) for node, port in ends)
        ends = random.sample([(a, a_port), (b, b_port)], 2)
        links.append(Link(*ends[0], *ends[1], link.rate_bps))
    return replace(fabric, spec="mine", family="file", shape={}, links=tuple(links))


def test_the_family_s_layers_are_those_of_its_names() -> None:
    assert bigraph_of(KNOWN) == LAYERS


@pytest.mark.parametrize("seed", range(5))
def test_a_bigraph_is_known_by_its_cables(seed: int) -> None:
    assert bigraph_of(recabled(KNOWN, seed)) == LAYERS


@pytest.mark.parametrize(
    "spec", ["star:hosts=4", "fat-tree:k=4", "fat-tree:k=4,levels=2", "leaf-spine:leaves=2,spines=2,hosts=2"]
)
def test_no_other_family_is_one(spec: str) -> None:
    assert bigraph_of(parse_fabric(spec)) is None


def test_one_cable_too_few_or_twice_or_within_a_layer_makes_it_none() -> None:
    *others, last = KNOWN.links
    assert bigraph_of(replace(KNOWN, family="file", links=tuple(others))) is None
    twice = replace(last, a_port=50, b_port=50)
    assert bigraph_of(replace(KNOWN, family="file", links=(*others, last, twice))) is None
    within = Link("upper0", 50, "upper1", 50, last.rate_bps)
    assert bigraph_of(replace(KNOWN, family="file", links=(*others, last, within))) is None


def test_switches_with_unequal_numbers_of_hosts_make_it_none() -> None:
    moved = tuple(replace(link, b="upper1", b_port=9) if link.a == "h0" else link for link in KNOWN.links)
    assert bigraph_of(replace(KNOWN, family="file", links=moved)) is None


def test_a_fabric_of_the_family_stays_one_when_a_cable_of_it_fails() -> None:
    assert bigraph_of(replace(KNOWN, links=KNOWN.links[1:])) == LAYERS


@pytest.mark.parametrize("routes", ["direct", "dmodk"])
def test_routes_and_ranks_of_a_bigraph_from_a_file_are_the_family_s(routes: str) -> None:
    mine, known = recabled(parse_fabric("bigraph:n=8,m=4"), 3), parse_fabric("bigraph:n=8,m=4")
    assert place("hdrm", mine, 32, 0) == place("hdrm", known, 32, 0)
    flows = [Flow(src, dst, "", "", 1, 1) for src in range(32) for dst in range(32) if src != dst]
    empty = Schedule.of(32, (), ())
    paths = [policy(routes)(fabric, fabric.hosts, flows, empty, 0) for fabric in (mine, known)]
    if routes == "direct":
        assert [nodes(path) for path in paths[0]] == [nodes(path) for path in paths[1]]
    assert {len(path) for path in paths[0]} == {2, 3, 4}


def nodes(path: "tuple[Egress, ...] | list[Egress]") -> list[str]:
    return [end.node for end in path]


def test_a_file_that_is_cabled_otherwise_is_refused_in_words_that_fit() -> None:
    pod = parse_fabric(str(EXAMPLES / "pod.yaml"))
    with pytest.raises(Refused, match="not on a fabric from a file that is cabled otherwise"):
        policy("direct")(pod, pod.hosts, [], Schedule.of(2, (), ()), 0)
    with pytest.raises(Refused, match="not on a fabric from a file that is cabled otherwise"):
        place("hdrm", pod, 2, 0)

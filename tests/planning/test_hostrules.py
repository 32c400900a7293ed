"""Rules between all hosts are checked by walking them, and by how many there are."""

from ipaddress import IPv4Address
from itertools import permutations

import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.hostrules import host_rules
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import Rules, destination_rules
from gradwire.planning.refused import Refused
from tests.planning.test_rules import walks

BIGRAPH = "bigraph:n=8,m=2"


def ping(fabric: Fabric, src: str, dst: str) -> Match:
    source, destination = (int(IPv4Address(fabric.ip(host))) for host in (src, dst))
    return Match(0x800, source, destination, 1, 0, 0)


def nodes(fabric: Fabric, rules: Rules, src: str, dst: str) -> list[tuple[str, ...]]:
    """The switches on every way that a ping can take."""
    ways = walks(fabric, rules, ping(fabric, src, dst), Egress(src, 0))
    return [tuple(end.node for end in way[1:]) for way in ways]


@pytest.mark.parametrize(
    ("spec", "routes"),
    [(BIGRAPH, "direct"), (BIGRAPH, "dmodk"), ("fat-tree:k=4", "dmodk"), ("fat-tree:k=4", "planned")],
)
def test_every_host_reaches_every_other_by_exactly_one_way(spec: str, routes: str) -> None:
    fabric = parse_fabric(spec)
    rules = host_rules(fabric, routes)
    for src, dst in permutations(fabric.hosts, 2):
        (way,) = nodes(fabric, rules, src, dst)
        assert way[0] == access_switch(fabric, src)
        assert way[-1] == access_switch(fabric, dst)


def test_where_the_destination_alone_decides_there_is_one_rule_for_each_host() -> None:
    fabric = parse_fabric(BIGRAPH)
    for own in host_rules(fabric, "direct").values():
        assert len(own) == len({rule.match.ipv4_dst for rule in own}) <= len(fabric.hosts)
        assert {rule.match.ipv4_src for rule in own} == {None}


def test_direct_goes_through_the_switch_that_the_destinations_slot_names() -> None:
    fabric = parse_fabric(BIGRAPH)
    rules = host_rules(fabric, "direct")
    assert nodes(fabric, rules, "h0", "h3") == [
        ("upper0", "lower1", "upper1")
    ]  # h3 is at position 1 of upper1
    assert nodes(fabric, rules, "h0", "h9") == [("upper0", "lower0")]


def test_ecmp_is_left_to_the_switches_hash() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    assert host_rules(fabric, "ecmp") == destination_rules(fabric)


def test_a_cable_between_switches_that_is_down_is_not_used() -> None:
    fabric = parse_fabric(BIGRAPH)
    down = next(link for link in fabric.links if (link.a, link.b) == ("upper0", "lower0"))
    dead = {Egress(down.a, down.a_port), Egress(down.b, down.b_port)}
    rules = host_rules(fabric, "direct", [down])
    assert not [1 for switch, own in rules.items() for rule in own if Egress(switch, rule.ports[0]) in dead]
    assert nodes(fabric, rules, "h0", "h8")


@pytest.mark.parametrize(
    ("spec", "routes"),
    [
        (BIGRAPH, "direct"),
        (BIGRAPH, "dmodk"),
        ("leaf-spine:leaves=4,spines=2,hosts=2", "dmodk"),
        ("leaf-spine:leaves=4,spines=2,hosts=2", "planned"),
        ("fat-tree:k=4", "planned"),
        ("fat-tree:k=4", "ecmp"),
        ("star:hosts=4", "dmodk"),
    ],
)
def test_a_host_whose_own_cable_is_down_keeps_its_rules(spec: str, routes: str) -> None:
    """There is no other way to it; and as Mininet starts, hosts' ends may come up after the switches'."""
    fabric = parse_fabric(spec)
    whole = host_rules(fabric, routes)
    for link in fabric.host_links[:3]:
        assert host_rules(fabric, routes, [link]) == whole
    assert host_rules(fabric, routes, fabric.host_links) == whole


@pytest.mark.parametrize(("spec", "routes"), [("fat-tree:k=4", "direct"), (BIGRAPH, "adaptive")])
def test_a_policy_that_makes_no_sense_there_is_refused(spec: str, routes: str) -> None:
    with pytest.raises(Refused):
        host_rules(parse_fabric(spec), routes)

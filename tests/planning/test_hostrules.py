"""Rules between all hosts are checked by walking them, and by how many there are."""

from ipaddress import IPv4Address
from itertools import permutations

import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.hostrules import host_rules
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import Rules, destination_rules
from gradwire.planning.refused import Refused
from tests.planning.test_rules import best, walks

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
    assert nodes(fabric, rules, "h0", "h3") == [("upper0", "lower1", "upper1")]  # h3 is slot 1 of upper1
    assert nodes(fabric, rules, "h0", "h9") == [("upper0", "lower0")]


def test_ecmp_is_left_to_the_switches_hash() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    assert host_rules(fabric, "ecmp") == destination_rules(fabric)


def test_a_cable_that_is_down_is_not_used_and_a_host_behind_it_is_given_up() -> None:
    fabric = parse_fabric(BIGRAPH)
    between = next(link for link in fabric.links if (link.a, link.b) == ("upper0", "lower0"))
    behind = next(link for link in fabric.links if "h5" in (link.a, link.b))
    dead = {Egress(*end) for link in (between, behind) for end in ends(link)}
    rules = host_rules(fabric, "direct", [between, behind])
    assert not [1 for switch, own in rules.items() for rule in own if Egress(switch, rule.ports[0]) in dead]
    assert nodes(fabric, rules, "h0", "h8")
    assert not any(best_or_none(own, ping(fabric, "h0", "h5")) for own in rules.values())


def ends(link: Link) -> tuple[tuple[str, int], tuple[str, int]]:
    return (link.a, link.a_port), (link.b, link.b_port)


def best_or_none(rules: tuple[object, ...], packet: Match) -> object:
    try:
        return best(rules, packet)  # type: ignore[arg-type]
    except ValueError:
        return None


@pytest.mark.parametrize(("spec", "routes"), [("fat-tree:k=4", "direct"), (BIGRAPH, "adaptive")])
def test_a_policy_that_makes_no_sense_there_is_refused(spec: str, routes: str) -> None:
    with pytest.raises(Refused):
        host_rules(parse_fabric(spec), routes)

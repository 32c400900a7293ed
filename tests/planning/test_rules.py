"""Rules are checked by where packets come out, walking the fabric from port to port."""

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import permutations

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import Rule, Rules, destination_rules, plan_rules
from tests.made_graphs import graph
from tests.made_plans import allreduce_plan

SPECS = ["star:hosts=3", "fat-tree:k=4", "fat-tree:k=4,levels=2", "bigraph:n=4,m=2", "torus:x=4,y=3"]


def best(rules: tuple[Rule, ...], packet: Match) -> Rule:
    return max((rule for rule in rules if rule.match.covers(packet)), key=lambda rule: rule.priority)


def walks(fabric: Fabric, rules: Rules, packet: Match, at: Egress) -> Iterator[tuple[Egress, ...]]:
    """Every way that a packet which leaves through `at` can go, to the port at its destination."""
    node = fabric.peers[at].node
    if node in fabric.hosts:
        assert int(IPv4Address(fabric.ip(node))) == packet.ipv4_dst
        yield (at,)
        return
    rule = best(rules[node], packet)
    for port in rule.ports[:1] if rule.choice == "failover" else rule.ports:
        for rest in walks(fabric, rules, packet, Egress(node, port)):
            yield (at, *rest)


@pytest.mark.parametrize("spec", SPECS)
def test_destination_rules_give_all_shortest_paths_and_no_other(spec: str) -> None:
    fabric = parse_fabric(spec)
    rules, cables = destination_rules(fabric), graph(fabric)
    for src, dst in permutations(fabric.hosts[:6], 2):
        packet = Match(0x800, 0, int(IPv4Address(fabric.ip(dst))), 1, 0, 0)
        found = {(*(end.node for end in walk), dst) for walk in walks(fabric, rules, packet, Egress(src, 0))}
        assert found == {tuple(path) for path in nx.all_shortest_paths(cables, src, dst)}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_every_flow_of_a_plan_goes_its_own_path(spec: str, algorithm: str) -> None:
    n_ranks = 2 if spec.startswith("star") else None
    plan = allreduce_plan(spec, algorithm, n_ranks=n_ranks)
    rules = plan_rules(plan)
    assert plan.flows
    for flow in plan.flows:
        src, dst = int(IPv4Address(flow.src_ip)), int(IPv4Address(flow.dst_ip))
        packet = Match(0x800, src, dst, 6, flow.sport, flow.dport)
        assert list(walks(plan.fabric, rules, packet, flow.path[0])) == [flow.path]


def test_a_ping_between_the_plans_hosts_finds_its_way() -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2")
    rules, fabric = plan_rules(plan), plan.fabric
    src, dst = plan.placement[0], plan.placement[-1]
    ping = Match(0x800, int(IPv4Address(fabric.ip(src))), int(IPv4Address(fabric.ip(dst))), 1, 0, 0)
    assert len(list(walks(fabric, rules, ping, Egress(src, 0)))) == 2  # one for each spine


def test_only_the_hosts_that_are_asked_for_have_rules() -> None:
    fabric = parse_fabric("star:hosts=4")
    rules = destination_rules(fabric, ["h1", "h3", "h1"])
    assert [rule.match.ipv4_dst for rule in rules["switch0"]] == [0x0A000002, 0x0A000004]

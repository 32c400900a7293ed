"""The rules of trees: whose packets they match, what they say, and that every flow keeps its own."""

from dataclasses import replace

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.paths import access_port
from gradwire.planning.openflow.entries import FROM_PARENT, MAX_ENTRIES
from gradwire.planning.openflow.match import Form, form
from gradwire.planning.openflow.rules import AGGREGATE_PRIORITY, has_room, plan_rules, sums
from gradwire.planning.plan import Plan
from tests.made_plans import allreduce_plan
from tests.made_trees import planted_plan

SPECS = [
    "star:hosts=3",
    "leaf-spine:leaves=2,spines=2,hosts=2",
    "fat-tree:k=4",
    "bigraph:n=4,m=2",
    "mesh:x=3,y=3",
]


@pytest.fixture(params=SPECS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return planted_plan(request.param)


def test_every_cable_of_a_tree_has_one_rule_at_each_of_its_switches(plan: Plan) -> None:
    (tree,) = plan.trees
    n_hosts, n_switches = len(tree.members), len(tree.nodes)
    n_inner = n_switches - 1  # a tree of n nodes has n - 1 edges
    found = list(sums(plan.trees))
    assert len(found) == n_hosts + 2 * n_inner
    assert len({(each.switch, each.match) for each in found}) == len(found)
    assert sum(each.aggregate.child == FROM_PARENT for each in found) == n_inner


def test_a_rule_matches_what_its_own_child_or_parent_sends_to_the_trees_udp_port(plan: Plan) -> None:
    (tree,) = plan.trees
    for each in sums(plan.trees):
        rule = each.aggregate
        port = rule.parent_port if rule.child == FROM_PARENT else rule.ports[rule.child]
        assert form(each.match) is Form.IN_UDP_DST
        assert (each.match.in_port, each.match.dport, each.match.ip_proto) == (port, tree.udp_port, 17)


def test_packets_of_a_host_meet_a_rule_where_they_come_in_and_so_do_partial_sums(plan: Plan) -> None:
    (tree,) = plan.trees
    doors = {Egress(each.switch, each.match.in_port or 0) for each in sums(plan.trees)}
    assert {access_port(plan.fabric, plan.placement[rank]) for rank in tree.members} <= doors
    for node in tree.nodes[1:]:
        assert node.parent_port is not None
        up = Egress(node.switch, node.parent_port)
        assert {up, plan.fabric.peers[up]} <= doors


def test_the_rules_of_a_switch_say_the_same_of_its_job_but_for_the_child(plan: Plan) -> None:
    said = {(each.switch, each.aggregate._replace(child=0)) for each in sums(plan.trees)}
    assert len(said) == len(plan.trees[0].nodes)


def test_a_plans_rules_are_its_flows_and_its_trees_above_them(plan: Plan) -> None:
    spec, rules = plan.fabric.spec, plan_rules(plan)
    without = plan_rules(allreduce_plan(spec, "ring", nbytes=1 << 16))
    for switch, own in rules.items():
        adding = [rule for rule in own if rule.aggregate]
        assert {rule.priority for rule in adding} <= {AGGREGATE_PRIORITY}
        assert max((rule.priority for rule in without[switch]), default=0) < AGGREGATE_PRIORITY
        assert set(own) - set(adding) == set(without[switch])
        assert len(adding) == sum(each.switch == switch for each in sums(plan.trees))


def test_a_tree_without_nodes_has_no_rules(plan: Plan) -> None:
    assert not list(sums([replace(plan.trees[0], nodes=())]))


def test_trees_count_where_the_switches_room_is_asked_for() -> None:
    plan = planted_plan("star:hosts=3")
    rules = {switch: list(own) for switch, own in plan_rules(plan).items()}
    (own,) = rules.values()
    filler = next(rule for rule in own if not rule.aggregate)
    own += [filler] * (MAX_ENTRIES - len(own))
    assert has_room(rules)
    own.append(next(rule for rule in own if rule.aggregate))
    assert not has_room(rules)

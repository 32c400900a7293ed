"""Which tree follows on which: epochs never go back, and nothing moves without need."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.controller.intent import (
    home_intent,
    led_around,
    led_back,
    plan_intent,
    rerouted_intent,
    tree_moves,
)
from gradwire.planning.fabrics.fabric import Link
from gradwire.planning.openflow.rules import plan_rules
from gradwire.planning.plan import Plan
from gradwire.planning.trees.grants import Terms
from gradwire.planning.trees.tree import Tree
from tests.made_trees import inner_cables, planted_plan

SPEC = "leaf-spine:leaves=2,spines=2,hosts=2"


@pytest.fixture
def plan() -> Plan:
    return planted_plan(SPEC)


def roots(trees: tuple[Tree, ...]) -> list[str]:
    return [tree.nodes[0].switch for tree in trees]


def uplinks(plan: Plan, leaf: str) -> list[Link]:
    return [link for link in plan.fabric.inner_links if leaf in (link.a, link.b)]


def between(plan: Plan, leaf: str, spine: str) -> list[Link]:
    return [link for link in plan.fabric.inner_links if {link.a, link.b} == {leaf, spine}]


def test_a_tree_whose_cable_fails_gets_the_other_spine_and_the_next_epoch(plan: Plan) -> None:
    (cable, *_) = inner_cables(plan.fabric, plan.trees[0])
    after = led_around(plan, plan.trees, [cable])
    assert {*roots(plan.trees), *roots(after)} == {"spine0", "spine1"}
    assert [tree.epoch for tree in after] == [1]
    assert cable not in inner_cables(plan.fabric, after[0])


def test_a_tree_that_is_whole_stays_where_it_is_though_the_plans_cable_is_back(plan: Plan) -> None:
    (cable, *_) = inner_cables(plan.fabric, plan.trees[0])
    after = led_around(plan, plan.trees, [cable])
    assert led_around(plan, after, []) == after


def test_back_home_is_a_larger_epoch_and_at_home_none(plan: Plan) -> None:
    (cable, *_) = inner_cables(plan.fabric, plan.trees[0])
    home = led_back(plan, led_around(plan, plan.trees, [cable]))
    assert home == (replace(plan.trees[0], epoch=2),)
    assert led_back(plan, home) == home


def test_a_tree_without_a_way_has_no_nodes_and_comes_back_with_a_larger_epoch(
    plan: Plan,
) -> None:
    lost = led_around(plan, plan.trees, uplinks(plan, "leaf0"))
    assert [tree.nodes for tree in lost] == [()]
    again = led_around(plan, lost, uplinks(plan, "leaf0"))
    assert again == lost
    back = led_around(plan, lost, [])
    assert back[0].nodes == plan.trees[0].nodes
    assert back[0].epoch > lost[0].epoch > 0


def test_a_tree_makes_way_for_one_that_has_no_other_place() -> None:
    """Each spine has room for one.  The first went to the third spine, and stayed when its own was back."""
    spec = "leaf-spine:leaves=4,spines=3,hosts=1"
    plan = planted_plan(spec, [(0, 1), (2, 3)], Terms(switch_slots=15, slots=8))
    home, other = roots(plan.trees)
    (third,) = {"spine0", "spine1", "spine2"} - {home, other}
    away = led_around(plan, plan.trees, between(plan, "leaf0", home))
    assert roots(away) == [third, other]
    back = led_around(plan, away, [])
    assert back == away
    made = led_around(plan, back, [*between(plan, "leaf2", home), *between(plan, "leaf2", other)])
    assert roots(made) == [home, third]
    assert [tree.epoch for tree in made] == [2, 1]


def test_a_tree_makes_no_way_where_that_helps_nobody() -> None:
    spec = "leaf-spine:leaves=4,spines=2,hosts=1"
    plan = planted_plan(spec, [(0, 1), (2, 3)], Terms(switch_slots=15, slots=8))
    home = roots(plan.trees)[0]
    lost = led_around(plan, plan.trees, between(plan, "leaf0", home))
    assert [bool(tree.nodes) for tree in lost] == [False, True]
    assert lost[1] is plan.trees[1]


def test_a_tree_elsewhere_is_the_very_same() -> None:
    plan = planted_plan(SPEC, [(0, 1), (0, 2)])  # the first within leaf0
    cables = [cable for tree in plan.trees for cable in inner_cables(plan.fabric, tree)]
    after = led_around(plan, plan.trees, cables[:1])
    assert after[0] is plan.trees[0]
    assert after[1].epoch == 1


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_fails_and_returns_an_epoch_is_never_that_of_two_trees(
    data: st.DataObject,
) -> None:
    plan = planted_plan("fat-tree:k=4,levels=2", [(0, 1, 2), (0, 3), (2, 3)])
    links = plan.fabric.inner_links
    seen = {(number, tree.epoch): tree.nodes for number, tree in enumerate(plan.trees)}
    now = plan.trees
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            after = led_back(plan, now)
            assert all(a.nodes == b.nodes for a, b in zip(plan.trees, after, strict=True))
        else:
            down = data.draw(st.sets(st.sampled_from(links), max_size=len(links)))
            after = led_around(plan, now, down)
            assert all(down.isdisjoint(inner_cables(plan.fabric, tree)) for tree in after)
        for number, (old, new) in enumerate(zip(now, after, strict=True)):
            assert new.epoch >= old.epoch
            assert seen.setdefault((number, new.epoch), new.nodes) == new.nodes
        now = after


def test_the_aim_around_a_failure_has_the_rules_of_its_flows_and_of_its_trees(plan: Plan) -> None:
    first = plan_intent(plan)
    (cable, *_) = inner_cables(plan.fabric, plan.trees[0])
    now = rerouted_intent(first, first, [cable])
    assert now.plan is not None
    assert now.plan.trees == led_around(plan, plan.trees, [cable])
    (move,) = tree_moves(first, now)
    assert move == {
        "job": 1, "epoch": 1, "from": roots(plan.trees)[0], "to": roots(now.plan.trees)[0],
    }  # fmt: skip
    flowing = plan_intent(replace(plan, trees=()))
    bare = rerouted_intent(flowing, flowing, [cable])
    for switch, own in now.rules.items():
        assert [rule for rule in own if not rule.aggregate] == list(bare.rules[switch])


def test_a_cable_that_returns_brings_flows_back_at_once_and_the_tree_when_all_is_at_rest(
    plan: Plan,
) -> None:
    first = plan_intent(plan)
    (cable, *_) = inner_cables(plan.fabric, plan.trees[0])
    away = rerouted_intent(first, first, [cable])
    back = rerouted_intent(first, away, [])
    assert back.plan is not None
    assert away.plan is not None
    assert back.plan.flows == plan.flows
    assert back.plan.trees == away.plan.trees
    home = home_intent(first, back)
    assert home.plan is not None
    assert home.plan == replace(plan, trees=(replace(plan.trees[0], epoch=2),))
    assert home.rules == plan_rules(home.plan)
    assert home_intent(home, home) is home
    assert home_intent(first, first) is first


def test_without_trees_nothing_of_them_moves() -> None:
    first = plan_intent(replace(planted_plan(SPEC), trees=()))
    assert not first.has_trees
    assert home_intent(first, first) is first
    assert tree_moves(first, first) == []

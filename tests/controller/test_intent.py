"""The rules that switches should have before, during and after failures and moves."""

import pytest

from gradwire.controller.intent import fabric_intent, moves, plan_intent, rebalanced_intent, rerouted_intent
from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.hostrules import host_rules
from gradwire.planning.openflow.rules import GUARDS
from gradwire.planning.refused import Refused
from tests.made_plans import MIB, allreduce_plan

SPEC = "leaf-spine:leaves=2,spines=2,hosts=2"


def uplinks(fabric: Fabric) -> list[Link]:
    return [link for link in fabric.links if {link.a, link.b} <= set(fabric.switches)]


def test_without_failures_the_first_aim_is_what_follows() -> None:
    first = plan_intent(allreduce_plan(SPEC))
    now = rerouted_intent(first, first, uplinks(first.fabric)[:1])
    assert now is not first
    assert rerouted_intent(first, now, []) is first


def test_what_follows_on_a_failure_does_not_depend_on_what_failed_before() -> None:
    first = plan_intent(allreduce_plan("fat-tree:k=4", placement="random"))
    one, two = uplinks(first.fabric)[0], uplinks(first.fabric)[-1]
    detour = rerouted_intent(first, rerouted_intent(first, first, [one]), [two])
    assert detour.rules == rerouted_intent(first, first, [two]).rules
    assert moves(first, detour)


def test_no_path_leads_over_a_cable_that_is_down() -> None:
    first = plan_intent(allreduce_plan(SPEC))
    (down, *_) = uplinks(first.fabric)
    now = rerouted_intent(first, first, [down])
    assert now.plan is not None
    ends = {Egress(down.a, down.a_port), Egress(down.b, down.b_port)}
    assert all(ends.isdisjoint(flow.path) for flow in now.plan.flows)


def test_routes_between_all_hosts_are_made_again_without_the_cable() -> None:
    fabric = parse_fabric(SPEC)
    first = fabric_intent(fabric, "ecmp")
    (down, *_) = uplinks(fabric)
    assert rerouted_intent(first, first, [down]).rules == host_rules(fabric, "ecmp", [down])
    assert first.plan is None
    assert not first.is_adaptive
    assert rebalanced_intent(first, {}, {}, []) is first
    assert moves(first, rerouted_intent(first, first, [down])) == []


def test_a_policy_that_serves_no_such_fabric_is_refused_and_an_unknown_one_is_an_error() -> None:
    with pytest.raises(Refused):
        fabric_intent(parse_fabric(SPEC), "direct")
    with pytest.raises(ValueError, match="no routing policy"):
        fabric_intent(parse_fabric(SPEC), "nonsense")


def test_only_plans_with_adaptive_routes_are_adaptive() -> None:
    assert plan_intent(allreduce_plan(SPEC, routes="adaptive")).is_adaptive
    assert not plan_intent(allreduce_plan(SPEC, routes="ecmp")).is_adaptive


def test_mice_leave_the_aim_as_it_is_and_elephants_that_meet_do_not() -> None:
    plan = allreduce_plan("fat-tree:k=4", "halving-doubling", "random", "adaptive", seed=3, nbytes=MIB)
    now = plan_intent(plan)
    assert rebalanced_intent(now, dict.fromkeys(range(len(plan.flows)), 1.0), {}, []) is now
    after = rebalanced_intent(now, dict.fromkeys(range(len(plan.flows)), 1e8), {}, [])
    assert after is not now
    logged = moves(now, after)
    assert logged
    for move in logged:
        paths = [
            [end.node for end in flow.path[1:]]
            for intent in (now, after)
            for flow in (intent.plan.flows if intent.plan else ())
            if (flow.src, flow.dst) == (move["src"], move["dst"])
        ]
        assert paths == [move["from"], move["to"]]
        assert move["from"] != move["to"]


def test_moved_elephants_stay_where_they_are_when_a_cable_elsewhere_fails() -> None:
    plan = allreduce_plan("fat-tree:k=4", "halving-doubling", "random", "adaptive", seed=3, nbytes=MIB)
    first = plan_intent(plan)
    moved = rebalanced_intent(first, dict.fromkeys(range(len(plan.flows)), 1e8), {}, [])
    assert moved.plan is not None
    (down, *_) = uplinks(plan.fabric)
    ends = {Egress(down.a, down.a_port), Egress(down.b, down.b_port)}
    around = rerouted_intent(first, moved, [down])
    assert around.plan is not None
    for was, is_now in zip(moved.plan.flows, around.plan.flows, strict=True):
        assert ends.isdisjoint(is_now.path)
        if ends.isdisjoint(was.path):
            assert is_now.path == was.path


def test_an_aim_says_how_its_flows_are_guarded() -> None:
    assert plan_intent(allreduce_plan(SPEC)).says == GUARDS[0].says
    assert GUARDS[0].warning is None
    assert all(guard.warning == guard.says for guard in GUARDS[1:])

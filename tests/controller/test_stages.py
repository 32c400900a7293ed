"""Packets arrive in all stages of a change, whatever switches are ahead of the others."""

from itertools import pairwise, product
from random import Random

import pytest

from gradwire.controller.intent import Intent, fabric_intent, plan_intent, rerouted_intent
from gradwire.controller.stages import stages
from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.paths import distances
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow import rules as rules_module
from gradwire.planning.openflow.rules import Rule, Rules
from gradwire.planning.routing.reroute import without
from tests.made_plans import MIB, all_to_all, schedule_plan
from tests.made_trees import inner_cables, planted_plan
from tests.walks import by_match, losses, packets

FABRICS = (
    "leaf-spine:leaves=3,spines=2,hosts=1",
    "leaf-spine:leaves=4,spines=3,hosts=2",
    "fat-tree:k=4",
    "bigraph:n=8,m=1",
    "mesh:x=3,y=3",
)
CASES = [
    (spec, what, routes)
    for spec, what, routes in product(FABRICS, ("fabric", "plan"), ("ecmp", "planned"))
    if not (spec.startswith("mesh") and (what, routes) == ("fabric", "planned"))  # docs/design.md, section 7
]


def first_intent(spec: str, what: str, routes: str) -> Intent:
    fabric = parse_fabric(spec)
    if what == "fabric":
        return fabric_intent(fabric, routes)
    return plan_intent(schedule_plan(spec, all_to_all(len(fabric.hosts), MIB), routes=routes))


def failures(fabric: Fabric, draw: Random, most: int = 3) -> frozenset[Link]:
    """Some cables without which all switches still reach each other."""
    down: frozenset[Link] = frozenset()
    for link in draw.sample(fabric.inner_links, len(fabric.inner_links)):
        left = without(fabric, down | {link})
        if len(distances(left, fabric.switches[0])) == len(fabric.switches):
            down |= {link}
        if len(down) == most:
            break
    return down


def mixtures(before: Rules, after: Rules, draw: Random) -> list[Rules]:
    """Each switch alone ahead of the others, each alone behind them, and any."""
    names = [name for name in after if before[name] is not after[name]]
    ahead = [{name} for name in names] + [set(names) - {name} for name in names]
    ahead += [{name for name in names if draw.random() < 0.5} for _ in range(5)]
    return [{name: (after if name in those else before)[name] for name in after} for those in ahead]


@pytest.mark.broad(7)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("spec", "what", "routes"), CASES)
def test_packets_arrive_whatever_switches_are_ahead(spec: str, what: str, routes: str, seed: int) -> None:
    draw = Random(seed)
    first = first_intent(spec, what, routes)
    down = failures(first.fabric, draw)
    back = frozenset(draw.sample(sorted(down, key=repr), 1 + seed % len(down)))
    now = rerouted_intent(first, first, down)
    then = rerouted_intent(first, now, down - back)
    sent = packets(first.fabric, first.plan)
    passed = [now.rules, *stages(first.fabric, down - back, now.rules, then.rules), then.rules]
    assert len(passed) > 2
    for before, after in pairwise(passed):
        for rules in mixtures(before, after, draw):
            tables = {name: by_match(switch_rules) for name, switch_rules in rules.items()}
            assert losses(first.fabric, tables, sent) == []


def test_without_stages_packets_would_be_lost() -> None:
    first = first_intent("leaf-spine:leaves=3,spines=2,hosts=1", "fabric", "ecmp")
    (link,) = failures(first.fabric, Random(0), most=1)
    now = rerouted_intent(first, first, {link})
    sent = packets(first.fabric, None)
    lost = [
        losses(first.fabric, {name: by_match(own) for name, own in rules.items()}, sent)
        for rules in mixtures(now.rules, first.rules, Random(0))
    ]
    assert any(lost)


def sums(rules: Rules) -> dict[str, set[Rule]]:
    return {name: {rule for rule in own if rule.aggregate} for name, own in rules.items()}


def test_stages_leave_trees_as_they_are() -> None:
    plan = planted_plan("leaf-spine:leaves=2,spines=2,hosts=2")
    link = next(inner_cables(plan.fabric, plan.trees[0]))
    first = plan_intent(plan)
    moved = rerouted_intent(first, first, {link})
    assert sums(moved.rules) != sums(first.rules)
    passed = stages(first.fabric, {link}, first.rules, moved.rules)
    assert passed
    assert all(sums(rules) == sums(first.rules) for rules in passed)


def test_there_are_no_stages_where_switches_have_no_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first = first_intent("leaf-spine:leaves=3,spines=2,hosts=1", "fabric", "ecmp")
    (link,) = failures(first.fabric, Random(0), most=1)
    now = rerouted_intent(first, first, {link})
    assert stages(first.fabric, (), now.rules, first.rules)
    monkeypatch.setattr(rules_module, "MAX_ENTRIES", 2)  # there are three hosts
    assert stages(first.fabric, (), now.rules, first.rules) == []


def test_nothing_to_change_takes_no_stage() -> None:
    first = first_intent("leaf-spine:leaves=3,spines=2,hosts=1", "fabric", "ecmp")
    assert stages(first.fabric, (), first.rules, first.rules) == []

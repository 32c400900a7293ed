"""How the controller leads switches from one tree to another, all of them in memory, and what it counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.controller.intent import plan_intent
from gradwire.controller.statistics import Statistics
from gradwire.planning.fabrics.fabric import Egress, Link
from gradwire.planning.openflow.pool import EVENTS
from gradwire.planning.plan import Plan, save
from tests.controller.test_controller_process import running, switches
from tests.controller.test_steering import World, settled
from tests.made_trees import inner_cables, planted_plan
from tests.readers import read_statistics_as_the_app

SPEC = "leaf-spine:leaves=2,spines=2,hosts=2"


@pytest.fixture(autouse=True)
def our_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    read_statistics_as_the_app(monkeypatch)


def planted(plan: Plan | None = None, reroutes: bool = True) -> World:
    return World(plan_intent(plan or planted_plan(SPEC)), reroutes)


def trees_of(world: World) -> tuple[Any, ...]:
    assert world.steering.intent.plan is not None
    return world.steering.intent.plan.trees


def first_cable(world: World) -> Link:
    return next(inner_cables(world.fabric, trees_of(world)[0]))


def fail(world: World, cable: Link, is_down: bool = True) -> None:
    world.turn(Egress(cable.a, cable.a_port), is_down)


def epochs_there(world: World) -> set[int]:
    return {
        rule.aggregate.epoch
        for machine in world.machines.values()
        for rule in machine.rules
        if rule.aggregate
    }


def epochs_on_the_way(world: World) -> list[frozenset[int]]:
    """The epochs that any switch has, after each switch's answer until all is said."""
    seen = []
    while any(switch.datapath.is_waiting for switch in world.switches.values()):
        for switch in world.switches.values():
            switch.datapath.deliver_once(switch)
            seen.append(frozenset(epochs_there(world)))
    return seen


def test_a_tree_whose_cable_fails_in_mid_run_moves_and_the_log_says_so() -> None:
    world = planted()
    cable, before = first_cable(world), trees_of(world)[0].nodes[0].switch
    fail(world, cable)
    world.deliver()
    assert world.carry_out() == world.wanted()
    assert epochs_there(world) == {1}
    (logged,) = world.events("tree_moved")
    spine = {"spine0": "spine1", "spine1": "spine0"}[before]
    assert (logged["job"], logged["epoch"], logged["from"], logged["to"]) == (1, 1, before, spine)
    assert len(logged["down"]) == 1
    assert [event["event"] for event in world.events("rerouted", "tree_moved")] == ["rerouted", "tree_moved"]


@pytest.mark.long
def test_nowhere_is_the_new_tree_while_the_old_one_is_anywhere() -> None:
    world = planted(planted_plan("fat-tree:k=4"))
    fail(world, first_cable(world))
    seen = epochs_on_the_way(world)
    assert set(seen) <= {frozenset({0}), frozenset(), frozenset({1})}
    assert frozenset() in seen
    assert seen[-1] == {1}


def test_flows_need_not_wait_until_trees_are_gone() -> None:
    world = planted()
    fail(world, first_cable(world))
    slow = world.switches["spine0"]
    for switch in world.switches.values():
        if switch is not slow:
            switch.datapath.deliver(switch)
    plain = {name: {repr(r) for r in m.rules if not r.aggregate} for name, m in world.machines.items()}
    for name, own in world.steering.intent.rules.items():
        if name != "spine0":
            assert plain[name] == {repr(rule) for rule in own if not rule.aggregate}
    world.deliver()
    assert world.carry_out() == world.wanted()


@pytest.mark.long
def test_a_second_failure_while_the_first_is_answered_leads_to_its_own_rules() -> None:
    world = planted(planted_plan("fat-tree:k=4"))
    one = first_cable(world)
    fail(world, one)
    fail(world, first_cable(world))  # of the tree that is nowhere yet
    used = set(inner_cables(world.fabric, trees_of(world)[0]))
    elsewhere = next(link for link in world.fabric.inner_links if link not in {*used, one})
    fail(world, elsewhere)  # which moves no tree
    assert set(epochs_on_the_way(world)) == {frozenset({0}), frozenset(), frozenset({2})}
    assert world.carry_out() == world.wanted()
    assert [event["epoch"] for event in world.events("tree_moved")] == [1, 2]


def test_a_tree_that_no_way_is_left_for_is_removed_and_the_log_says_why() -> None:
    world = planted()
    for cable in world.fabric.inner_links:
        if "leaf0" in (cable.a, cable.b):
            fail(world, cable)
            world.deliver()
    assert epochs_there(world) == set()
    (logged,) = world.events("tree_lost")
    assert logged["to"] is None
    assert logged["down"] == ["leaf0→spine0", "leaf0→spine1"]


def test_settling_brings_the_plans_tree_back_with_a_larger_epoch_each_time() -> None:
    world = planted()
    nodes = trees_of(world)[0].nodes
    for epoch in (2, 4):
        cable = first_cable(world)
        fail(world, cable)
        world.deliver()
        fail(world, cable, is_down=False)
        world.deliver()
        assert epochs_there(world) == {epoch - 1}  # the sum under way goes on
        world.steering.settle()
        assert settled(world)
        assert epochs_there(world) == {epoch}
        assert trees_of(world)[0].nodes == nodes
        assert world.carry_out() == world.wanted()
    assert len(world.events("settled")) == 2


def test_settling_at_rest_leaves_the_tree_as_it_is() -> None:
    world = planted()
    world.steering.settle()
    assert settled(world)
    assert epochs_there(world) == {0}
    assert not world.events("tree_moved")


def test_without_reroutes_no_tree_moves() -> None:
    world = planted(reroutes=False)
    fail(world, first_cable(world))
    world.deliver()
    assert epochs_there(world) == {0}
    assert not world.events("tree_moved", "tree_lost")


def test_a_switch_that_was_away_has_the_new_tree_when_it_comes() -> None:
    world = planted()
    root = trees_of(world)[0].nodes[0].switch
    world.switches[root].go()
    fail(world, first_cable(world))
    world.deliver()
    world.connect(root)
    world.deliver()
    assert world.carry_out() == world.wanted()


@pytest.mark.long
def test_a_process_with_trees_is_ready_and_writes_what_their_switches_counted(tmp_path: Path) -> None:
    plan, path = planted_plan(SPEC), tmp_path / "switches.json"
    save(plan, tmp_path / "plan.json")
    with running(str(tmp_path / "plan.json")) as controller, switches(controller, spec=SPEC):
        assert controller.line() == "ready"
        controller.tell(f"stats {path}")
        assert controller.line() == "stats"
    rows = json.loads(path.read_text())["pools"]
    assert {row["switch"] for row in rows} == {node.switch for node in plan.trees[0].nodes}


def counted(world: World) -> dict[str, Any]:
    statistics = Statistics(world.fabric, world.switches, world.steering.past)
    assert statistics.ask() == []
    assert not statistics.is_complete()
    world.deliver()
    assert statistics.is_complete()
    return statistics.to_json()


def test_every_job_is_counted_at_every_switch_of_its_tree_and_nowhere_else() -> None:
    plan = planted_plan("fat-tree:k=4", [range(16), (0, 1)])
    rows = counted(planted(plan))["pools"]
    assert {(row["switch"], row["job"]) for row in rows} == {
        (node.switch, tree.job) for tree in plan.trees for node in tree.nodes
    }
    for row in rows:
        tree = plan.trees[row["job"] - 1]
        (node,) = [node for node in tree.nodes if node.switch == row["switch"]]
        assert (row["epoch"], row["slots"], row["children"]) == (0, tree.slots, len(node.children))
        assert set(row["counts"]) == set(EVENTS)


def test_what_a_tree_has_counted_before_it_moved_is_added_to_what_it_counts_now() -> None:
    world = planted()
    cable = first_cable(world)
    before = {row["switch"]: row["counts"] for row in counted(world)["pools"]}
    fail(world, cable)
    world.deliver()
    world.deliver()
    now = {row["switch"]: row for row in counted(world)["pools"]}
    assert now.keys() == {"leaf0", "leaf1", "spine0", "spine1"}
    of_pool = {
        name: {event: n + 100 * job.pool for n, event in enumerate(EVENTS)}
        for name, machine in world.machines.items()
        for job in machine.table.jobs.held.values()
    }
    for name, row in now.items():
        parts = [counts for counts in (before.get(name), of_pool.get(name)) if counts]
        assert row["counts"] == {event: sum(part[event] for part in parts) for event in EVENTS}
        assert row["epoch"] == (1 if name in of_pool else 0)


def test_switches_without_trees_are_not_asked_for_jobs() -> None:
    plan = planted_plan("fat-tree:k=4", [(0, 1)])
    world = planted(plan)
    statistics = Statistics(world.fabric, world.switches, world.steering.past)
    assert statistics.ask() == []
    n_sent = {name: len(switch.datapath.sent) for name, switch in world.switches.items()}
    world.deliver()
    statistics.ask()
    asked = [name for name, switch in world.switches.items() if len(switch.datapath.sent) - n_sent[name] == 3]
    assert asked == [plan.trees[0].nodes[0].switch]

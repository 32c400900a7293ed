"""Failures, settling and moving elephants: every switch in memory, and what the log says of it."""

from dataclasses import replace
from typing import Any

import pytest

from gradwire.controller.controllog import ControlLog
from gradwire.controller.intent import Intent, fabric_intent, plan_intent
from gradwire.controller.readback import FlowStats
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.steering import Steering
from gradwire.controller.switch import KnownSwitch
from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.openflow.rules import plan_rules
from tests.made_plans import MIB, allreduce_plan, messages, schedule_plan
from tests.made_switches import Line, machines, never

SPEC = "leaf-spine:leaves=2,spines=2,hosts=2"


@pytest.fixture(autouse=True)
def quick_flow_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser.OFPFlowStatsReply, "cls_stats_body_cls", FlowStats)


class Kept(ControlLog):
    """A log in memory."""

    def __init__(self) -> None:
        super().__init__(None)
        self.events: list[dict[str, Any]] = []

    def write(self, event: str, **values: object) -> None:
        self.events.append({"event": event, **values})


class World:
    """A fabric whose switches have the intent's rules."""

    def __init__(self, intent: Intent, reroutes: bool = True) -> None:
        self.fabric: Fabric = intent.fabric
        self.machines = machines(self.fabric)
        self.switches = {name: KnownSwitch(name, never) for name in self.machines}
        self._log = Kept()
        self.steering = Steering(intent, self.switches, self._log, reroutes)
        for name in self.switches:
            self.connect(name)
        self.deliver()

    def connect(self, name: str) -> None:
        switch = self.switches[name]
        switch.come(Line(self.machines[name]), self.steering.table_of(switch))

    def deliver(self) -> None:
        """What one switch says may have something sent to the others."""
        there = [switch for switch in self.switches.values() if switch.datapath]
        while any(switch.datapath.is_waiting for switch in there):
            for switch in there:
                switch.datapath.deliver(switch)

    def turn(self, end: Egress, is_down: bool, is_reported: bool = True) -> None:
        """The port at one end of a cable goes down or up; both ends see it, one PORT_STATUS each."""
        for each in (end, self.fabric.peers[end]):
            self.set_carrier(each, is_down)
            if is_reported:
                self.report(each, is_down)
        self.steering.react()

    def set_carrier(self, end: Egress, is_down: bool) -> None:
        down = self.machines[end.node].instruments.down
        (down.add if is_down else down.discard)(interface(end.node, end.port))

    def report(self, end: Egress, is_down: bool) -> None:
        """A PORT_STATUS."""
        state = ofp.OFPPS_LINK_DOWN if is_down else ofp.OFPPS_LIVE
        port = parser.OFPPort(end.port, "", b"", 0, state, 0, 0, 0, 0, 0, 0)
        self.steering.look_at(self.switches[end.node], port)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self._log.events if event["event"] in kinds]

    def carry_out(self) -> dict[str, set[str]]:
        """The rules that the switches say they have."""
        return {name: set(map(repr, machine.rules)) for name, machine in self.machines.items()}

    def wanted(self) -> dict[str, set[str]]:
        return {name: set(map(repr, own)) for name, own in self.steering.intent.rules.items()}


def uplink(fabric: Fabric) -> Egress:
    (port,) = [port for port, peer in fabric.neighbours["leaf0"].items() if peer == "spine1"]
    return Egress("leaf0", port)


@pytest.fixture(params=["plan", "fabric"])
def world(request: pytest.FixtureRequest) -> World:
    plan = allreduce_plan(SPEC, "ring", "linear", "ecmp")
    intent = plan_intent(plan) if request.param == "plan" else fabric_intent(plan.fabric, "ecmp")
    return World(intent)


def test_a_failed_cable_is_led_around_once_and_no_rule_uses_it(world: World) -> None:
    end = uplink(world.fabric)
    first = world.steering.intent
    world.turn(end, is_down=True)
    world.deliver()
    assert world.carry_out() == world.wanted()
    assert world.steering.intent is not first
    for each in (end, world.fabric.peers[end]):
        assert all(each.port not in rule.ports for rule in world.machines[each.node].rules)
    assert [(event["switch"], event["port"]) for event in world.events("port_down")] == [
        (each.node, each.port) for each in (end, world.fabric.peers[end])
    ]
    (logged,) = world.events("rerouted")  # both ends reported, one answer
    assert logged["down"] == ["leaf0→spine1"]
    assert logged["rules"] > 0
    assert 0 < logged["seconds"] < 60


def test_it_is_logged_as_done_only_when_every_barrier_is_reached(world: World) -> None:
    world.turn(uplink(world.fabric), is_down=True)
    assert not world.events("rerouted")
    world.deliver()
    assert world.events("rerouted")


def test_a_cable_that_comes_back_brings_the_first_rules_back(world: World) -> None:
    first, before = world.steering.intent, world.carry_out()
    for is_down in (True, False):
        world.turn(uplink(world.fabric), is_down)
        world.deliver()
    assert world.steering.intent is first
    assert world.carry_out() == before
    assert [event["down"] for event in world.events("rerouted")] == [["leaf0→spine1"], []]


def test_a_switch_that_comes_back_is_sent_packets_only_when_it_has_its_rules(world: World) -> None:
    before = world.carry_out()
    ends = [Egress("spine1", port) for port in world.fabric.neighbours["spine1"]]
    for is_down in (True, False):
        for end in ends:
            world.turn(end, is_down)
            if is_down:
                world.deliver()
    others = [switch for name, switch in world.switches.items() if name != "spine1"]
    while any(switch.datapath.is_waiting for switch in others):
        for switch in others:
            switch.datapath.deliver(switch)
    for leaf, port in (world.fabric.peers[end] for end in ends):
        assert all(port not in rule.ports for rule in world.machines[leaf].rules)
    world.deliver()
    assert world.carry_out() == before == world.wanted()
    assert world.events("rerouted")[-1]["rules"] > 0


def test_without_reroutes_a_failure_is_logged_and_nothing_sent() -> None:
    world = World(plan_intent(allreduce_plan(SPEC)), reroutes=False)
    n_sent = {name: len(switch.datapath.sent) for name, switch in world.switches.items()}
    world.turn(uplink(world.fabric), is_down=True)
    assert n_sent == {name: len(switch.datapath.sent) for name, switch in world.switches.items()}
    assert len(world.events("port_down")) == 2
    assert not world.events("rerouted")


def test_ports_that_are_none_of_the_fabric_are_passed_over(world: World) -> None:
    local = parser.OFPPort(ofp.OFPP_LOCAL, "", b"", 0, ofp.OFPPS_LINK_DOWN, 0, 0, 0, 0, 0, 0)
    world.steering.look_at(world.switches["leaf0"], local)
    assert not world.events("port_down")


def settled(world: World, rounds: int = 10) -> bool:
    for _ in range(rounds):
        if world.steering.is_settled():
            return True
        world.deliver()
    return False


def test_it_is_settled_at_rest_only_after_every_switch_was_asked_twice(world: World) -> None:
    world.steering.settle()
    for _ in range(2):
        n_before = [len(switch.datapath.sent) for switch in world.switches.values()]
        assert not world.steering.is_settled()
        assert not world.steering.is_settled()  # nobody has answered
        assert [len(switch.datapath.sent) for switch in world.switches.values()] == [n + 1 for n in n_before]
        world.deliver()
    assert world.steering.is_settled()
    assert len(world.events("settled")) == 1


def test_a_cable_that_is_down_keeps_it_from_being_settled_though_no_message_came(world: World) -> None:
    world.turn(uplink(world.fabric), is_down=True, is_reported=False)
    world.steering.settle()
    assert not settled(world)
    assert len(world.events("port_down")) == 2
    world.turn(uplink(world.fabric), is_down=False)
    assert settled(world)
    assert [event["event"] for event in world.events("rerouted", "settled")] == [
        "rerouted", "rerouted", "settled",
    ]  # fmt: skip


def test_a_switch_that_is_away_keeps_it_from_being_settled_and_is_asked_when_it_comes(world: World) -> None:
    world.steering.settle()
    assert not world.steering.is_settled()
    world.switches["leaf0"].go()
    world.deliver()
    assert not settled(world)
    world.machines["leaf0"].instruments.down.add(interface("leaf0", uplink(world.fabric).port))
    world.connect("leaf0")
    world.deliver()
    assert not settled(world)
    assert [event["switch"] for event in world.events("port_down")] == ["leaf0"]


def with_elephants() -> World:
    """Every host sends as fast as its link is, in a plan whose hash puts several on one uplink (seed 3)."""
    plan = allreduce_plan("fat-tree:k=4", "halving-doubling", "random", "adaptive", seed=3, nbytes=MIB)
    world = World(plan_intent(plan))
    for machine in world.machines.values():
        machine.instruments.rate_bps = 60_000_000
    return world


def ask_rates(world: World, now_s: int) -> None:
    for machine in world.machines.values():
        machine.instruments.now = now_s * 10**9
    world.steering.ask_rates()
    world.deliver()


def test_elephants_on_one_uplink_are_parted_and_the_switches_know() -> None:
    world = with_elephants()
    plan = world.steering.intent.plan
    ask_rates(world, 10)
    assert not world.events("rebalanced")  # one reading is not a rate
    ask_rates(world, 11)
    (logged,) = world.events("rebalanced")
    after = world.steering.intent.plan
    assert plan is not None
    assert after is not None
    moved = [(a, b) for a, b in zip(plan.flows, after.flows, strict=True) if a.path != b.path]
    assert logged["flows"] == len(moved) == len(logged["moves"]) > 0
    assert world.carry_out() == world.wanted()
    assert {name: set(map(repr, own)) for name, own in plan_rules(after).items()} == world.wanted()


def test_settling_takes_moved_elephants_back_and_forgets_their_rates() -> None:
    world = with_elephants()
    first = world.steering.intent
    ask_rates(world, 10)
    ask_rates(world, 11)
    assert world.steering.intent is not first
    world.steering.settle()
    assert settled(world)
    assert world.steering.intent is first
    assert world.carry_out() == world.wanted()
    ask_rates(world, 12)
    assert len(world.events("rebalanced")) == 1  # the first reading again


def test_rates_are_not_asked_for_while_a_change_is_under_way(world: World) -> None:
    world.turn(uplink(world.fabric), is_down=True)
    n_sent = {name: len(switch.datapath.sent) for name, switch in world.switches.items()}
    world.steering.ask_rates()
    assert n_sent == {name: len(switch.datapath.sent) for name, switch in world.switches.items()}


@pytest.mark.parametrize("is_full", [False, True])
def test_no_elephant_goes_where_ports_count_traffic_that_no_flow_explains(is_full: bool) -> None:
    """Two hosts of leaf0 send over spine0; spine1 has room, unless somebody else fills its cables."""
    plan = schedule_plan(SPEC, messages(4, [(0, 2, MIB), (1, 3, MIB)]))
    ways = {peer: Egress("leaf0", port) for port, peer in plan.fabric.neighbours["leaf0"].items()}
    over = {
        spine: next(
            end for end in plan.fabric.peers if end.node == spine and plan.fabric.peers[end].node == "leaf1"
        )
        for spine in ("spine0", "spine1")
    }
    flows = tuple(
        replace(flow, path=(flow.path[0], ways["spine0"], over["spine0"], flow.path[3]))
        if flow.path[1].node == "leaf0"
        else flow
        for flow in plan.flows
    )
    world = World(plan_intent(replace(plan, flows=flows, routes="adaptive")))
    for machine in world.machines.values():
        machine.instruments.rate_bps = 50_000_000
    for machine in world.machines.values():
        machine.instruments.sent_bps = {
            interface(end.node, end.port): 100_000_000
            for end, peer in plan.fabric.peers.items()
            if is_full and "spine1" in (end.node, peer.node)
        }
    ask_rates(world, 10)
    ask_rates(world, 11)
    after = world.steering.intent.plan
    assert after is not None
    forward = [b.path == a.path for a, b in zip(flows, after.flows, strict=True) if a.path[1].node == "leaf0"]
    assert sorted(forward) == ([True, True] if is_full else [False, True])

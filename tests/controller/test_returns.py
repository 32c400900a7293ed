"""Cables and switches that come back: packets are walked through the rules that machines in memory have."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest

from gradwire.controller.intent import Intent
from gradwire.controller.readback import FlowStats
from gradwire.controller.ryu_api import parser
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import Rule
from tests.controller.test_stages import first_intent
from tests.controller.test_steering import World
from tests.made_switches import Machine
from tests.walks import by_match, losses, packets

SPEC = "leaf-spine:leaves=3,spines=2,hosts=2"
SPINE = "spine1"
First = Callable[[Sequence[str]], str]
"""Which of some switches that have something to read gets it now."""


@pytest.fixture(autouse=True)
def quick_flow_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser.OFPFlowStatsReply, "cls_stats_body_cls", FlowStats)


class Walked:
    """A world in which the controller reacts after each event, as the app has it.  Once `is_walked`, a packet
    of every pair of hosts is then led through the rules that the machines have.
    """

    def __init__(self, intent: Intent, first: First) -> None:
        self.world = World(intent)
        self.is_walked = False
        self.deaf: set[str] = set()  # switches that nothing reaches, though they are connected
        self._first = first
        self._packets = packets(self.world.fabric, intent.plan)
        self._tables: dict[str, dict[Match, Rule]] = {}

    def after(self, *events: Callable[[], object]) -> None:
        for event in events:
            event()
            self.world.steering.react()
            self._walk()

    def deliver(self, most: int = 1000) -> None:
        """To one switch after the other what waits for it, and what it answers."""
        for _ in range(most):
            waiting = [
                name
                for name, switch in self.world.switches.items()
                if name not in self.deaf and switch.datapath and switch.datapath.is_waiting
            ]
            if not waiting:
                return
            switch = self.world.switches[self._first(waiting)]
            self._tables.pop(switch.name, None)
            self.after(partial(switch.datapath.deliver_once, switch))

    def ends(self, switch: str) -> list[Egress]:
        """The far ends of its cables."""
        return [self.world.fabric.peers[Egress(switch, port)] for port in self.world.fabric.ports[switch]]

    def pull(self, *ends: Egress) -> None:
        """These cables go down, and all is led around them."""
        for end in ends:
            self.world.turn(end, is_down=True)
        self.deliver()

    def plug(self, *ends: Egress) -> list[Callable[[], object]]:
        """They have a carrier again; the events by which the controller hears of it."""
        both = [each for end in ends for each in (end, self.world.fabric.peers[end])]
        for each in both:
            self.world.set_carrier(each, is_down=False)
        return [partial(self.world.report, each, is_down=False) for each in both]

    def stop(self, switch: str, is_noticed: bool = True) -> None:
        """It loses its power, and its neighbours their carriers; it says nothing of its own ports."""
        if is_noticed:
            self.world.switches[switch].go()
        else:
            self.deaf.add(switch)
        for end in self.ends(switch):
            self.world.set_carrier(end, is_down=True)
            self.after(partial(self.world.report, end, is_down=True))
        self.deliver()
        fabric = self.world.fabric
        self.world.machines[switch] = Machine(switch, fabric.dpid(switch), fabric.ports[switch])
        self._tables.pop(switch, None)

    def start(self, switch: str) -> list[Callable[[], object]]:
        """It has power again, and no rules: what its neighbours say of their ports."""
        for end in self.ends(switch):
            self.world.set_carrier(end, is_down=False)
        return [partial(self.world.report, end, is_down=False) for end in self.ends(switch)]

    def _walk(self) -> None:
        if not self.is_walked:
            return
        for name, machine in self.world.machines.items():
            if name not in self._tables:
                self._tables[name] = by_match(machine.rules)
        down = {each for machine in self.world.machines.values() for each in machine.instruments.down}
        assert losses(self.world.fabric, self._tables, self._packets, down) == []


@pytest.fixture(params=["leaves first", "spines first", "any"])
def first(request: pytest.FixtureRequest) -> First:
    of_name: dict[str, First] = {"leaves first": min, "spines first": max, "any": Random(0).choice}
    return of_name[request.param]


def walked(what: str, first: First = min, spec: str = SPEC) -> Walked:
    kind, routes = what.split()
    return Walked(first_intent(spec, kind, routes), first)


def is_as_before(lab: Walked) -> bool:
    """Whether all switches have the first rules, and the controller says so."""
    world, (*_, logged) = lab.world, lab.world.events("rerouted")
    is_used = all(world.steering.is_in_force_at(name) for name in world.switches)
    return is_used and world.carry_out() == world.wanted() and logged["down"] == []


WHAT = pytest.mark.parametrize("what", ["fabric ecmp", "fabric planned", "plan ecmp", "plan planned"])


@pytest.mark.broad(5)
@WHAT
@pytest.mark.parametrize("n_between", [0, 2])
@pytest.mark.parametrize("n_cables", [1, 3])
def test_no_packet_is_lost_when_cables_come_back(
    what: str, n_cables: int, n_between: int, first: First
) -> None:
    """`n_between` deliveries take place from one PORT_STATUS to the next."""
    lab = walked(what, first)
    ends = lab.ends(SPINE)[:n_cables]
    lab.pull(*ends)
    reports = lab.plug(*ends)
    lab.is_walked = True
    for report in reports:
        lab.after(report)
        lab.deliver(n_between)
    lab.deliver()
    assert is_as_before(lab)


@pytest.mark.broad(5)
@WHAT
@pytest.mark.parametrize("comes_first", [False, True], ids=["neighbours speak first", "it comes first"])
def test_no_packet_is_lost_when_a_switch_has_power_again(what: str, comes_first: bool, first: First) -> None:
    lab = walked(what, first)
    lab.stop(SPINE)
    assert lab.world.steering.is_gone(SPINE)
    reports = lab.start(SPINE)
    come: Callable[[], object] = partial(lab.world.connect, SPINE)
    lab.is_walked = True
    for event in [come, *reports] if comes_first else [*reports, come]:
        lab.after(event)
        lab.deliver(1)
    lab.deliver()
    assert is_as_before(lab)


@pytest.mark.broad(5)
@WHAT
def test_no_packet_is_lost_when_a_switch_is_on_again_before_the_controller_has_missed_it(
    what: str, first: First
) -> None:
    lab = walked(what, first)
    lab.stop(SPINE, is_noticed=False)
    reports = lab.start(SPINE)
    lab.is_walked = True
    lab.after(*reports)
    lab.deliver()
    lab.deaf.clear()
    lab.world.switches[SPINE].go()  # and what a leaf reads next it was sent before the controller has reacted
    lab.deliver()
    lab.after(partial(lab.world.connect, SPINE))
    lab.deliver()
    assert is_as_before(lab)


@pytest.mark.long
@pytest.mark.parametrize("spec", ["fat-tree:k=4", "mesh:x=3,y=3"])
@pytest.mark.parametrize("what", ["fabric ecmp", "plan ecmp"])
def test_no_packet_is_lost_where_a_cable_comes_back_whose_ends_have_traffic(
    what: str, spec: str, first: First
) -> None:
    """Not only through switches that nothing was led over."""
    lab = walked(what, first, spec)
    for link in lab.world.fabric.inner_links[:4]:
        end = Egress(link.a, link.a_port)
        lab.is_walked = False
        lab.pull(end)
        reports = lab.plug(end)
        lab.is_walked = True
        lab.after(*reports)
        lab.deliver()
    assert is_as_before(lab)


def test_a_cable_is_not_used_until_both_its_switches_have_their_rules() -> None:
    lab = walked("fabric ecmp")
    lab.stop(SPINE)
    around = lab.world.steering.intent
    lab.after(*lab.start(SPINE))
    lab.deliver()
    lab.after(partial(lab.world.connect, SPINE))
    assert lab.world.steering.intent is around
    assert not lab.world.steering.is_in_force_at(SPINE)
    assert not lab.world.steering.is_in_force_at("leaf0")  # its cable is up, and not used
    assert lab.world.steering.is_in_force_at("spine0")
    lab.deliver()
    assert is_as_before(lab)


def test_a_switch_that_came_back_and_loses_its_connection_alone_is_led_over_as_before() -> None:
    lab = walked("fabric ecmp")
    lab.pull(*lab.ends(SPINE))
    lab.after(*lab.plug(*lab.ends(SPINE)))
    lab.deliver()
    assert is_as_before(lab)
    intent = lab.world.steering.intent
    lab.after(lab.world.switches[SPINE].go)
    assert lab.world.steering.intent is intent


def test_a_switch_is_gone_when_all_flows_are_led_around_it_and_not_before() -> None:
    lab = walked("fabric ecmp")
    steering = lab.world.steering
    lab.after(lab.world.switches[SPINE].go)
    assert steering.is_away(SPINE)
    for end in lab.ends(SPINE):
        assert not steering.is_gone(SPINE)
        lab.after(partial(lab.world.report, end, is_down=True))
    assert not steering.is_gone(SPINE)  # the leaves have not said that they have their rules
    lab.deliver()
    assert steering.is_gone(SPINE)
    assert not steering.is_gone("spine0")


def test_a_switch_is_gone_with_its_connection_where_nothing_is_led_around_it() -> None:
    world = World(first_intent(SPEC, "fabric", "ecmp"), reroutes=False)
    assert not world.steering.is_gone(SPINE)
    world.switches[SPINE].go()
    assert world.steering.is_gone(SPINE)


def test_a_return_that_a_failure_overtakes_is_not_logged_and_its_flows_have_not_moved() -> None:
    lab = walked("plan ecmp", max)
    (end, *_) = lab.ends(SPINE)
    lab.pull(end)
    around = lab.world.carry_out()
    lab.after(*lab.plug(end))
    lab.world.turn(end, is_down=True)
    lab.deliver()
    one, two = lab.world.events("rerouted")
    assert one["down"] == two["down"] == ["leaf0→spine1"]
    assert one["flows"] > 0 == two["flows"]
    assert lab.world.carry_out() == around


def test_two_changes_to_the_same_rules_are_told_apart() -> None:
    lab = walked("plan ecmp", max)
    (end, *_) = lab.ends(SPINE)
    lab.pull(end)
    for is_down in (False, True, False):
        lab.world.turn(end, is_down)
    lab.deliver()
    assert [event["down"] for event in lab.world.events("rerouted")] == [["leaf0→spine1"]] * 2 + [[]]
    assert is_as_before(lab)


def test_where_a_cable_fails_as_another_comes_back_flows_are_led_around_before_any_is_led_back() -> None:
    lab = walked("fabric ecmp")
    back, (_, fails, _) = lab.ends(SPINE)[0], lab.ends("spine0")
    lab.pull(back)
    lab.plug(back)
    for end in (back, lab.world.fabric.peers[back]):
        lab.world.report(end, is_down=False)
    lab.world.turn(fails, is_down=True)
    lab.deliver()
    assert [event["down"] for event in lab.world.events("rerouted")] == [
        ["leaf0→spine1"], ["leaf0→spine1", "leaf1→spine0"], ["leaf1→spine0"],
    ]  # fmt: skip
    assert lab.world.carry_out() == lab.world.wanted()


def test_the_log_counts_seconds_from_the_port_status_however_long_the_switch_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0
    monkeypatch.setattr("gradwire.controller.steering.now_ns", lambda: now_s * 10**9)
    lab = walked("fabric ecmp")
    lab.stop(SPINE)
    now_s = 1
    lab.after(*lab.start(SPINE))
    now_s = 3
    lab.pull(lab.ends("spine0")[0])
    now_s = 6
    lab.after(partial(lab.world.connect, SPINE))
    lab.deliver()
    *_, around, back = lab.world.events("rerouted")
    assert (around["seconds"], back["seconds"]) == (0, 5)


def test_a_switch_that_comes_during_a_change_gets_what_it_is_to_have_by_then() -> None:
    """Not rules over a cable whose far switch has none yet."""
    lab = walked("fabric ecmp")
    (end, *_) = lab.ends(SPINE)
    lab.pull(end)
    lab.after(*lab.plug(end))
    lab.is_walked = True
    lab.after(lab.world.switches["leaf1"].go)
    lab.after(partial(lab.world.connect, "leaf1"))
    lab.deliver()
    assert is_as_before(lab)

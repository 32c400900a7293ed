"""One switch through connections that come and go, against a switch session in memory."""

import pytest

from gradwire.controller import openflow
from gradwire.controller.readback import FlowStats
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.switch import KnownSwitch
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import Rule
from tests.made_switches import Line, Machine, never

A = Rule(1, Match(0x800, None, 10), (1, 2))
B = Rule(1, Match(0x800, None, 11), (3,))
C = Rule(1, Match(0x800, None, 12), (2, 3), "failover")


@pytest.fixture(autouse=True)
def quick_flow_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser.OFPFlowStatsReply, "cls_stats_body_cls", FlowStats)


@pytest.fixture
def machine() -> Machine:
    return Machine("s", 1, (1, 2, 3))


def come(switch: KnownSwitch, machine: Machine, *rules: Rule) -> Line:
    line = Line(machine)
    switch.come(line, openflow.table(rules, switch.table))
    return line


def programmed(machine: Machine, *rules: Rule) -> KnownSwitch:
    switch = KnownSwitch("s", never)
    come(switch, machine, *rules).deliver(switch)
    return switch


def ready(switch: KnownSwitch) -> bool:
    return switch.is_ready


def same(machine: Machine, *rules: Rule) -> bool:
    return sorted(machine.rules, key=repr) == sorted(rules, key=repr)


def test_a_new_switch_is_ready_only_once_it_was_seen_to_have_its_rules(machine: Machine) -> None:
    switch = KnownSwitch("s", never)
    line = come(switch, machine, A, B, C)
    assert not ready(switch)
    line.deliver(switch)
    assert ready(switch)
    assert same(machine, A, B, C)


def test_one_that_comes_again_with_its_rules_is_sent_nothing(machine: Machine) -> None:
    switch = programmed(machine, A, B)
    switch.go()
    assert not ready(switch)
    line = come(switch, machine, A, B)
    line.deliver(switch)
    assert ready(switch)
    assert set(line.sent) == {ofp.OFPT_MULTIPART_REQUEST}


def test_one_that_lost_its_rules_is_sent_them_again(machine: Machine) -> None:
    switch = programmed(machine, A, B)
    switch.go()
    fresh = Machine("s", 1, (1, 2, 3))
    come(switch, fresh, A, B).deliver(switch)
    assert ready(switch)
    assert same(fresh, A, B)


def test_one_that_was_never_seen_ready_is_sent_all_when_it_comes_again(machine: Machine) -> None:
    switch = KnownSwitch("s", never)
    come(switch, machine, A)
    switch.go()
    line = come(switch, machine, A)
    line.deliver(switch)
    assert ofp.OFPT_FLOW_MOD in line.sent
    assert ready(switch)


def test_what_changed_while_it_was_away_it_has_when_it_comes_again(machine: Machine) -> None:
    switch = programmed(machine, A, B)
    switch.go()
    done: list[str] = []
    new = openflow.table((A, C), switch.table)
    assert switch.update(new, lambda: done.append("done")) == 2
    assert done == ["done"]  # nobody waits for a switch that is away
    come(switch, machine, A, C).deliver(switch)
    assert same(machine, A, C)
    assert ready(switch)


def test_an_update_is_done_when_its_barrier_is_reached_and_not_before(machine: Machine) -> None:
    switch = programmed(machine, A, B)
    done: list[str] = []
    assert switch.update(openflow.table((A, C), switch.table), lambda: done.append("done")) == 2
    assert not done
    switch.datapath.deliver(switch)
    assert done == ["done"]
    assert same(machine, A, C)
    assert switch.update(openflow.table((C, A), switch.table), lambda: done.append("again")) == 0
    assert done == ["done", "again"]


def test_who_waits_is_called_with_the_last_barrier_of_what_was_sent_before(machine: Machine) -> None:
    switch = programmed(machine, A)
    called: list[str] = []
    switch.update(openflow.table((B,), switch.table), lambda: called.append("first"))
    switch.update(openflow.table((C,), switch.table), lambda: called.append("second"))
    switch.when_done(lambda: called.append("third"))
    assert not called
    switch.reach_barrier()
    assert called == ["first"]
    switch.reach_barrier()
    assert called == ["first", "second", "third"]


def test_an_update_while_it_is_being_programmed_does_not_make_it_refused(machine: Machine) -> None:
    switch = KnownSwitch("s", never)
    line = come(switch, machine, A, B)
    switch.update(openflow.table((A, C), switch.table), lambda: None)
    line.deliver(switch)
    assert ready(switch)
    assert same(machine, A, C)


def test_a_switch_that_drops_a_rule_is_refused_by_name(machine: Machine) -> None:
    refused: list[str] = []
    switch = KnownSwitch("s", refused.append)
    line = come(switch, machine, A, B)
    (barrier,) = line.answers()
    assert isinstance(barrier, parser.OFPBarrierReply)
    other = Line(machine)
    other.send(openflow.program(other, openflow.table((A,))))
    other.answers()
    switch.reach_barrier()
    line.deliver(switch)
    assert not ready(switch)
    assert refused == [
        "s: did not install the rules it was sent: 1 missing, 0 that were not sent, such as " + str(B)
    ]


def test_a_connection_that_ends_leaves_nobody_waiting_and_no_question_open(machine: Machine) -> None:
    switch = programmed(machine, A)
    done: list[str] = []
    answered: list[object] = []
    switch.ask(parser.OFPPortDescStatsRequest(switch.datapath), answered.append)
    switch.update(openflow.table((B,), switch.table), lambda: done.append("done"))
    line = switch.datapath
    switch.go()
    assert done == ["done"]
    line.deliver(switch)  # what was under way is passed over
    assert not answered


def test_an_answer_in_parts_is_taken_whole(machine: Machine) -> None:
    rules = tuple(Rule(1, Match(0x800, None, n), (1,)) for n in range(900))  # 80 bytes each, 64 KiB a message
    switch = programmed(machine, *rules)
    taken: list[int] = []
    switch.ask(parser.OFPFlowStatsRequest(switch.datapath), lambda flows: taken.append(len(flows)))
    n_parts = 0
    for message in switch.datapath.answers():
        assert not taken
        n_parts += 1
        switch.answer(message)
    assert n_parts > 1
    assert taken == [900]

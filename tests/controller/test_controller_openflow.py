"""The controller's messages, given to a switch session in memory: the switch then has what was sent."""

import struct
from itertools import count
from typing import Any

import pytest
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from gradwire.controller import openflow
from gradwire.controller.counters import counters_json
from gradwire.controller.openflow import changes, table
from gradwire.controller.readback import FlowStats, UnknownRule, complaint, group_keys, installed
from gradwire.controller.ryu_api import ofp, parser
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.emu.switch.server.session import Session
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.planeoperations import Operation, RemoveGroup, RemoveRule, SetGroup, SetRule
from gradwire.emu.switch.table.table import FlowTable
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.entries import Event
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import Rule, destination_rules, plan_rules
from tests.made_plans import allreduce_plan
from tests.openflow_talk import HELLO, FakeInstruments, Talk, read

DST = Match(0x800, None, 0x0A000002)
OTHER = Match(0x800, None, 9)


@pytest.fixture(autouse=True)
def quick_flow_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser.OFPFlowStatsReply, "cls_stats_body_cls", FlowStats)


class Datapath(ProtocolDesc):  # type: ignore[misc]
    """What of os-ken's datapath building messages needs."""

    def __init__(self) -> None:
        super().__init__(version=ofp.OFP_VERSION)
        self._xids = count(1)

    def set_xid(self, message: Any) -> None:
        message.set_xid(next(self._xids))


def asked(*requests: Any) -> bytes:
    encoded = b""
    for request in requests:
        request.set_xid(1)
        request.serialize()
        encoded += bytes(request.buf)
    return encoded


def connected(n_ports: int) -> Talk:
    talk = Talk()
    ports = tuple(SwitchPort(port, f"s-eth{port}", 10**8) for port in range(1, n_ports + 1))
    talk.table = FlowTable(Numbers(10_000), Numbers(100))
    talk.session = Session(SwitchPorts("s", 1, ports), talk.table, FakeInstruments())
    talk.say(HELLO)
    return talk


def obey(talk: Talk, octets: bytes) -> list[Operation | Event]:
    """What the switch does; every answer but the barrier's is a failure."""
    n_before = len(talk.operations)
    (barrier,) = talk.say(octets)
    assert isinstance(barrier, parser.OFPBarrierReply)
    return talk.operations[n_before:]


def programmed(rules: tuple[Rule, ...], n_ports: int) -> Talk:
    """A switch with `n_ports` that was sent the rules."""
    talk = connected(n_ports)
    obey(talk, openflow.program(Datapath(), table(rules)))
    return talk


def stated(talk: Talk) -> tuple[list[Any], list[FlowStats]]:
    """What the switch says of its groups and its rules."""
    datapath = Datapath()
    replies = talk.say(asked(parser.OFPGroupDescStatsRequest(datapath), parser.OFPFlowStatsRequest(datapath)))
    groups, *flows = (reply.body for reply in replies)
    return groups, [flow for part in flows for flow in part]


def found(talk: Talk) -> list[Rule]:
    groups, flows = stated(talk)
    return list(installed(flows, group_keys(groups)))


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "bigraph:n=4,m=2"])
def test_a_switch_reports_exactly_the_rules_it_was_sent(spec: str) -> None:
    fabric = parse_fabric(spec)
    for rules in (destination_rules(fabric), plan_rules(allreduce_plan(spec, "halving-doubling"))):
        for switch in fabric.switches:
            talk = programmed(rules[switch], len(fabric.ports[switch]))
            assert sorted(found(talk), key=repr) == sorted(rules[switch], key=repr)


def test_a_switch_that_is_programmed_again_forgets_what_it_had() -> None:
    talk = programmed((Rule(1, DST, (1, 2)),), 3)
    other = (Rule(1, OTHER, (2, 3)),)
    talk.say(openflow.program(Datapath(), table(other)))
    assert RemoveRule(DST) in talk.operations
    assert found(talk) == list(other)


def test_equal_sets_of_ports_share_a_group() -> None:
    rules = tuple(Rule(1, Match(0x800, None, n), (1, 2)) for n in range(5))
    assert len(programmed(rules, 3).table.groups) == 1


def test_the_same_ports_spread_and_as_failover_are_two_groups() -> None:
    wanted = table((Rule(1, DST, (1, 2)), Rule(1, OTHER, (1, 2), "failover")))
    assert len(wanted.groups) == 2
    (first, second) = sorted(wanted.groups, key=lambda key: wanted.groups[key])
    assert {first, second} == {("spread", (1, 2)), ("failover", (1, 2))}


def test_a_failover_rule_comes_back_as_one_and_in_its_order() -> None:
    rules = (Rule(1, DST, (3, 1), "failover"), Rule(1, OTHER, (1, 3)))
    assert sorted(found(programmed(rules, 3)), key=repr) == sorted(rules, key=repr)


def test_a_udp_rule_comes_back_as_udp() -> None:
    rule = Rule(1, Match(0x800, 1, 2, 17, 30, 40), (1,))
    assert found(programmed((rule,), 3)) == [rule]


BEFORE = (
    Rule(1, DST, (1, 2)),
    Rule(1, OTHER, (3,)),
    Rule(2, OTHER, (2, 3)),
    Rule(1, Match(0x800, None, 10), (1,)),
)
AFTER = (
    Rule(1, DST, (1, 3)),  # another group
    Rule(1, OTHER, (3,)),  # as it was
    Rule(1, Match(0x800, None, 10), (2,)),  # another port
    Rule(1, Match(0x800, None, 11), (1, 2)),  # new, of a group that was there
)


def test_an_update_leads_to_the_same_rules_as_programming_from_scratch() -> None:
    old = table(BEFORE)
    new = table(AFTER, old)
    talk = connected(3)
    obey(talk, openflow.program(Datapath(), old))
    obey(talk, openflow.update(Datapath(), old, new, changes(old, new)))
    assert sorted(found(talk), key=repr) == sorted(AFTER, key=repr)
    assert talk.table.groups.keys() == set(new.groups.values())


def test_an_update_touches_only_what_differs_and_makes_before_it_breaks() -> None:
    old = table(BEFORE)
    new = table(AFTER, old)
    talk = connected(3)
    obey(talk, openflow.program(Datapath(), old))
    done = [
        op for op in obey(talk, openflow.update(Datapath(), old, new, changes(old, new))) if not _clears(op)
    ]
    kinds = [type(op) for op in done]
    assert kinds == sorted(kinds, key=[SetGroup, SetRule, RemoveRule, RemoveGroup].index)
    touched = {op.match for op in done if isinstance(op, SetRule | RemoveRule)}
    assert touched == {DST, OTHER, Match(0x800, None, 10), Match(0x800, None, 11)}
    assert [len(part) for part in changes(old, new)] == [1, 2, 1]


def _clears(operation: Operation | Event) -> bool:
    return type(operation).__name__.startswith("Clear")


def test_a_rule_that_changes_keeps_its_counters() -> None:
    old = table((Rule(1, DST, (1,)),))
    talk = connected(3)
    obey(talk, openflow.program(Datapath(), old))
    new = table((Rule(1, DST, (2,)),), old)
    done = obey(talk, openflow.update(Datapath(), old, new, changes(old, new)))
    assert not any(map(_clears, done))


def test_nothing_is_sent_when_nothing_has_changed() -> None:
    old = table(BEFORE)
    new = table(BEFORE, old)
    assert openflow.update(Datapath(), old, new, changes(old, new)) == b""


def test_groups_that_stay_keep_their_numbers() -> None:
    old = table((Rule(1, DST, (1, 2)), Rule(1, OTHER, (2, 3))))
    new = table((Rule(1, DST, (1, 3)), Rule(1, OTHER, (2, 3))), old)
    assert new.groups["spread", (2, 3)] == old.groups["spread", (2, 3)]
    assert new.groups["spread", (1, 3)] not in old.groups.values()


def entry(match: Any, action: Any, priority: int = 1) -> FlowStats:
    """A flow statistics entry, as it is on the wire; its end is like a FLOW_MOD's."""
    apply = parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [action])
    mod = parser.OFPFlowMod(Datapath(), match=match, instructions=[apply])
    mod.set_xid(1)
    mod.serialize()
    rest = bytes(mod.buf)[48:]
    return FlowStats.parser(
        struct.pack("!HBxIIHHHH4xQQQ", 48 + len(rest), 0, 0, 0, priority, *[0] * 6) + rest, 0
    )


@pytest.mark.parametrize(
    ("match", "action", "complaint"),
    [
        (parser.OFPMatch(eth_src="02:00:00:00:00:01"), parser.OFPActionOutput(1), "matches eth_src"),
        (parser.OFPMatch(), parser.OFPActionDecNwTtl(), "with the actions"),
        (parser.OFPMatch(), parser.OFPActionGroup(5), "with the actions"),
        (
            parser.OFPMatch(),
            parser.OFPActionExperimenterUnknown(0x00024757, bytes(32)),
            "with the actions",
        ),
        (
            parser.OFPMatch(),
            parser.OFPActionExperimenterUnknown(0x00002320 + 1, bytes(8)),
            "with the actions",
        ),
    ],
)
def test_a_rule_that_none_of_ours_could_be_is_noticed(match: Any, action: Any, complaint: str) -> None:
    with pytest.raises(UnknownRule, match=complaint):
        list(installed([entry(match, action)], {}))


@pytest.mark.parametrize("nbytes", [0, 47, 60])
def test_an_entry_that_is_cut_short_is_refused(nbytes: int) -> None:
    with pytest.raises((ValueError, struct.error)):
        FlowStats.parser(struct.pack("!H", nbytes) + bytes(50), 0)


def bucket(port: int, watch: int = ofp.OFPP_ANY) -> Any:
    return parser.OFPBucket(1, watch, ofp.OFPG_ANY, [parser.OFPActionOutput(port)])


@pytest.mark.parametrize(
    "group",
    [
        parser.OFPGroupDescStats(ofp.OFPGT_ALL, 1, [bucket(1)]),
        parser.OFPGroupDescStats(ofp.OFPGT_FF, 1, [bucket(1, watch=2)]),
        parser.OFPGroupDescStats(ofp.OFPGT_SELECT, 1, [parser.OFPBucket(1, actions=[])]),
        parser.OFPGroupDescStats(
            ofp.OFPGT_SELECT, 1, [parser.OFPBucket(1, actions=[parser.OFPActionOutput(n) for n in (1, 2)])]
        ),
    ],
)
def test_a_group_that_none_of_ours_could_be_is_noticed(group: Any) -> None:
    with pytest.raises(UnknownRule, match="group 1"):
        group_keys([group])


def said_of(talk: Talk, rules: tuple[Rule, ...]) -> str | None:
    """What the controller says of a switch that it believes to have sent `rules`."""
    wanted = table(rules)
    groups, flows = stated(talk)
    return complaint(openflow.program(Datapath(), wanted), wanted, flows, groups)


def test_a_switch_with_exactly_what_it_was_sent_gives_no_cause_for_complaint() -> None:
    assert said_of(programmed(BEFORE, 3), BEFORE) is None


def test_match_fields_in_another_order_are_the_same_rule() -> None:
    """Open vSwitch sorts them; the bytes then differ, and the rules are compared instead."""
    rule = Rule(7, Match(0x800, 1, 2, 6, 30, 40), (1,))
    groups, flows = stated(programmed((rule,), 3))
    octets = flows[0].match_and_instructions
    fields = octets[4 : int.from_bytes(octets[2:4], "big")]
    ports = fields[-12:-6], fields[-6:]  # two bytes of value each
    flows[0].match_and_instructions = (
        octets[:4] + fields[:-12] + ports[1] + ports[0] + octets[4 + len(fields) :]
    )
    assert flows[0].match_and_instructions != octets
    wanted = table((rule,))
    assert complaint(openflow.program(Datapath(), wanted), wanted, flows, groups) is None


@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        (BEFORE[1:], "did not install the groups it was sent: sent 2, installed 1"),
        (BEFORE[:1] + BEFORE[2:], "1 missing, 0 that were not sent"),
        ((*BEFORE, Rule(9, DST, (1,))), "0 missing, 1 that were not sent"),
        ((*BEFORE[:1], Rule(1, OTHER, (2,)), *BEFORE[2:]), "1 missing, 1 that were not sent"),
    ],
)
def test_a_switch_with_other_rules_is_complained_of(there: tuple[Rule, ...], wrong: str) -> None:
    assert wrong in str(said_of(programmed(there, 3), BEFORE))


def test_counters_become_rows_and_what_is_not_counted_becomes_null() -> None:
    fabric = parse_fabric("star:hosts=3")
    talk = programmed((Rule(100, DST, (2,)),), 3)
    datapath = Datapath()
    requests = asked(
        parser.OFPFlowStatsRequest(datapath), parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)
    )
    flows, ports = (reply.body for reply in map(read, talk.replies(requests)))
    ports.append(parser.OFPPortStats(ofp.OFPP_LOCAL, *[0] * 14))  # Open vSwitch's own
    value = counters_json(fabric, {"switch0": flows}, {"switch0": ports})
    assert value["flows"] == [
        {
            "switch": "switch0",
            "match": {"eth_type": 0x800, "ipv4_dst": "10.0.0.2"},
            "priority": 100,
            "output": 2,
            "packets": 0,
            "bytes": 0,
        }
    ]
    assert [row["port"] for row in value["ports"]] == [1, 2, 3]
    second, third = value["ports"][1:]
    assert (second["rx_bytes"], second["tx_bytes"], second["tx_dropped"]) == (2000, 12, 13)
    assert (third["rx_packets"], third["tx_packets"]) == (3, None)

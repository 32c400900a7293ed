"""The controller's messages, given to the switch's own session: what is sent is what is there."""

from itertools import count
from typing import Any

import pytest
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from controller import openflow
from controller.openflow import UnknownRule
from controller.rules import Rule, destination_rules, plan_rules
from controller.ryu_api import ofp, parser
from controller.stats import counters
from emu.spec import parse_fabric
from emu.switch.entries import RemoveRule
from emu.switch.match import Match
from emu.switch.ports import Port, SwitchPorts
from emu.switch.session import Session
from emu.switch.table import FlowNumbers, FlowTable, Room
from tests.made_plans import allreduce_plan
from tests.openflow_talk import HELLO, FakeInstruments, Talk, read

DST = Match(0x800, None, 0x0A000002)


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


def programmed(rules: tuple[Rule, ...], n_ports: int) -> Talk:
    """A switch with `n_ports` that was sent the rules; every answer but the barrier's is a failure."""
    talk = Talk()
    ports = tuple(Port(port, f"s-eth{port}", 10**8) for port in range(1, n_ports + 1))
    talk.table = FlowTable(FlowNumbers(10_000), Room(100))
    talk.session = Session(SwitchPorts("s", 1, ports), talk.table, FakeInstruments())
    talk.say(HELLO)
    (barrier,) = talk.say(openflow.program(Datapath(), rules))
    assert isinstance(barrier, parser.OFPBarrierReply)
    return talk


def found(talk: Talk) -> list[Rule]:
    datapath = Datapath()
    replies = talk.say(asked(parser.OFPGroupDescStatsRequest(datapath), parser.OFPFlowStatsRequest(datapath)))
    groups, *flows = (reply.body for reply in replies)
    return list(openflow.installed((flow for part in flows for flow in part), groups))


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "bigraph:n=4,m=2"])
def test_a_switch_tells_back_exactly_the_rules_it_was_sent(spec: str) -> None:
    fabric = parse_fabric(spec)
    for rules in (destination_rules(fabric), plan_rules(allreduce_plan(spec, "halving-doubling"))):
        for switch in fabric.switches:
            talk = programmed(rules[switch], len(fabric.ports[switch]))
            assert sorted(found(talk), key=repr) == sorted(rules[switch], key=repr)


def test_a_switch_that_is_programmed_again_forgets_what_it_had() -> None:
    talk = programmed((Rule(1, DST, (1, 2)),), 3)
    other = (Rule(1, Match(0x800, None, 9), (2, 3)),)
    talk.say(openflow.program(Datapath(), other))
    assert RemoveRule(DST) in talk.operations
    assert found(talk) == list(other)


def test_equal_sets_of_ports_share_a_group() -> None:
    rules = tuple(Rule(1, Match(0x800, None, n), (1, 2)) for n in range(5))
    assert len(programmed(rules, 3).table.groups) == 1


def test_a_udp_rule_comes_back_as_udp() -> None:
    rule = Rule(1, Match(0x800, 1, 2, 17, 30, 40), (1,))
    assert found(programmed((rule,), 3)) == [rule]


@pytest.mark.parametrize(
    ("match", "action", "complaint"),
    [
        (parser.OFPMatch(in_port=1), parser.OFPActionOutput(1), "matches in_port"),
        (parser.OFPMatch(), parser.OFPActionDecNwTtl(), "has the actions"),
        (parser.OFPMatch(), parser.OFPActionGroup(5), "has the actions"),
    ],
)
def test_a_rule_that_none_of_ours_could_be_is_noticed(match: Any, action: Any, complaint: str) -> None:
    apply = parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [action])
    flow = parser.OFPFlowStats(priority=1, match=match, instructions=[apply])
    with pytest.raises(UnknownRule, match=complaint):
        list(openflow.installed([flow], []))


def test_counters_become_rows_and_what_is_not_counted_becomes_null() -> None:
    fabric = parse_fabric("star:hosts=3")
    talk = programmed((Rule(100, DST, (2,)),), 3)
    datapath = Datapath()
    requests = asked(
        parser.OFPFlowStatsRequest(datapath), parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)
    )
    flows, ports = (reply.body for reply in map(read, talk.replies(requests)))
    ports.append(parser.OFPPortStats(ofp.OFPP_LOCAL, *[0] * 14))  # Open vSwitch's own
    value = counters(fabric, {"switch0": flows}, {"switch0": ports})
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

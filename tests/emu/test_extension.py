"""Aggregation jobs sent to a switch by OpenFlow: taken, refused, sent again, counted (os-ken's messages)."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from gradwire.emu.switch.table.planeoperations import RemovePool, SetPool, SetRule
from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.planning.openflow.extension import COUNTS_TYPE, EXPERIMENTER, action, read_job_counts
from tests.emu.test_aggregate_action import BAD_BYTES, ROOT, RULE, UP
from tests.made_rules import DATAPATH, serialized
from tests.openflow_talk import Talk

UDP_PORT = 0xBEE3
NICIRA = action(RULE).replace(bytes.fromhex("00024757"), bytes.fromhex("00002320"))


def experimenter(octets: bytes) -> Any:
    (number,) = struct.unpack_from("!I", octets, 4)
    return parser.OFPActionExperimenterUnknown(number, octets[8:])


def flow_mod(
    rule: Aggregate | bytes,
    command: int = ofp.OFPFC_ADD,
    others: tuple[Any, ...] = (),
    kind: int = ofp.OFPIT_APPLY_ACTIONS,
    priority: int = 400,
    **fields: Any,
) -> bytes:
    """As os-ken writes it; `fields` in place of those of the rule's child."""
    match = {"eth_type": 0x0800, "ip_proto": 17, "udp_dst": UDP_PORT, "in_port": in_port(rule)} | fields
    octets = rule if isinstance(rule, bytes) else action(rule)
    actions = [experimenter(octets), *others]
    message = parser.OFPFlowMod(
        DATAPATH,
        command=command,
        priority=priority,
        match=parser.OFPMatch(**{name: value for name, value in match.items() if value is not None}),
        instructions=[parser.OFPInstructionActions(kind, actions)],
    )
    return serialized(message, 5)


def in_port(rule: Aggregate | bytes) -> int | None:
    if isinstance(rule, bytes):
        return 1
    return rule.parent_port if rule.child == FROM_PARENT else rule.ports[rule.child]


@pytest.mark.parametrize("name", BAD_BYTES)
def test_a_flow_mod_with_a_wrong_action_is_refused_with_its_error(name: str) -> None:
    octets, wrong = BAD_BYTES[name]
    talk = Talk()
    assert talk.error(flow_mod(octets)) == (ofp.OFPET_BAD_ACTION, wrong)
    assert len(talk.table) == 0
    assert talk.operations == []


ACTION, MOD = ofp.OFPET_BAD_ACTION, ofp.OFPET_FLOW_MOD_FAILED
INCONSISTENT = (ACTION, ofp.OFPBAC_MATCH_INCONSISTENT)
ARGUMENT = (ACTION, ofp.OFPBAC_BAD_ARGUMENT)
OUT_PORT = (ACTION, ofp.OFPBAC_BAD_OUT_PORT)
TOO_MANY = (ACTION, ofp.OFPBAC_TOO_MANY)
FLOW: dict[str, Any] = {"in_port": None, "ip_proto": 6, "udp_dst": None, "tcp_src": 1, "tcp_dst": 2}
DST: dict[str, Any] = {"in_port": None, "ip_proto": None, "udp_dst": None, "ipv4_dst": "10.0.0.1"}
REFUSED = [
    ("an output beside it", flow_mod(RULE, others=(parser.OFPActionOutput(1),)), TOO_MANY),
    ("itself twice", flow_mod(RULE, others=(experimenter(action(RULE)),)), TOO_MANY),
    ("a modify", flow_mod(RULE, ofp.OFPFC_MODIFY), (MOD, ofp.OFPFMFC_BAD_COMMAND)),
    ("a strict modify", flow_mod(RULE, ofp.OFPFC_MODIFY_STRICT), (MOD, ofp.OFPFMFC_BAD_COMMAND)),
    ("a child's port that is none", flow_mod(RULE._replace(ports=(9, 2))), OUT_PORT),
    ("a parent's port that is none", flow_mod(RULE._replace(parent_port=9)), OUT_PORT),
    ("a reserved port", flow_mod(RULE._replace(parent_port=ofp.OFPP_FLOOD)), OUT_PORT),
    ("another child's port", flow_mod(RULE, in_port=1), INCONSISTENT),
    ("the parent's port for a child", flow_mod(RULE, in_port=3), INCONSISTENT),
    ("a child's port for the parent", flow_mod(UP, in_port=2), INCONSISTENT),
    ("any port", flow_mod(RULE, in_port=None), INCONSISTENT),
    ("TCP", flow_mod(RULE, **{**DST, **FLOW}, ipv4_src="10.0.0.2"), INCONSISTENT),
    ("an address", flow_mod(RULE, **DST), INCONSISTENT),
    ("more slots than there are", flow_mod(RULE._replace(slots=1025)), (MOD, ofp.OFPFMFC_TABLE_FULL)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "request_", "error"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_an_entry_that_cannot_add_up_is_refused_and_changes_nothing(
    name: str, request_: bytes, error: tuple[int, int]
) -> None:
    talk = Talk()
    assert talk.error(request_) == error
    assert len(talk.table) == 0
    assert talk.operations == []
    assert talk.table.jobs.held == {}


DISAGREEING = {
    "epoch": (flow_mod(UP._replace(epoch=3)), ARGUMENT),
    "slots": (flow_mod(UP._replace(slots=64)), ARGUMENT),
    "elements": (flow_mod(UP._replace(elements=64)), ARGUMENT),
    "parent's port": (flow_mod(RULE._replace(parent_port=None, child=0)), ARGUMENT),
    "children": (flow_mod(UP._replace(ports=(1,), gives=1, takes=1)), ARGUMENT),
    "order of children": (flow_mod(UP._replace(ports=(2, 1))), ARGUMENT),
    "givers": (flow_mod(UP._replace(gives=1)), ARGUMENT),
    "takers": (flow_mod(UP._replace(takes=3)), ARGUMENT),
    "epoch of the same entry": (flow_mod(RULE._replace(epoch=3)), ARGUMENT),
    "UDP port": (flow_mod(UP, udp_dst=UDP_PORT + 1), INCONSISTENT),
}


@pytest.mark.parametrize("name", DISAGREEING)
def test_an_entry_that_disagrees_with_its_job_is_refused(name: str) -> None:
    request, error = DISAGREEING[name]
    talk = Talk()
    assert talk.say(flow_mod(RULE)) == []
    before = list(talk.operations)
    assert talk.error(request) == error
    assert talk.operations == before


@pytest.mark.parametrize("kind", [ofp.OFPIT_APPLY_ACTIONS, ofp.OFPIT_WRITE_ACTIONS])
def test_the_flow_statistics_tell_the_action_byte_by_byte(kind: int) -> None:
    talk = Talk()
    assert talk.say(flow_mod(ROOT, kind=kind), flow_mod(ROOT._replace(child=2), kind=kind)) == []
    (reply,) = talk.replies(serialized(parser.OFPFlowStatsRequest(DATAPATH), 9))
    for child in (0, 2):
        octets = action(ROOT._replace(child=child))
        assert struct.pack("!HHxxxx", kind, 8 + len(octets)) + octets in reply


def test_the_slots_are_there_before_the_first_rule_and_until_the_last_has_gone() -> None:
    talk = Talk()
    talk.say(flow_mod(RULE), flow_mod(UP), flow_mod(UP))
    talk.say(serialized(parser.OFPFlowMod(DATAPATH, command=ofp.OFPFC_DELETE, out_port=ofp.OFPP_ANY,
                                          out_group=ofp.OFPG_ANY), 6))  # fmt: skip
    kinds = [type(operation) for operation in talk.operations]
    assert kinds.index(SetPool) < kinds.index(SetRule)
    assert (kinds.count(SetPool), kinds.count(RemovePool)) == (1, 1)
    assert kinds[-1] is RemovePool


def packet_out(octets: bytes) -> bytes:
    actions = [experimenter(octets)]
    return serialized(parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, 1, actions, bytes(60)), 5)


def group_mod(octets: bytes) -> bytes:
    buckets = [parser.OFPBucket(0, ofp.OFPP_ANY, ofp.OFPG_ANY, [experimenter(octets)])]
    return serialized(parser.OFPGroupMod(DATAPATH, ofp.OFPGC_ADD, ofp.OFPGT_INDIRECT, 1, buckets), 5)


@pytest.mark.parametrize("carrier", [packet_out, group_mod])
def test_what_has_no_match_cannot_add_up(carrier: Any) -> None:
    talk = Talk()
    assert talk.error(carrier(action(RULE))) == INCONSISTENT
    assert talk.error(carrier(NICIRA)) == (ACTION, ofp.OFPBAC_BAD_EXPERIMENTER)
    assert talk.operations == []


def counts_request(number: int = EXPERIMENTER, kind: int = COUNTS_TYPE, data: bytes = b"") -> bytes:
    return serialized(parser.OFPExperimenterStatsRequest(DATAPATH, 0, number, kind, data), 9)


def test_the_jobs_counters_are_told_in_the_order_of_their_numbers() -> None:
    talk = Talk()
    other = RULE._replace(job=1, epoch=9, slots=16, ports=(3,), parent_port=1, child=0, gives=1, takes=1)
    talk.say(flow_mod(RULE), flow_mod(other, udp_dst=7000))
    (reply,) = talk.say(counts_request())
    assert (reply.body.experimenter, reply.body.exp_type) == (0x00024757, 1)
    by_hand = struct.pack("!4H12Q", 1, 9, 16, 1, *range(100, 112)) + struct.pack(
        "!4H12Q", 3, 2, 128, 2, *range(12)
    )
    assert reply.body.data == by_hand
    assert [each.job for each in read_job_counts(by_hand)] == [1, 3]
    assert read_job_counts(by_hand)[1].counts["duplicates"] == 5


def test_a_switch_without_jobs_says_so_with_an_empty_reply() -> None:
    (reply,) = Talk().replies(counts_request())
    assert reply[8:] == bytes.fromhex("ffff 0000 00000000 00024757 00000001")


def test_a_long_reply_has_whole_jobs_in_each_of_its_messages() -> None:
    talk = Talk(n_flows=2000)
    for job in range(1000):
        talk.say(flow_mod(RULE._replace(job=job, slots=1), udp_dst=job))
    replies = talk.replies(counts_request())
    assert [reply[8:12].hex() for reply in replies] == ["ffff0001", "ffff0000"]
    assert all(reply[16:24].hex() == "0002475700000001" for reply in replies)
    assert [each.job for reply in replies for each in read_job_counts(reply[24:])] == list(range(1000))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (counts_request(number=0x2320), ofp.OFPBRC_BAD_EXPERIMENTER),
        (counts_request(kind=2), ofp.OFPBRC_BAD_EXP_TYPE),
        (counts_request(data=bytes(8)), ofp.OFPBRC_BAD_LEN),
        (bytes.fromhex("04120014 00000009 ffff0000 00000000 00024757"), ofp.OFPBRC_BAD_LEN),
    ],
)
def test_a_request_for_anything_else_is_refused(request_: bytes, code: int) -> None:
    assert Talk().error(request_) == (ofp.OFPET_BAD_REQUEST, code)


@pytest.mark.parametrize("nbytes", [1, 103, 105])
def test_half_a_jobs_counters_are_none(nbytes: int) -> None:
    with pytest.raises(ValueError, match=f"{nbytes} bytes of job counters"):
        read_job_counts(bytes(nbytes))


@given(st.data(), st.integers(0, 3), st.booleans())
def test_a_damaged_flow_mod_leaves_jobs_and_entries_of_one_mind(
    data: st.DataObject, n_before: int, is_deleted: bool
) -> None:
    talk = Talk()
    talk.say(*[flow_mod(ROOT._replace(child=child)) for child in range(n_before)])
    octets = bytearray(flow_mod(ROOT._replace(child=data.draw(st.integers(0, 2)))))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(8, len(octets) - 1))] = data.draw(st.integers(0, 255))
    talk.replies(bytes(octets))
    if is_deleted:
        talk.replies(flow_mod(ROOT, ofp.OFPFC_DELETE))
    pools = {operation.pool for operation in talk.operations if isinstance(operation, SetPool)}
    pools -= {operation.pool for operation in talk.operations if isinstance(operation, RemovePool)}
    assert pools == {job.pool for job in talk.table.jobs.held.values()}
    (barrier,) = talk.say(serialized(parser.OFPBarrierRequest(DATAPATH), 7))
    assert barrier.msg_type == ofp.OFPT_BARRIER_REPLY

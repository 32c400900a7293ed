"""The switch's OpenFlow, request by request, as Scapy asks and os-ken understands the answer."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp
from scapy.contrib import openflow3 as of3

from gradwire.emu.switch.table.planeoperations import RemoveGroup, RemoveRule, SetGroup, SetRule
from gradwire.planning.openflow.entries import Output, ToGroup
from gradwire.planning.openflow.match import Match
from tests.openflow_talk import HELLO, IPV4, SWITCH, TCP, Talk, dst, flow_mod, group_mod, to_port

A, B = 0x0A000001, 0x0A000002
SRC = of3.OFBIPv4Src(ipv4_src="10.0.0.1")
TO_B = dst("10.0.0.2")
MAC = [of3.OFBEthDst(eth_dst="02:00:00:00:00:09")]
FIVE = [IPV4, TCP, SRC, TO_B[1], of3.OFBTCPSrc(tcp_src=1000), of3.OFBTCPDst(tcp_dst=2000)]
ALL_PORTS = bytes.fromhex("041200100000000d000d000000000000")  # Scapy's has a body, as OpenFlow 1.5's


def targets(talk: Talk) -> list[list[int | None]]:
    """Where the buckets of each group lead that the data plane has got."""
    groups = [op for op in talk.operations if isinstance(op, SetGroup)]
    return [[bucket.target() for bucket in op.value.buckets] for op in groups]


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_hello_is_accepted_from_a_controller_with_a_bitmap_and_from_one_without() -> None:
    with_bitmap = bytes.fromhex("05000010000000010001000800000012")  # 1.0 and 1.3, sent by a 1.4
    without = bytes.fromhex("0500000800000001")
    for hello in (with_bitmap, without):
        talk = Talk(is_greeted=False)
        assert talk.say(hello) == []
        assert not talk.session.is_over


@pytest.mark.parametrize(
    "hello",
    ["0100000800000001", "05000010000000010001000800000022", "0402000800000001"],
    ids=["OpenFlow 1.0", "1.0 and 1.4 only", "an echo instead of a hello"],
)
def test_a_controller_that_does_not_speak_1_3_is_told_and_left(hello: str) -> None:
    talk = Talk(is_greeted=False)
    assert talk.error(bytes.fromhex(hello)) == (ofp.OFPET_HELLO_FAILED, ofp.OFPHFC_INCOMPATIBLE)
    assert talk.session.is_over


def test_features_name_the_dpid_and_one_table(talk: Talk) -> None:
    assert not talk.session.is_introduced
    (features,) = talk.say(of3.OFPTFeaturesRequest(xid=77))
    assert (features.xid, features.datapath_id) == (77, SWITCH.dpid)
    assert (features.n_tables, features.n_buffers, features.auxiliary_id) == (1, 0, 0)
    assert talk.session.is_introduced


def test_an_echo_comes_back_whole(talk: Talk) -> None:
    (reply,) = talk.say(bytes.fromhex("0402000c00000009") + b"ping")
    assert (reply.xid, reply.data) == (9, b"ping")


def test_messages_may_arrive_byte_by_byte_and_many_at_once(talk: Talk) -> None:
    stream = bytes(of3.OFPTBarrierRequest(xid=1)) + bytes(of3.OFPTBarrierRequest(xid=2))
    assert [reply.xid for byte in stream for reply in talk.say(bytes([byte]))] == [1, 2]
    assert [reply.xid for reply in talk.say(stream)] == [1, 2]


def test_a_flow_of_each_form_reaches_the_data_plane(talk: Talk) -> None:
    assert (
        talk.say(
            flow_mod(FIVE, [to_port(1)], priority=300),
            flow_mod([IPV4, SRC, TO_B[1]], [to_port(2)], priority=200),
            flow_mod(TO_B, [to_port(3)], priority=100),
            flow_mod(priority=0),
        )
        == []
    )
    rules = [op for op in talk.operations if isinstance(op, SetRule)]
    assert [(rule.match, rule.priority, rule.actions) for rule in rules] == [
        (Match(0x800, A, B, 6, 1000, 2000), 300, (Output(1),)),
        (Match(0x800, A, B), 200, (Output(2),)),
        (Match(0x800, None, B), 100, (Output(3),)),
        (Match(), 0, ()),
    ]
    assert len({rule.flow for rule in rules}) == 4


def test_deletes_loose_and_strict(talk: Talk) -> None:
    talk.say(flow_mod(FIVE, [to_port(1)], priority=300), flow_mod(TO_B, [to_port(3)]))
    talk.operations.clear()
    talk.say(flow_mod(FIVE, cmd="OFPFC_DELETE_STRICT", priority=299))
    assert talk.operations == []
    talk.say(flow_mod(FIVE, cmd="OFPFC_DELETE_STRICT", priority=300))
    assert talk.operations == [RemoveRule(Match(0x800, A, B, 6, 1000, 2000))]
    talk.say(flow_mod(cmd="OFPFC_DELETE", table_id="ALL"))
    assert talk.operations[1:] == [RemoveRule(Match(0x800, None, B))]


def test_groups_are_added_changed_and_deleted_with_their_rules(talk: Talk) -> None:
    talk.say(group_mod(7, [1, 2]), flow_mod(TO_B, [of3.OFPATGroup(group_id=7)]))
    assert targets(talk) == [[1, 2]]
    assert talk.operations[-1].actions == (ToGroup(7),)  # type: ignore[union-attr]
    talk.operations.clear()
    talk.say(group_mod(7, [3], cmd="OFPGC_MODIFY"), group_mod(0xFFFFFFFC, [], cmd="OFPGC_DELETE"))
    assert targets(talk) == [[3]]
    assert talk.operations[-2:] == [RemoveRule(Match(0x800, None, B)), RemoveGroup(7)]


def test_counters_of_a_flow_are_read_after_what_came_before_in_the_same_bytes(talk: Talk) -> None:
    talk.say(flow_mod(priority=0))
    (stats,) = talk.say(flow_mod(TO_B, [to_port(3)], priority=9), of3.OFPMPRequestFlow())
    flows = {flow.priority: flow for flow in stats.body}
    assert set(flows) == {0, 9}
    assert (flows[9].packet_count, flows[9].byte_count) == (1, 100)
    assert dict(flows[9].match.items()) == {"eth_type": 0x800, "ipv4_dst": "10.0.0.2"}
    assert flows[9].instructions[0].actions[0].port == 3
    assert flows[0].instructions == []


def test_the_age_of_a_flow_counts_from_its_adding(talk: Talk) -> None:
    talk.say(flow_mod(priority=0))
    talk.instruments.now += 3_000_000_007
    (stats,) = talk.say(of3.OFPMPRequestFlow())
    assert (stats.body[0].duration_sec, stats.body[0].duration_nsec) == (3, 7)


def test_many_flows_come_in_several_parts_that_each_fit_the_length_field() -> None:
    talk = Talk(n_flows=1000)
    talk.say(*(flow_mod(dst(f"10.1.{i // 256}.{i % 256}"), [to_port(1)]) for i in range(800)))
    parts = talk.say(of3.OFPMPRequestFlow(xid=4))
    assert len(parts) > 1
    assert [part.flags for part in parts] == [ofp.OFPMPF_REPLY_MORE] * (len(parts) - 1) + [0]
    seen = {flow.match["ipv4_dst"] for part in parts for flow in part.body}
    assert len(seen) == 800


def test_an_aggregate_adds_up_what_its_match_covers(talk: Talk) -> None:
    talk.say(
        flow_mod(priority=0),
        flow_mod(FIVE, [to_port(1)]),
        flow_mod(TO_B, [to_port(1)]),
    )
    request = of3.OFPMPRequestAggregate(match=of3.OFPMatch(oxm_fields=TO_B))
    (reply,) = talk.say(request)
    assert (reply.body.flow_count, reply.body.packet_count, reply.body.byte_count) == (2, 3, 300)


def test_port_statistics_say_what_is_known_and_that_the_rest_is_not(talk: Talk) -> None:
    (reply,) = talk.say(of3.OFPMPRequestPortStats(port_no="ANY"))
    rows = {port.port_no: port for port in reply.body}
    assert set(rows) == {1, 2, 3}
    two, three = rows[2], rows[3]
    assert (two.rx_packets, two.rx_bytes, two.rx_dropped) == (2, 2000, 1)
    assert (two.tx_packets, two.tx_bytes, two.tx_dropped) == (11, 12, 13)
    unavailable = 2**64 - 1  # OpenFlow 1.3.5, 5.8
    assert {three.tx_packets, three.tx_bytes, three.tx_dropped} == {unavailable}
    assert (two.rx_errors, two.rx_over_err) == (10, 10)  # what the controllers did not get
    others = two.tx_errors, two.rx_frame_err, two.rx_crc_err, two.collisions
    assert set(others) == {unavailable}
    (one,) = talk.say(of3.OFPMPRequestPortStats(port_no=2))
    assert [port.port_no for port in one.body] == [2]


def test_what_cables_lose_by_plan_is_dropped_at_its_port(talk: Talk) -> None:
    lossless = talk.instruments.received
    talk.instruments.received = lambda interface: replace(lossless(interface), lost_in=20, lost_out=30)  # type: ignore[method-assign]
    (reply,) = talk.say(of3.OFPMPRequestPortStats(port_no="ANY"))
    assert [port.rx_dropped for port in reply.body] == [21, 21, 21]
    assert [port.tx_dropped for port in reply.body] == [43, 43, 2**64 - 1]


def test_ports_are_described_with_name_address_state_and_speed(talk: Talk) -> None:
    (reply,) = talk.say(ALL_PORTS)
    first, _, last = reply.body
    assert (first.port_no, first.name, first.hw_addr) == (1, b"leaf0-eth1", "02:00:00:00:00:01")
    assert (first.curr_speed, first.curr) == (100_000, ofp.OFPPF_100MB_FD)  # kb/s
    assert (first.state, last.state) == (ofp.OFPPS_LIVE, ofp.OFPPS_LINK_DOWN)


def test_table_statistics_count_lookups_and_matches(talk: Talk) -> None:
    talk.say(flow_mod(priority=0))
    (reply,) = talk.say(of3.OFPMPRequestTable())
    (row,) = reply.body
    assert (row.active_count, row.lookup_count, row.matched_count) == (1, 6, 3)


def test_groups_and_the_switch_describe_themselves(talk: Talk) -> None:
    talk.say(group_mod(7, [1, 2]))
    groups, description = talk.say(of3.OFPMPRequestGroupDesc(), of3.OFPMPRequestDesc())
    (group,) = groups.body
    assert (group.group_id, group.type) == (7, ofp.OFPGT_SELECT)
    assert [bucket.actions[0].port for bucket in group.buckets] == [1, 2]
    assert description.body.dp_desc.rstrip(b"\0") == b"leaf0"


def test_the_configuration_is_kept_and_reassembly_refused(talk: Talk) -> None:
    assert talk.say(of3.OFPTSetConfig(flags=ofp.OFPC_FRAG_NORMAL, miss_send_len=99)) == []
    (config,) = talk.say(of3.OFPTGetConfigRequest())
    assert (config.flags, config.miss_send_len) == (0, 99)
    refused = talk.error(of3.OFPTSetConfig(flags=ofp.OFPC_FRAG_REASM, miss_send_len=99))
    assert refused == (ofp.OFPET_SWITCH_CONFIG_FAILED, ofp.OFPSCFC_BAD_FLAGS)


REQUEST, MATCH, ACTION = ofp.OFPET_BAD_REQUEST, ofp.OFPET_BAD_MATCH, ofp.OFPET_BAD_ACTION
INSTRUCTION, FLOW, GROUP = ofp.OFPET_BAD_INSTRUCTION, ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPET_GROUP_MOD_FAILED
TO_2 = [to_port(2)]
GOTO = of3.OFPTFlowMod(instructions=[of3.OFPITGotoTable(table_id=1)])
METER = of3.OFPTFlowMod(instructions=[of3.OFPITMeter(meter_id=1)])
REFUSED: list[tuple[str, Any, int, int]] = [
    ("queue configuration", of3.OFPTQueueGetConfigRequest(), REQUEST, ofp.OFPBRC_BAD_TYPE),
    ("meter", of3.OFPTMeterMod(), REQUEST, ofp.OFPBRC_BAD_TYPE),
    ("a type that is none", bytes.fromhex("04c8000800000001"), REQUEST, ofp.OFPBRC_BAD_TYPE),
    ("experimenter", bytes.fromhex("0404001000000001" + "00" * 8), REQUEST, ofp.OFPBRC_BAD_EXPERIMENTER),
    ("another version", bytes.fromhex("0514000800000001"), REQUEST, ofp.OFPBRC_BAD_VERSION),
    ("a barrier with a body", bytes.fromhex("0414000c0000000100000000"), REQUEST, ofp.OFPBRC_BAD_LEN),
    ("a flow mod cut short", bytes.fromhex("040e001000000001" + "00" * 8), REQUEST, ofp.OFPBRC_BAD_LEN),
    ("queues", of3.OFPMPRequestQueue(), REQUEST, ofp.OFPBRC_BAD_MULTIPART),
    ("port 9's counters", of3.OFPMPRequestPortStats(port_no=9), REQUEST, ofp.OFPBRC_BAD_PORT),
    ("table 3's flows", of3.OFPMPRequestFlow(table_id=3), REQUEST, ofp.OFPBRC_BAD_TABLE_ID),
    (
        "a request in parts",
        of3.OFPMPRequestDesc(flags=ofp.OFPMPF_REQ_MORE),
        REQUEST,
        ofp.OFPBRC_MULTIPART_BUFFER_OVERFLOW,
    ),
    ("VLAN", flow_mod([of3.OFBVLANVID(vlan_vid=1)], TO_2), MATCH, ofp.OFPBMC_BAD_FIELD),
    ("in_port alone", flow_mod([of3.OFBInPort(in_port=1)], TO_2), MATCH, ofp.OFPBMC_BAD_WILDCARDS),
    ("from no such port", flow_mod([of3.OFBInPort(in_port=9), *MAC], TO_2), MATCH, ofp.OFPBMC_BAD_VALUE),
    ("a source alone", flow_mod([IPV4, SRC], TO_2), MATCH, ofp.OFPBMC_BAD_WILDCARDS),
    ("no such port", flow_mod(TO_B, [to_port(9)]), ACTION, ofp.OFPBAC_BAD_OUT_PORT),
    ("as an old switch", flow_mod(TO_B, [to_port(ofp.OFPP_NORMAL)]), ACTION, ofp.OFPBAC_BAD_OUT_PORT),
    ("to this machine", flow_mod(TO_B, [to_port(ofp.OFPP_LOCAL)]), ACTION, ofp.OFPBAC_BAD_OUT_PORT),
    ("to the table", flow_mod(TO_B, [to_port(ofp.OFPP_TABLE)]), ACTION, ofp.OFPBAC_BAD_OUT_PORT),
    ("no such group", flow_mod(TO_B, [of3.OFPATGroup(group_id=9)]), ACTION, ofp.OFPBAC_BAD_OUT_GROUP),
    ("a group and a port", flow_mod(TO_B, [of3.OFPATGroup(group_id=1), *TO_2]), ACTION, ofp.OFPBAC_TOO_MANY),
    ("65 outputs", flow_mod(TO_B, TO_2 * 65), ACTION, ofp.OFPBAC_TOO_MANY),
    ("dec ttl", flow_mod(TO_B, [of3.OFPATDecNwTTL()]), ACTION, ofp.OFPBAC_BAD_TYPE),
    ("goto table", GOTO, INSTRUCTION, ofp.OFPBIC_BAD_TABLE_ID),
    ("a meter instruction", METER, INSTRUCTION, ofp.OFPBIC_UNSUP_INST),
    ("another table", flow_mod(TO_B, TO_2, table_id=1), FLOW, ofp.OFPFMFC_BAD_TABLE_ID),
    ("flags that are none", flow_mod(TO_B, TO_2, flags=1 << 5), FLOW, ofp.OFPFMFC_BAD_FLAGS),
    ("a command that is none", flow_mod(TO_B, TO_2, cmd=9), FLOW, ofp.OFPFMFC_BAD_COMMAND),
    ("a packet buffer", flow_mod(TO_B, TO_2, buffer_id=1), REQUEST, ofp.OFPBRC_BUFFER_UNKNOWN),
    ("the same group again", group_mod(1, [2]), GROUP, ofp.OFPGMFC_GROUP_EXISTS),
    ("an unknown group", group_mod(2, [2], cmd="OFPGC_MODIFY"), GROUP, ofp.OFPGMFC_UNKNOWN_GROUP),
    ("a group of type 9", group_mod(2, [2], kind=9), GROUP, ofp.OFPGMFC_BAD_TYPE),
    ("a failover that watches nothing", group_mod(2, [2], kind="OFPGT_FF"), GROUP, ofp.OFPGMFC_INVALID_GROUP),
    ("65 buckets", group_mod(2, [1] * 65, kind="OFPGT_ALL"), GROUP, ofp.OFPGMFC_OUT_OF_BUCKETS),
    ("a group to no port", group_mod(2, [9]), ACTION, ofp.OFPBAC_BAD_OUT_PORT),
    ("indirect to two", group_mod(2, [1, 2], kind="OFPGT_INDIRECT"), GROUP, ofp.OFPGMFC_INVALID_GROUP),
    (
        "more slots than there are",
        group_mod(2, [1, 2], weights=[1, 99]),
        GROUP,
        ofp.OFPGMFC_WEIGHT_UNSUPPORTED,
    ),
]


@pytest.mark.parametrize(
    ("request_", "kind", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_done_is_refused_with_the_specifications_error(
    request_: Any, kind: int, code: int
) -> None:
    talk = Talk()
    talk.say(group_mod(1, [1]))
    talk.operations.clear()
    assert talk.error(request_) == (kind, code)
    assert talk.operations == []
    assert not talk.session.is_over


def oxm(*fields: str) -> bytes:
    """An ADD with these OXM fields in hex and one output."""
    body = b"".join(map(bytes.fromhex, fields))
    match = (1).to_bytes(2, "big") + (4 + len(body)).to_bytes(2, "big") + body
    match += bytes(-len(match) % 8)
    rest = bytes(flow_mod(actions=TO_2))
    whole = rest[:48] + match + rest[56:]
    return whole[:2] + len(whole).to_bytes(2, "big") + whole[4:]


ETH, DST = "80000a020800", "800018040a000002"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (oxm(DST), ofp.OFPBMC_BAD_PREREQ),
        (oxm("80000a0286dd", DST), ofp.OFPBMC_BAD_PREREQ),
        (oxm(ETH, DST, DST), ofp.OFPBMC_DUP_FIELD),
        (oxm(ETH, "800018030a0000"), ofp.OFPBMC_BAD_LEN),
        (oxm(ETH, "800018ff0a000002"), ofp.OFPBMC_BAD_LEN),
        (oxm(ETH, "8000"), ofp.OFPBMC_BAD_LEN),
        (oxm(ETH, "000018040a000002"), ofp.OFPBMC_BAD_FIELD),
        (oxm(ETH, "800019080a000000ffff0000"), ofp.OFPBMC_BAD_NW_ADDR_MASK),
        (oxm("8000070c010000000000010000000000"), ofp.OFPBMC_BAD_DL_ADDR_MASK),
        (oxm("8000010800000001ffffffff"), ofp.OFPBMC_BAD_MASK),
    ],
    ids=[
        "no eth_type",
        "IPv6",
        "twice",
        "3 bytes",
        "past the end",
        "half a header",
        "NXM class",
        "a subnet",
        "multicast",
        "masked port",
    ],
)
def test_a_match_that_is_wrong_in_itself_is_named(message: bytes, code: int) -> None:
    assert Talk().error(message) == (MATCH, code)


def test_a_mask_of_all_ones_is_an_exact_match(talk: Talk) -> None:
    assert talk.say(oxm(ETH, "800019080a000002ffffffff")) == []
    assert talk.operations[-1].match == Match(0x800, None, B)  # type: ignore[union-attr]


def test_a_full_table_is_told() -> None:
    talk = Talk(n_flows=1)
    talk.say(flow_mod(priority=0))
    assert talk.error(flow_mod(TO_B, TO_2)) == (FLOW, ofp.OFPFMFC_TABLE_FULL)


def test_an_instruction_of_length_0_is_refused_at_once(talk: Talk) -> None:
    """os-ken 4.2.2's own parser never comes back from this one."""
    message = bytearray(bytes(flow_mod(TO_B, TO_2)))
    message[-22:-20] = b"\0\0"
    assert talk.error(bytes(message)) == (INSTRUCTION, ofp.OFPBIC_BAD_LEN)


def test_a_length_below_the_headers_ends_the_connection_with_an_error(talk: Talk) -> None:
    assert talk.error(bytes.fromhex("0402000700000001")) == (REQUEST, ofp.OFPBRC_BAD_LEN)
    assert talk.session.is_over
    assert talk.replies(bytes(of3.OFPTBarrierRequest())) == []


def test_an_error_is_never_answered_with_an_error(talk: Talk) -> None:
    assert talk.replies(bytes.fromhex("0401000c0000000100010000")) == []
    assert talk.session.is_over


SAMPLES = [bytes(row[1]) for row in REFUSED] + [
    bytes(message)
    for message in (
        flow_mod(FIVE, TO_2),
        group_mod(3, [1, 2]),
        of3.OFPMPRequestFlow(),
        of3.OFPTFeaturesRequest(),
    )
]


@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(4, 200), st.integers(0, 255)), max_size=6),
    st.binary(max_size=40),
)
def test_no_message_makes_the_session_fail(sample: bytes, damage: list[tuple[int, int]], more: bytes) -> None:
    """Whatever is in a frame, the answer is made of whole messages and the next one is obeyed."""
    octets = bytearray(sample + more)
    for position, value in damage:
        if position < len(octets):
            octets[position] = value
    octets[2:4] = len(octets).to_bytes(2, "big")
    talk = Talk()
    for reply in talk.replies(bytes(octets)):
        assert int.from_bytes(reply[2:4], "big") == len(reply)
    if not talk.session.is_over:
        assert talk.replies(bytes(of3.OFPTBarrierRequest(xid=1)))[-1][:8].hex() == "0415000800000001"


@given(st.binary(max_size=400))
@example(b"\x04\x00\x00\x10\0\0\0\0\0\x01\0\0\0\0\0\0")  # a HELLO element of length 0
def test_no_bytes_at_all_make_it_fail(octets: bytes) -> None:
    for talk in (Talk(), Talk(is_greeted=False)):
        talk.replies(octets)


def test_open_vswitch_reads_every_reply(talk: Talk, tmp_path: Path) -> None:
    """A second reader, that is a switch itself."""
    talk.say(group_mod(7, [1, 2]), flow_mod(FIVE, TO_2, priority=300, cookie=0xAB))
    asked = b"".join(
        bytes(message)
        for message in (
            of3.OFPTFeaturesRequest(),
            of3.OFPTGetConfigRequest(),
            of3.OFPTBarrierRequest(),
            of3.OFPMPRequestDesc(),
            of3.OFPMPRequestFlow(),
            of3.OFPMPRequestAggregate(),
            of3.OFPMPRequestTable(),
            of3.OFPMPRequestPortStats(port_no="ANY"),
            of3.OFPMPRequestGroupDesc(),
            ALL_PORTS,
            of3.OFPMPRequestGroup(group_id="ALL"),
            of3.OFPMPRequestGroupFeatures(),
            bytes.fromhex("041200100000000d000c000000000000"),
            of3.OFPTRoleRequest(),
            of3.OFPTGetAsyncRequest(),
            of3.OFPTMeterMod(),
        )
    )
    replies = tmp_path / "replies"
    replies.write_bytes(HELLO + b"".join(talk.replies(asked)))
    said = subprocess.run(
        ["ovs-ofctl", "-O", "OpenFlow13", "ofp-parse", str(replies)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "decode error" not in said.stdout + said.stderr
    assert "dpid:1122334455667788" in said.stdout
    flow = "priority=300,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1000,tp_dst=2000 actions=output:2"
    assert flow in said.stdout
    assert "group_id=7,type=select,bucket=" in said.stdout
    assert "1(leaf0-eth1): addr:02:00:00:00:00:01" in said.stdout
    assert "OFPBRC_BAD_TYPE" in said.stdout

"""Many FLOW_MODs read at once give what they give one by one, in messages of Scapy and os-ken."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp
from scapy.contrib import openflow3 as of3

from gradwire.emu.switch.table.planeoperations import ClearCounters, RemoveRule, SetRule, SetRules
from gradwire.emu.switch.table.table import FlowTable, Selection
from gradwire.emu.switch.wire import adds
from gradwire.planning.openflow.match import Match
from tests.openflow_talk import IPV4, TCP, Talk, dst, flow_mod, group_mod, to_port

SPECIAL = (  # of a FLOW_MOD: where, and what is written there
    (0, b"\1"),  # another version
    (1, b"\0"),  # HELLO
    (16, b"\1"),  # a cookie's mask
    (24, b"\1"),  # table 1
    (25, b"\2"),  # modify, strictly
    (25, b"\4"),  # delete, strictly
    (27, b"\1"),  # an idle timeout
    (32, b"\0"),  # a buffer
    (45, b"\2"),  # check for overlaps
    (45, b"\4"),  # reset counts
    (45, b"\x20"),  # a flag that is none
    (49, b"\0"),  # a match of another type
    (60, b"\xee"),  # a field that is none
    (60, b"\x04"),  # the same field twice
    (57, b"\6"),  # not IPv4
)


def pair(number: int) -> list[Any]:
    return [IPV4, of3.OFBIPv4Src(ipv4_src="10.0.0.9"), of3.OFBIPv4Dst(ipv4_dst=f"10.0.0.{number}")]


def five(number: int) -> list[Any]:
    ports = [of3.OFBTCPSrc(tcp_src=1000 + number), of3.OFBTCPDst(tcp_dst=7)]
    return [IPV4, TCP, *pair(number)[1:], *ports]


MATCHES = (lambda number: dst(f"10.0.0.{number}"), pair, five)
ACTIONS = (lambda: to_port(1), lambda: to_port(2), lambda: to_port(9), lambda: of3.OFPATGroup(group_id=1))
MESSAGES = [
    [
        [bytes(flow_mod(match(number), [action()], priority=priority)) for action in ACTIONS]
        for number in range(1, 15)
        for priority in (100, 200)
    ]
    for match in MATCHES
]


@st.composite
def requests(draw: st.DrawFn) -> list[bytes]:
    """Runs of FLOW_MODs, most of them alike, some of them special."""
    made: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        messages = MESSAGES[draw(st.integers(0, 2))]
        action = draw(st.integers(0, 3))
        places = st.lists(
            st.integers(0, len(messages) - 1), min_size=6, max_size=14, unique=draw(st.booleans())
        )
        for place in draw(places):
            octets = bytearray(messages[place][action])
            octets[4:8] = len(made).to_bytes(4, "big")
            if draw(st.integers(0, 40)) == 0:
                at, value = draw(st.sampled_from(SPECIAL))
                octets[at : at + 1] = value
            made.append(bytes(octets))
    return made


def talked(messages: list[bytes], at_once: int = 1) -> tuple[list[bytes], Any, Any]:
    """The answers, the table, and what the data plane has got, of a switch that has group 1 and reads
    this many messages at once.
    """
    talk = Talk()
    talk.say(group_mod(1, [1, 2]))
    parts = [b"".join(messages[at : at + at_once]) for at in range(0, len(messages), at_once)]
    answers = [answer for part in parts for answer in talk.replies(part)]
    in_force: dict[Match, Any] = {}
    for operation in talk.operations:
        if isinstance(operation, SetRules):
            assert not {rule.match for rule in operation.rules} & in_force.keys()
        for rule in getattr(operation, "rules", [operation] if isinstance(operation, SetRule) else []):
            in_force[rule.match] = rule._replace(flow=0)
        if isinstance(operation, RemoveRule):
            del in_force[operation.match]
    entries = talk.table.entries(Selection())
    assert len({entry.flow for entry in entries}) == len(entries) == len(talk.table)
    return answers, [entry._replace(flow=0) for entry in entries], in_force


@pytest.mark.long
@given(requests())
@settings(max_examples=150, deadline=None)
def test_many_at_once_do_what_each_does_alone(messages: list[bytes]) -> None:
    assert talked(messages, len(messages)) == talked(messages)


@pytest.mark.parametrize(("at", "value"), SPECIAL)
@pytest.mark.parametrize("messages", MESSAGES)
def test_one_that_is_special_gets_what_it_deserves(
    messages: list[list[bytes]], at: int, value: bytes
) -> None:
    many = [messages[2 * place][place % 2] for place in range(12)]
    special = bytearray(messages[26][0])
    special[at : at + 1] = value
    many.insert(5, bytes(special))
    assert talked(many, len(many)) == talked(many)


@pytest.mark.parametrize("messages", MESSAGES)
def test_rules_that_are_there_already_are_replaced(messages: list[list[bytes]]) -> None:
    """The second time with another port, the third time with another priority."""
    many = [messages[2 * place + later // 2][min(later, 1)] for later in range(3) for place in range(10)]
    assert talked(many, at_once=10) == talked(many)


@pytest.mark.parametrize("flags", [2, 0x20])
def test_flags_that_all_have_mean_what_they_mean_for_one(flags: int) -> None:
    """OFPFF_CHECK_OVERLAP, and one that there is not."""
    many = [message[:45] + bytes([flags]) + message[46:] for (message, *_) in MESSAGES[0][::2]]
    many.append(bytes(flow_mod([IPV4], [to_port(1)], priority=100)))
    many += many[:10]
    many[-11:-11] = [message[:45] + bytes([flags]) + message[46:] for (message, *_) in MESSAGES[1][::2]]
    assert talked(many, at_once=14) == talked(many)


def alike(n: int, first: int = 1) -> bytes:
    return b"".join(MESSAGES[0][2 * place][0] for place in range(first - 1, first - 1 + n))


def test_alike_messages_reach_the_data_plane_together() -> None:
    talk = Talk()
    assert talk.replies(alike(14)) == []
    (operation,) = talk.operations
    assert isinstance(operation, SetRules)
    assert [rule.match.ipv4_dst for rule in operation.rules] == [0x0A000000 + n for n in range(1, 15)]


def test_counters_that_a_deleted_rule_had_are_cleared_first() -> None:
    talk = Talk()
    talk.replies(alike(1))
    talk.say(flow_mod(cmd="OFPFC_DELETE", out_port=ofp.OFPP_ANY, out_group=ofp.OFPG_ANY))
    talk.operations.clear()
    talk.replies(alike(14))
    cleared, together = talk.operations
    assert isinstance(cleared, ClearCounters)
    assert isinstance(together, SetRules)
    assert cleared.flow in {rule.flow for rule in together.rules}


def test_where_room_is_for_some_only_those_get_in_and_the_others_are_refused() -> None:
    talk = Talk(n_flows=10)
    answers = talk.replies(alike(14))
    refusals = [struct.unpack_from("!HH", answer, 8) for answer in answers]
    assert refusals == [(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL)] * 4
    assert len(talk.table) == 10


def test_a_table_that_is_full_takes_no_numbers_away_from_others() -> None:
    talk = Talk(n_flows=100)
    table = FlowTable(talk.table._flow_numbers, talk.table._group_numbers, max_entries=3)
    matches = [Match(0x800, None, number) for number in range(4)]
    assert table.add_new(matches, [1] * 4, [], [0] * 4, 0, 0) is None
    assert talk.table._flow_numbers.n_left == 100


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_message_that_has_not_come_whole_waits_for_its_rest(cut: int) -> None:
    octets = alike(12)
    end = len(octets) - cut * 20
    talk = Talk()
    assert talk.replies(octets[:end]) == []
    assert len(talk.table) == 11
    assert talk.replies(octets[end:]) == []
    assert len(talk.table) == 12


def test_only_messages_of_the_first_ones_kind_and_length_are_alike() -> None:
    one, other = MESSAGES[0][0][0], MESSAGES[1][0][0]
    barrier = bytes(of3.OFPTBarrierRequest())
    for after in (other, barrier, one[:30], b""):
        assert adds.messages_alike(bytearray(barrier + one * 5 + after), len(barrier)) == 5


def test_a_slave_may_not_add_many_either() -> None:
    talk = Talk()
    talk.say(of3.OFPTRoleRequest(role="OFPCR_ROLE_SLAVE", generation_id=1))
    refusals = {struct.unpack_from("!HH", answer, 8) for answer in talk.replies(alike(14))}
    assert refusals == {(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE)}
    assert len(talk.table) == 0

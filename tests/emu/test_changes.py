"""FLOW_MODs and GROUP_MODs, as os-ken writes them, turned into operations or refused."""

from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp

from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.planeoperations import RemoveGroup, RemoveRule, SetGroup, SetRule
from gradwire.emu.switch.table.table import FlowTable
from gradwire.emu.switch.wire.changes import change_flows, change_groups
from gradwire.emu.switch.wire.openflow13 import ProtocolError
from gradwire.planning.openflow.entries import FlowGone, Gone
from tests.made_rules import (
    Action,
    Fields,
    FlowChange,
    GroupBucket,
    GroupChange,
    Output,
    ToGroup,
    encoded,
)

PORTS = (1, 2, 3)
IPV4: Fields = (("eth_type", 0x0800),)
TO_A: Fields = (*IPV4, ("ipv4_dst", "10.0.0.1"))
TO_B: Fields = (*IPV4, ("ipv4_dst", "10.0.0.2"))
CHECK = ofp.OFPFF_CHECK_OVERLAP


class Switch:
    """A table, and what became of it."""

    def __init__(self, n_groups: int = 10) -> None:
        self.table = FlowTable(Numbers(100), Numbers(n_groups))

    def take(self, change: FlowChange | GroupChange) -> list[Any]:
        """The operations."""
        body = encoded(change, 1)[ofp.OFP_HEADER_SIZE :]
        obey = change_flows if isinstance(change, FlowChange) else change_groups
        return list(obey(self.table, PORTS, body, 0))

    def error(self, change: FlowChange | GroupChange) -> tuple[int, int] | None:
        """(type, code), None if it is taken."""
        try:
            self.take(change)
        except ProtocolError as error:
            return error.kind, error.code
        return None


def add(match: Fields, priority: int, *actions: Action, flags: int = 0) -> FlowChange:
    return FlowChange(ofp.OFPFC_ADD, match, priority, actions or (Output(1),), flags=flags)


def group(kind: int, *buckets: GroupBucket, command: int = ofp.OFPGC_ADD, number: int = 5) -> GroupChange:
    return GroupChange(command, kind, number, buckets)


TO_1 = GroupBucket((Output(1),))
OVERLAP = (ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_OVERLAP)


@pytest.mark.parametrize(
    ("match", "priority", "flags", "expected"),
    [
        (IPV4, 5, CHECK, OVERLAP),
        ((), 5, CHECK, OVERLAP),
        (IPV4, 5, 0, None),
        (IPV4, 6, CHECK, None),
        (TO_B, 5, CHECK, None),
        ((("eth_type", 0x0806),), 5, CHECK, None),
        ((("eth_dst", "02:00:00:00:00:01"),), 5, CHECK, OVERLAP),
        (TO_A, 5, CHECK, None),
    ],
    ids=[
        "wider",
        "everything",
        "not to be checked",
        "another priority",
        "disjoint",
        "another type",
        "other fields: a packet can have both",
        "the very same match replaces",
    ],
)
def test_an_overlap_is_refused_if_that_is_asked_for(
    match: Fields, priority: int, flags: int, expected: tuple[int, int] | None
) -> None:
    """6.4: two entries overlap if a packet can match both at one priority and their matches differ."""
    switch = Switch()
    switch.take(add(TO_A, 5))
    assert switch.error(add(match, priority, flags=flags)) == expected
    assert len(switch.table) == (2 if expected is None and match != TO_A else 1)


def test_a_match_that_is_there_is_still_held_against_the_other_entries() -> None:
    switch = Switch()
    switch.take(add(TO_A, 5))
    switch.take(add(IPV4, 5))
    assert switch.error(add(TO_A, 5, flags=CHECK)) == OVERLAP


def test_deleting_all_groups_takes_the_entries_that_use_them_and_says_so() -> None:
    switch = Switch()
    for number in (5, 6):
        switch.take(group(ofp.OFPGT_ALL, TO_1, number=number))
    switch.take(add(TO_A, 5, ToGroup(6), flags=ofp.OFPFF_SEND_FLOW_REM))
    switch.take(add(TO_B, 5))
    done = switch.take(group(ofp.OFPGT_ALL, command=ofp.OFPGC_DELETE, number=ofp.OFPG_ALL))
    assert [type(each) for each in done] == [RemoveGroup, RemoveRule, FlowGone, RemoveGroup]
    assert [each.reason for each in done if isinstance(each, FlowGone)] == [Gone.GROUP_DELETED]
    assert (switch.table.groups, len(switch.table)) == ({}, 1)


def test_deleting_a_group_that_is_not_there_is_no_error() -> None:
    assert Switch().take(group(ofp.OFPGT_ALL, command=ofp.OFPGC_DELETE)) == []


def test_a_group_may_become_one_of_another_kind() -> None:
    switch = Switch()
    switch.take(group(ofp.OFPGT_INDIRECT, TO_1))
    done = switch.take(group(ofp.OFPGT_ALL, TO_1, TO_1, command=ofp.OFPGC_MODIFY))
    assert [len(each.value.buckets) for each in done if isinstance(each, SetGroup)] == [2]


WATCHED = GroupBucket((Output(1),), watch_port=1)
GROUP = ofp.OFPET_GROUP_MOD_FAILED


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (group(ofp.OFPGT_ALL, WATCHED), ofp.OFPGMFC_WATCH_UNSUPPORTED),
        (group(ofp.OFPGT_FF, GroupBucket((Output(1),), watch_port=9)), ofp.OFPGMFC_BAD_WATCH),
        (group(ofp.OFPGT_FF, WATCHED, TO_1), ofp.OFPGMFC_INVALID_GROUP),
        (group(ofp.OFPGT_ALL, TO_1, number=ofp.OFPG_MAX + 1), ofp.OFPGMFC_INVALID_GROUP),
        (group(ofp.OFPGT_ALL, TO_1, command=3), ofp.OFPGMFC_BAD_COMMAND),
    ],
    ids=["watched for nothing", "watches no port", "one watches nothing", "no group's number", "a command"],
)
def test_a_group_that_cannot_be_is_refused_and_leaves_nothing(change: GroupChange, code: int) -> None:
    switch = Switch()
    assert switch.error(change) == (GROUP, code)
    assert switch.table.groups == {}


def test_there_is_room_for_as_many_groups_as_the_data_plane_has() -> None:
    switch = Switch(n_groups=1)
    switch.take(group(ofp.OFPGT_ALL))
    assert switch.error(group(ofp.OFPGT_ALL, number=6)) == (GROUP, ofp.OFPGMFC_OUT_OF_GROUPS)
    switch.take(group(ofp.OFPGT_ALL, command=ofp.OFPGC_DELETE))
    assert switch.error(group(ofp.OFPGT_ALL, number=6)) is None


def test_a_group_whose_weights_do_not_fit_is_refused_and_the_old_one_stays() -> None:
    switch = Switch()
    switch.take(group(ofp.OFPGT_SELECT, GroupBucket((Output(1),), weight=1)))
    before = switch.table.groups[5]
    uneven = [GroupBucket((Output(1),), weight=weight) for weight in (1, 64)]
    change = group(ofp.OFPGT_SELECT, *uneven, command=ofp.OFPGC_MODIFY)
    assert switch.error(change) == (GROUP, ofp.OFPGMFC_WEIGHT_UNSUPPORTED)
    assert switch.table.groups[5] is before


def test_a_modify_that_finds_nothing_adds_nothing() -> None:
    """6.4: without a matching entry a modify is not an error and changes no table."""
    switch = Switch()
    change = FlowChange(ofp.OFPFC_MODIFY_STRICT, TO_A, 5, (Output(2),))
    assert switch.take(change) == []
    assert len(switch.table) == 0


def test_a_modify_may_name_a_match_that_is_no_form() -> None:
    """A loose match only selects: `ip_proto` alone is not looked up by the data plane."""
    switch = Switch()
    tcp: Fields = (*IPV4, ("ip_proto", 6))
    five = (*tcp, ("ipv4_src", "10.0.0.1"), ("ipv4_dst", "10.0.0.2"), ("tcp_src", 1), ("tcp_dst", 2))
    switch.take(add(five, 5))
    switch.take(add(TO_B, 5))
    done = switch.take(FlowChange(ofp.OFPFC_MODIFY, tcp, 0, (Output(2),)))
    assert [each.match.sport for each in done if isinstance(each, SetRule)] == [1]
    assert switch.error(add(tcp, 5)) == (ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_WILDCARDS)

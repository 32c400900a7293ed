"""GROUP_MOD, PORT_MOD and PACKET_OUT as os-ken and Scapy write them, read back."""

import struct
from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from gradwire.emu.switch.wire import requests
from gradwire.emu.switch.wire.openflow13 import ProtocolError
from gradwire.planning.openflow.entries import GroupBucket, GroupKind, Output, SwitchGroup, ToGroup
from tests.made_rules import DATAPATH, serialized
from tests.openflow_talk import group_mod

NONE, NO_GROUP = ofp.OFPP_ANY, ofp.OFPG_ANY
GROUP, REQUEST, ACTION = ofp.OFPET_GROUP_MOD_FAILED, ofp.OFPET_BAD_REQUEST, ofp.OFPET_BAD_ACTION


def body(message: Any) -> bytes:
    return serialized(message, 1)[ofp.OFP_HEADER_SIZE :]


def bucket(*actions: Any, weight: int = 0, watch_port: int = NONE, watch_group: int = NO_GROUP) -> Any:
    return parser.OFPBucket(weight, watch_port, watch_group, list(actions))


def group(*buckets: Any, kind: int = ofp.OFPGT_ALL, command: int = ofp.OFPGC_ADD) -> bytes:
    return body(parser.OFPGroupMod(DATAPATH, command, kind, 7, list(buckets)))


TO_1, TO_2 = parser.OFPActionOutput(1), parser.OFPActionOutput(2, 128)


def refusal(octets: bytes, read: Any = requests.group_mod) -> tuple[int, int]:
    with pytest.raises(ProtocolError) as caught:
        read(octets)
    return caught.value.kind, caught.value.code


def test_a_group_is_read_with_its_buckets_in_order() -> None:
    mod = requests.group_mod(
        group(bucket(TO_1, weight=3), bucket(TO_1, TO_2, weight=4), bucket(), kind=ofp.OFPGT_SELECT)
    )
    first = Output(1, ofp.OFPCML_MAX)
    expected = GroupBucket((first,), 3), GroupBucket((first, Output(2, 128)), 4), GroupBucket((), 0)
    assert (mod.command, mod.number, mod.group) == (ofp.OFPGC_ADD, 7, SwitchGroup(GroupKind.SELECT, expected))
    assert [each.target() for each in mod.group.buckets] == [1, 2, None]  # of an action set the last output


def test_scapys_group_is_read_as_os_kens() -> None:
    octets = bytes(group_mod(7, [1, 2], kind="OFPGT_FF", watched=[2, 1]))[ofp.OFP_HEADER_SIZE :]
    buckets = requests.group_mod(octets).group.buckets
    assert [(each.target(), each.watch_port) for each in buckets] == [(1, 2), (2, 1)]


@pytest.mark.parametrize("nobody", [0, NONE])
def test_a_bucket_may_watch_nothing(nobody: int) -> None:
    """Which value that is OpenFlow says (ANY), but controllers write 0 into groups that watch nothing."""
    (read,) = requests.group_mod(group(bucket(TO_1, watch_port=nobody, watch_group=0))).group.buckets
    assert read.watch_port is None


def test_a_deletion_needs_no_buckets_and_reads_none() -> None:
    octets = group(bucket(TO_1), command=ofp.OFPGC_DELETE)
    assert requests.group_mod(octets).group.buckets == ()
    assert requests.group_mod(octets[:8] + b"\xff" * 16).number == 7


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (group(bucket(TO_1, watch_group=3)), (GROUP, ofp.OFPGMFC_WATCH_UNSUPPORTED)),
        (group(bucket(parser.OFPActionGroup(3))), (GROUP, ofp.OFPGMFC_CHAINING_UNSUPPORTED)),
        (group(bucket(TO_1), bucket(parser.OFPActionDecNwTtl())), (ACTION, ofp.OFPBAC_BAD_TYPE)),
        (group()[:7], (REQUEST, ofp.OFPBRC_BAD_LEN)),
        (group(bucket(TO_1))[:-1], (GROUP, ofp.OFPGMFC_BAD_BUCKET)),
        (group(bucket(TO_1)) + bytes(8), (GROUP, ofp.OFPGMFC_BAD_BUCKET)),
        (group() + struct.pack("!HHIIxxxx", 8, 0, NONE, NO_GROUP), (GROUP, ofp.OFPGMFC_BAD_BUCKET)),
        (
            group() + struct.pack("!HHIIxxxx", 20, 0, NONE, NO_GROUP) + bytes(4),
            (GROUP, ofp.OFPGMFC_BAD_BUCKET),
        ),
    ],
    ids=[
        "watches a group",
        "leads to a group",
        "an action there is not",
        "cut in its head",
        "cut in a bucket",
        "half a bucket after it",
        "a bucket shorter than its head",
        "a bucket of 20 bytes",
    ],
)
def test_a_group_that_cannot_be_is_refused(octets: bytes, expected: tuple[int, int]) -> None:
    assert refusal(octets) == expected


def test_a_port_mod_is_read_field_by_field() -> None:
    mod = requests.port_mod(body(parser.OFPPortMod(DATAPATH, 3, "02:00:00:00:00:07", 1, 5, 64)))
    expected = requests.PortMod(3, bytes.fromhex("020000000007"), config=1, mask=5, advertise=64)
    assert mod == expected


def test_a_packet_out_is_its_port_its_actions_and_its_frame() -> None:
    sent = parser.OFPPacketOut(
        DATAPATH, ofp.OFP_NO_BUFFER, 3, [TO_2, parser.OFPActionGroup(9)], bytes(range(14))
    )
    assert requests.packet_out(body(sent)) == requests.PacketOut(
        3, (Output(2, 128), ToGroup(9)), bytes(range(14))
    )


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (body(parser.OFPPacketOut(DATAPATH, 7, 1, [TO_1], None)), ofp.OFPBRC_BUFFER_UNKNOWN),
        (body(parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, 1, [TO_1], bytes(13))), ofp.OFPBRC_BAD_LEN),
        (body(parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, 1, [TO_1], b"")), ofp.OFPBRC_BAD_LEN),
        (
            body(parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, 1, [TO_1], bytes(60)))[:20],
            ofp.OFPBRC_BAD_LEN,
        ),
    ],
    ids=["a buffer", "less than an Ethernet header", "no frame", "cut in its actions"],
)
def test_a_packet_out_that_is_none_is_refused(octets: bytes, code: int) -> None:
    assert refusal(octets, requests.packet_out) == (REQUEST, code)

"""Requests that an OpenFlow 1.3 switch has to refuse, by name.  Octets only.

They meet a switch that has group 1 (indirect) and one rule for 10.0.0.1 with priority 5.
"""

import struct
from dataclasses import replace
from typing import Any

from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from tests.made_rules import (
    DATAPATH,
    IPV4,
    Change,
    FlowChange,
    GroupBucket,
    GroupChange,
    Output,
    ToGroup,
    encoded,
    serialized,
)

XID = 77
TO_A = (("eth_type", IPV4), ("ipv4_dst", "10.0.0.1"))
TO_B = (("eth_type", IPV4), ("ipv4_dst", "10.0.0.2"))
RULE = FlowChange(ofp.OFPFC_ADD, TO_A, 5, (Output(1),))
OTHER = replace(RULE, match=TO_B)
GROUP = GroupChange(ofp.OFPGC_ADD, ofp.OFPGT_INDIRECT, 1, (GroupBucket((Output(1),)),))
BUCKET = GroupBucket((Output(2),))
MATCH_AT, NO_SUCH_PORT = 48, 0xFFFF0000  # of a FLOW_MOD; a port number that no switch can have

BEFORE: tuple[Change, ...] = (GROUP, RULE)


def _request(change: Change) -> bytes:
    return encoded(change, XID)


def _patched(octets: bytes, at: int, new: str) -> bytes:
    changed = bytes.fromhex(new)
    return octets[:at] + changed + octets[at + len(changed) :]


def _flow(match: str, instructions: str = "") -> bytes:
    """An ADD with this OXM list and these instructions, in hex."""
    oxm = bytes.fromhex(match)
    length = 4 + len(oxm)
    body = struct.pack("!HH", 1, length) + oxm + bytes(-length % 8) + bytes.fromhex(instructions)
    head = _request(replace(RULE, match=(), priority=9, instruction=None))[:MATCH_AT]
    return _with_length(head + body)


def _with_length(octets: bytes) -> bytes:
    return octets[:2] + len(octets).to_bytes(2, "big") + octets[4:]


def _message(kind: int, body: str = "") -> bytes:
    octets = bytes.fromhex(body)
    return struct.pack("!BBHI", 4, kind, 8 + len(octets), XID) + octets


def _group(kind: int, *buckets: GroupBucket, number: int = 2, command: int = ofp.OFPGC_ADD) -> bytes:
    return _request(GroupChange(command, kind, number, buckets))


def _packet_out(
    actions: list[Any], in_port: int = ofp.OFPP_CONTROLLER, buffer: int = ofp.OFP_NO_BUFFER
) -> bytes:
    data = None if buffer != ofp.OFP_NO_BUFFER else bytes(60)
    return serialized(parser.OFPPacketOut(DATAPATH, buffer, in_port, actions, data), XID)


_IPV4_TYPE, _TO_B = "80000a020800", "800018040a000002"
_OUTPUT_1 = "0000001000000001ffff000000000000"
_watch = GroupBucket((Output(1),), watch_port=1)

REFUSED: dict[str, bytes] = {
    "flow: output to a port number that cannot be": _request(replace(OTHER, actions=(Output(NO_SUCH_PORT),))),
    "flow: output to ANY": _request(replace(OTHER, actions=(Output(ofp.OFPP_ANY),))),
    "flow: a group that is not there": _request(replace(OTHER, actions=(ToGroup(99),))),
    "flow: added to all tables": _request(replace(OTHER, table=ofp.OFPTT_ALL)),
    "flow: command 9": _patched(_request(OTHER), 25, "09"),
    "flow: an unknown flag": _patched(_request(OTHER), 44, "8000"),
    "flow: overlapping, to be checked": _request(
        replace(RULE, match=(("eth_type", IPV4),), flags=ofp.OFPFF_CHECK_OVERLAP)
    ),
    "flow: an unknown buffer": _patched(_request(OTHER), 32, "00000007"),
    "flow: cut short": _with_length(_request(OTHER)[:40]),
    "flow: no room for its match": _with_length(_request(OTHER)[:52]),
    "match: an address without IPv4": _flow(_TO_B),
    "match: an address of ARP": _flow("80000a020806" + _TO_B),
    "match: a TCP port without TCP": _flow(_IPV4_TYPE + "80001a020050"),
    "match: a TCP port of UDP": _flow(_IPV4_TYPE + "80001401" + "11" + "80001a020050"),
    "match: a field twice": _flow(_IPV4_TYPE + _IPV4_TYPE),
    "match: a field that nobody knows": _flow("8000a0020001"),
    "match: a class that nobody knows": _flow("12340a020800"),
    "match: a field too short": _flow("80000a0108"),
    "match: a field beyond the end": _flow("80000a02"),
    "match: a kind of match that nobody knows": _patched(_request(OTHER), MATCH_AT, "0007"),
    "match: longer than the message": _patched(_request(OTHER), MATCH_AT + 2, "0100"),
    "instruction: an unknown one": _flow("", "003c000800000000"),
    "instruction: of length 0": _flow("", "0004000000000000"),
    "instruction: beyond the end": _flow("", "0004004000000000"),
    "instruction: go to the same table": _flow("", "0001000800000000"),
    "instruction: of an unknown experimenter": _flow("", "ffff000812345678"),
    "action: an unknown one": _flow("", "0004001000000000" + "003c000800000000"),
    "action: of length 0": _flow("", "0004001000000000" + "0000000000000000"),
    "action: an output that is too short": _flow("", "0004001000000000" + "0000000800000001"),
    "action: beyond the end": _flow("", "0004001000000000" + "0000001000000001"),
    "action: of an unknown experimenter": _flow("", "0004001000000000" + "ffff000812345678"),
    "group: one that exists": _request(GROUP),
    "group: changing one that does not": _group(ofp.OFPGT_ALL, BUCKET, command=ofp.OFPGC_MODIFY),
    "group: an unknown kind": _group(9, BUCKET),
    "group: an unknown command": _group(ofp.OFPGT_ALL, BUCKET, command=9),
    "group: indirect without a bucket": _group(ofp.OFPGT_INDIRECT),
    "group: indirect with two": _group(ofp.OFPGT_INDIRECT, BUCKET, BUCKET),
    "group: failover that watches nothing": _group(ofp.OFPGT_FF, BUCKET),
    "group: a number above the largest": _group(ofp.OFPGT_ALL, BUCKET, number=ofp.OFPG_MAX + 1),
    "group: all of them added": _group(ofp.OFPGT_ALL, BUCKET, number=ofp.OFPG_ALL),
    "group: a bucket to a port that cannot be": _group(ofp.OFPGT_ALL, GroupBucket((Output(NO_SUCH_PORT),))),
    "group: a bucket of length 0": _patched(_group(ofp.OFPGT_ALL, BUCKET), 16, "0000"),
    "group: a bucket beyond the end": _patched(_group(ofp.OFPGT_ALL, BUCKET), 16, "0100"),
    "group: cut short": _with_length(_group(ofp.OFPGT_ALL)[:12]),
    "message: an unknown type": _message(99),
    "message: one of the switch's own": _message(ofp.OFPT_FEATURES_REPLY, "00" * 24),
    "message: a barrier with a body": _message(ofp.OFPT_BARRIER_REQUEST, "0000000000000000"),
    "message: a features request with a body": _message(ofp.OFPT_FEATURES_REQUEST, "0000000000000000"),
    "message: an unknown experimenter": _message(ofp.OFPT_EXPERIMENTER, "1234567800000001"),
    "message: another version": b"\x05" + _message(ofp.OFPT_BARRIER_REQUEST)[1:],
    "config: cut short": _message(ofp.OFPT_SET_CONFIG, "0000"),
    "multipart: an unknown kind": _message(ofp.OFPT_MULTIPART_REQUEST, "0063000000000000"),
    "multipart: an unknown experimenter": _message(
        ofp.OFPT_MULTIPART_REQUEST, "ffff0000000000001234567800000001"
    ),
    "multipart: cut short": _message(ofp.OFPT_MULTIPART_REQUEST, "0001"),
    "multipart: flows, cut short": _message(ofp.OFPT_MULTIPART_REQUEST, "0001000000000000" + "00" * 8),
    "multipart: tables with a body": _message(ofp.OFPT_MULTIPART_REQUEST, "0003000000000000" + "00" * 8),
    "packet: out of a port that cannot be": _packet_out([parser.OFPActionOutput(NO_SUCH_PORT)]),
    "packet: from a port that cannot be": _packet_out([parser.OFPActionOutput(1)], in_port=NO_SUCH_PORT),
    "packet: to a group that is not there": _packet_out([parser.OFPActionGroup(99)]),
    "packet: an unknown buffer": _packet_out([parser.OFPActionOutput(1)], buffer=7),
    "packet: actions longer than the message": _patched(_packet_out([]), 16, "0100"),
    "packet: cut short": _with_length(_packet_out([])[:20]),
    "role: an unknown one": _message(ofp.OFPT_ROLE_REQUEST, "00000009" + "00" * 12),
    "role: cut short": _message(ofp.OFPT_ROLE_REQUEST, "00000001"),
    "port: an unknown one": _message(
        ofp.OFPT_PORT_MOD, "00000032" + "00000000" + "020000000001" + "0000" + "00" * 16
    ),
    "port: cut short": _message(ofp.OFPT_PORT_MOD, "00000001"),
}

# Where Open vSwitch names another error than the specification (1.3.5, section 7.4.4), and ours does not.
OTHERWISE: dict[str, tuple[int, int]] = {
    "flow: no room for its match": (ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_LEN),
    "match: a field too short": (ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_LEN),
    "packet: from a port that cannot be": (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT),
}

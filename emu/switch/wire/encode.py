"""Encodes the switch's OpenFlow 1.3 replies.

os-ken builds requests but no replies.  The tests read every one of these back with Scapy, os-ken's
parsers and `ovs-ofctl ofp-parse`.

Messages that the switch sends unasked, and roles, are below: PACKET_IN, FLOW_REMOVED, PORT_STATUS.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache

from gradwire.emu.switch.plane.counters import InterfaceState
from gradwire.emu.switch.wire import layouts
from gradwire.emu.switch.wire.openflow13 import ProtocolError, ofp
from gradwire.planning.openflow import extension
from gradwire.planning.openflow.entries import (
    Action,
    Actions,
    Entry,
    Gone,
    GroupEntry,
    Output,
    PacketIn,
    ToGroup,
)
from gradwire.planning.openflow.match import PROTO_TCP, Match

UNAVAILABLE = 2**64 - 1  # OpenFlow's value of a counter that the switch does not have
MAX_BODY_NBYTES = 60_000  # of one multipart reply; its length field has 16 bits
_FLOW_STATS = struct.Struct(ofp.OFP_FLOW_STATS_0_PACK_STR)
_MANY_ACTIONS = 4096  # a fabric's rules have a few hundred; an action list has 64 actions at most
_ERROR_DATA_NBYTES = 64  # how much of a refused request goes back with the error
_TCP_FIELDS = ((13, 2), (14, 2))
_UDP_FIELDS = ((15, 2), (16, 2))
_SPEEDS = {
    10_000_000: ofp.OFPPF_10MB_FD,
    100_000_000: ofp.OFPPF_100MB_FD,
    1_000_000_000: ofp.OFPPF_1GB_FD,
    10_000_000_000: ofp.OFPPF_10GB_FD,
    40_000_000_000: ofp.OFPPF_40GB_FD,
    100_000_000_000: ofp.OFPPF_100GB_FD,
}
_XID = 0  # no request is answered
_PACKET_IN_PAD = bytes(2)
_MAX_MESSAGE_NBYTES = 0xFFFF


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    header = struct.pack(ofp.OFP_HEADER_PACK_STR, ofp.OFP_VERSION, kind, ofp.OFP_HEADER_SIZE + len(body), xid)
    return header + body


def hello() -> bytes:
    """HELLO that offers version 1.3 and no other."""
    bitmap = struct.pack("!HHI", ofp.OFPHET_VERSIONBITMAP, 8, 1 << ofp.OFP_VERSION)
    return message(ofp.OFPT_HELLO, 0, bitmap)


def error(xid: int, refusal: ProtocolError, request: bytes) -> bytes:
    body = struct.pack(ofp.OFP_ERROR_MSG_PACK_STR, refusal.kind, refusal.code)
    return message(ofp.OFPT_ERROR, xid, body + request[:_ERROR_DATA_NBYTES])


def features(xid: int, dpid: int) -> bytes:
    """No packet buffers, one table."""
    can = ofp.OFPC_FLOW_STATS | ofp.OFPC_TABLE_STATS | ofp.OFPC_PORT_STATS | ofp.OFPC_GROUP_STATS
    body = struct.pack(ofp.OFP_SWITCH_FEATURES_PACK_STR, dpid, 0, 1, 0, can, 0)
    return message(ofp.OFPT_FEATURES_REPLY, xid, body)


def config(xid: int, miss_send_len: int) -> bytes:
    body = struct.pack(ofp.OFP_SWITCH_CONFIG_PACK_STR, ofp.OFPC_FRAG_NORMAL, miss_send_len)
    return message(ofp.OFPT_GET_CONFIG_REPLY, xid, body)


def multipart(xid: int, kind: int, parts: Iterable[bytes], first: bytes = b"") -> Iterator[bytes]:
    """One reply, in as many messages as it takes; each begins with `first`, and each part stays whole."""
    bodies = [b""]
    pending: list[bytes] = []
    size = 0
    for part in parts:
        if pending and size + len(part) > MAX_BODY_NBYTES:
            bodies[-1] = b"".join(pending)
            bodies.append(b"")
            pending, size = [], 0
        pending.append(part)
        size += len(part)
    bodies[-1] = b"".join(pending)
    for number, body in enumerate(bodies, start=1):
        more = ofp.OFPMPF_REPLY_MORE if number < len(bodies) else 0
        header = struct.pack(ofp.OFP_MULTIPART_REPLY_PACK_STR, kind, more)
        yield message(ofp.OFPT_MULTIPART_REPLY, xid, header + first + body)


def match(matched: Match) -> bytes:
    """An ofp_match with its padding; fields in the order in which they need each other."""
    return layouts.write(matched) or match_by_fields(matched)


def match_by_fields(matched: Match) -> bytes:
    """As `match`, of any layout."""
    l4_fields = _TCP_FIELDS if matched.ip_proto == PROTO_TCP else _UDP_FIELDS
    fields = (
        (0, 4, matched.in_port),
        (3, 6, matched.eth_dst),
        (4, 6, matched.eth_src),
        (5, 2, matched.eth_type),
        (10, 1, matched.ip_proto),
        (11, 4, matched.ipv4_src),
        (12, 4, matched.ipv4_dst),
        (*l4_fields[0], matched.sport),
        (*l4_fields[1], matched.dport),
    )
    oxm = b"".join(
        struct.pack("!HBB", ofp.OFPXMC_OPENFLOW_BASIC, field << 1, width) + value.to_bytes(width, "big")
        for field, width, value in fields
        if value is not None
    )
    length = 4 + len(oxm)
    return struct.pack("!HH", ofp.OFPMT_OXM, length) + oxm + bytes(-length % 8)


@lru_cache(_MANY_ACTIONS)
def instructions(chosen: Actions) -> bytes:
    if not chosen.given:
        return b""
    encoded = actions(chosen.given)
    return struct.pack(ofp.OFP_INSTRUCTION_ACTIONS_PACK_STR, chosen.instruction, 8 + len(encoded)) + encoded


def actions(given: Iterable[Action]) -> bytes:
    return b"".join(map(_action, given))


def _action(given: Action) -> bytes:
    match given:
        case Output(port, max_nbytes):
            return struct.pack(ofp.OFP_ACTION_OUTPUT_PACK_STR, ofp.OFPAT_OUTPUT, 16, port, max_nbytes)
        case ToGroup(group):
            return struct.pack(ofp.OFP_ACTION_GROUP_PACK_STR, ofp.OFPAT_GROUP, 8, group)
        case _:
            return extension.action(given)


def flow_stats(entry: Entry, packets: int, nbytes: int, now_ns: int) -> bytes:
    seconds, nanoseconds = divmod(now_ns - entry.since_ns, 10**9)
    match_and_actions = match(entry.match) + instructions(entry.actions)
    head = _FLOW_STATS.pack(
        ofp.OFP_FLOW_STATS_0_SIZE + len(match_and_actions),
        0,
        seconds,
        nanoseconds,
        entry.priority,
        entry.idle_s,
        entry.hard_s,
        entry.flags,
        entry.cookie,
        packets,
        nbytes,
    )
    return head + match_and_actions


def aggregate(n_flows: int, packets: int, nbytes: int) -> bytes:
    return struct.pack(ofp.OFP_AGGREGATE_STATS_REPLY_PACK_STR, packets, nbytes, n_flows)


def table_stats(n_active: int, n_lookups: int, n_matched: int) -> bytes:
    return struct.pack(ofp.OFP_TABLE_STATS_PACK_STR, 0, n_active, n_lookups, n_matched)


def description(name: str) -> bytes:
    return struct.pack(
        ofp.OFP_DESC_PACK_STR,
        b"gradwire",
        b"Linux tc, BPF",
        b"gradwire switch",
        b"none",
        name.encode()[: ofp.DESC_STR_LEN - 1],
    )


def port(number: int, link: InterfaceState, name: str, rate_bps: int) -> bytes:
    speed = _SPEEDS.get(rate_bps, ofp.OFPPF_OTHER)
    kbps = min(rate_bps // 1000, 2**32 - 1)
    config = 0 if link.is_enabled else ofp.OFPPC_PORT_DOWN
    state = ofp.OFPPS_LIVE if link.is_up else ofp.OFPPS_LINK_DOWN
    return struct.pack(
        ofp.OFP_PORT_PACK_STR, number, link.mac, name.encode(), config, state, speed, 0, 0, 0, kbps, kbps
    )


def group_description(number: int, entry: GroupEntry) -> bytes:
    body = b""
    for bucket in entry.group.buckets:
        encoded = actions(bucket.outputs)
        watch_port = ofp.OFPP_ANY if bucket.watch_port is None else bucket.watch_port
        length = ofp.OFP_BUCKET_SIZE + len(encoded)
        body += struct.pack(ofp.OFP_BUCKET_PACK_STR, length, bucket.weight, watch_port, ofp.OFPG_ANY)
        body += encoded
    length = ofp.OFP_GROUP_DESC_SIZE + len(body)
    return struct.pack(ofp.OFP_GROUP_DESC_PACK_STR, length, entry.group.kind, number) + body


def group_stats(
    number: int, entry: GroupEntry, n_references: int, counts: list[tuple[int, int]], now_ns: int
) -> bytes:
    """`counts` are (packets, bytes) of the group, then of each bucket."""
    buckets = b"".join(struct.pack(ofp.OFP_BUCKET_COUNTER_PACK_STR, *count) for count in counts[1:])
    head = struct.pack(
        ofp.OFP_GROUP_STATS_PACK_STR,
        ofp.OFP_GROUP_STATS_SIZE + len(buckets),
        number,
        n_references,
        *counts[0],
        *divmod(now_ns - entry.since_ns, 10**9),
    )
    return head + buckets


def packet_in(packet: PacketIn) -> bytes:
    """Without a buffer, so with all of the frame that a message holds."""
    head = struct.pack(
        ofp.OFP_PACKET_IN_PACK_STR,
        ofp.OFP_NO_BUFFER,
        min(packet.nbytes, 0xFFFF),
        packet.reason,
        0,
        packet.cookie,
    )
    body = head + match(Match(in_port=packet.in_port)) + _PACKET_IN_PAD
    room = _MAX_MESSAGE_NBYTES - ofp.OFP_HEADER_SIZE - len(body)
    return message(ofp.OFPT_PACKET_IN, _XID, body + packet.frame[:room])


def flow_removed(entry: Entry, reason: Gone, packets: int, nbytes: int, now_ns: int) -> bytes:
    body = struct.pack(
        ofp.OFP_FLOW_REMOVED_PACK_STR0,
        entry.cookie,
        entry.priority,
        reason,
        0,
        *divmod(now_ns - entry.since_ns, 10**9),
        entry.idle_s,
        entry.hard_s,
        packets,
        nbytes,
    )
    return message(ofp.OFPT_FLOW_REMOVED, _XID, body + match(entry.match))


def port_status(described: bytes) -> bytes:
    """A port has changed; `described` is its ofp_port."""
    return message(ofp.OFPT_PORT_STATUS, _XID, struct.pack("!B7x", ofp.OFPPR_MODIFY) + described)


def role(xid: int, chosen: int, generation: int | None) -> bytes:
    value = 2**64 - 1 if generation is None else generation  # OpenFlow's value for none
    return message(ofp.OFPT_ROLE_REPLY, xid, struct.pack(ofp.OFP_ROLE_REQUEST_PACK_STR, chosen, value))

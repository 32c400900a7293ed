"""Messages that the switch sends unasked, and roles, as bytes: PACKET_IN, FLOW_REMOVED, PORT_STATUS."""

import struct

from gradwire.emu.switch.wire import encode
from gradwire.emu.switch.wire.openflow13 import ofp
from gradwire.planning.openflow.entries import Entry, Gone, PacketIn
from gradwire.planning.openflow.match import Match

_XID = 0  # no request is answered
_PACKET_IN_PAD = bytes(2)
_MAX_MESSAGE_NBYTES = 0xFFFF


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
    body = head + encode.match(Match(in_port=packet.in_port)) + _PACKET_IN_PAD
    room = _MAX_MESSAGE_NBYTES - ofp.OFP_HEADER_SIZE - len(body)
    return encode.message(ofp.OFPT_PACKET_IN, _XID, body + packet.frame[:room])


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
    return encode.message(ofp.OFPT_FLOW_REMOVED, _XID, body + encode.match(entry.match))


def port_status(described: bytes) -> bytes:
    """A port has changed; `described` is its ofp_port."""
    return encode.message(ofp.OFPT_PORT_STATUS, _XID, struct.pack("!B7x", ofp.OFPPR_MODIFY) + described)


def role(xid: int, chosen: int, generation: int | None) -> bytes:
    value = 2**64 - 1 if generation is None else generation  # OpenFlow's value for none
    return encode.message(ofp.OFPT_ROLE_REPLY, xid, struct.pack(ofp.OFP_ROLE_REQUEST_PACK_STR, chosen, value))

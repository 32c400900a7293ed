"""Which of several controllers may change a switch, and which of them receives which messages.

OpenFlow 1.3.5, 6.3: all are EQUAL until one asks to be the MASTER, which makes a MASTER before it a
SLAVE; a slave may read and not change.  A request with an older generation than one seen is stale.
"""

import struct
from dataclasses import dataclass, field

from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp

_ROLE_REQUEST = struct.Struct(ofp.OFP_ROLE_REQUEST_PACK_STR)
_ASYNC = struct.Struct(ofp.OFP_ASYNC_CONFIG_PACK_STR)
_SIGN = 1 << 63
_PACKET_INS = 1 << ofp.OFPR_NO_MATCH | 1 << ofp.OFPR_ACTION
_PORT_CHANGES = 1 << ofp.OFPPR_ADD | 1 << ofp.OFPPR_DELETE | 1 << ofp.OFPPR_MODIFY
_FLOWS_GONE = (
    1 << ofp.OFPRR_IDLE_TIMEOUT
    | 1 << ofp.OFPRR_HARD_TIMEOUT
    | 1 << ofp.OFPRR_DELETE
    | 1 << ofp.OFPRR_GROUP_DELETE
)
EVENTS = (ofp.OFPT_PACKET_IN, ofp.OFPT_PORT_STATUS, ofp.OFPT_FLOW_REMOVED)


@dataclass
class Member:
    """One connection; `masks` are, for each of EVENTS, the reasons heard of as no slave and as one."""

    role: int = ofp.OFPCR_ROLE_EQUAL
    masks: tuple[int, ...] = (_PACKET_INS, 0, _PORT_CHANGES, _PORT_CHANGES, _FLOWS_GONE, 0)

    @property
    def is_slave(self) -> bool:
        return bool(self.role == ofp.OFPCR_ROLE_SLAVE)

    def hears(self, event: int, reason: int) -> bool:
        mask = self.masks[2 * EVENTS.index(event) + int(self.is_slave)]
        return bool(int(mask) >> reason & 1)

    def async_config(self) -> bytes:
        return _ASYNC.pack(*self.masks)

    def set_async(self, body: bytes) -> None:
        if len(body) != _ASYNC.size:
            raise bad_length()
        self.masks = _ASYNC.unpack(body)


@dataclass
class Roles:
    """The connections of one switch."""

    generation: int | None = None
    members: list[Member] = field(default_factory=list)

    def join(self) -> Member:
        member = Member()
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.members = [other for other in self.members if other is not member]

    def change(self, member: Member, body: bytes) -> None:
        """ROLE_REQUEST.  Raise ProtocolError."""
        if len(body) != _ROLE_REQUEST.size:
            raise bad_length()
        role, generation = _ROLE_REQUEST.unpack(body)
        if role > ofp.OFPCR_ROLE_SLAVE:
            raise ProtocolError(ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_BAD_ROLE)
        if role in (ofp.OFPCR_ROLE_MASTER, ofp.OFPCR_ROLE_SLAVE):
            # The difference of two serial numbers, as a signed one.
            if self.generation is not None and (generation - self.generation) & _SIGN:
                raise ProtocolError(ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE)
            self.generation = generation
        if role == ofp.OFPCR_ROLE_MASTER:
            for other in self.members:
                if other.role == ofp.OFPCR_ROLE_MASTER:
                    other.role = ofp.OFPCR_ROLE_SLAVE
        if role != ofp.OFPCR_ROLE_NOCHANGE:
            member.role = role

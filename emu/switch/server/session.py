"""One switch's end of an OpenFlow 1.3 connection, without a socket: bytes in, replies and operations out.

The session does what a request asks for, or refuses it with the error that the specification names;
it ignores nothing.  There are no meters, queues, packet buffers or second tables.
"""

import struct
from collections.abc import Iterable, Iterator

from gradwire.emu.switch.plane.counters import Instruments
from gradwire.emu.switch.ports import SwitchPorts
from gradwire.emu.switch.server.roles import Roles
from gradwire.emu.switch.table.planeoperations import Operation
from gradwire.emu.switch.table.table import FlowTable
from gradwire.emu.switch.wire import adds, encode, statistics
from gradwire.emu.switch.wire import changes as orders
from gradwire.emu.switch.wire.changes import change_flows, change_groups
from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp
from gradwire.planning.openflow.entries import Event, FlowGone, PacketIn, PortChanged

_HEADER = struct.Struct(ofp.OFP_HEADER_PACK_STR)
_CONFIG = struct.Struct(ofp.OFP_SWITCH_CONFIG_PACK_STR)
_MULTIPART = struct.Struct(ofp.OFP_MULTIPART_REQUEST_PACK_STR)
_DEFAULT_MISS_SEND_LEN = 128
_WITHOUT_BODY = (
    ofp.OFPT_FEATURES_REQUEST,
    ofp.OFPT_GET_CONFIG_REQUEST,
    ofp.OFPT_BARRIER_REQUEST,
    ofp.OFPT_GET_ASYNC_REQUEST,
)
_CHANGES = (  # OpenFlow 1.3.5, 6.3.4: what a slave may not
    ofp.OFPT_FLOW_MOD,
    ofp.OFPT_GROUP_MOD,
    ofp.OFPT_PORT_MOD,
    ofp.OFPT_TABLE_MOD,
    ofp.OFPT_METER_MOD,
    ofp.OFPT_PACKET_OUT,
)

Result = bytes | Operation | Event


class Session:
    """The state of one connection; the flow table and the roles outlive it."""

    def __init__(
        self,
        switch: SwitchPorts,
        table: FlowTable,
        instruments: Instruments,
        roles: Roles | None = None,
        start_ns: int | None = None,
    ) -> None:
        """`start_ns` is when the switch began, by the instruments' clock; else now."""
        self.is_introduced = False  # the controller has asked for our features
        self.is_over = False  # send what is yielded, then close
        self._is_greeted = False
        self._switch = switch
        self._table = table
        self._instruments = instruments
        self._roles = roles or Roles()
        self._member = self._roles.join()
        self._ports = {port.port: port for port in switch.ports}
        self._start_ns = instruments.now_ns() if start_ns is None else start_ns
        self._miss_send_len = _DEFAULT_MISS_SEND_LEN
        self._pending = bytearray()

    def receive(self, octets: bytes) -> Iterator[Result]:
        """Replies, operations, and events that are for the other connections of this switch too.

        Carry out each before asking for the next one: a later reply reads the counters of what an
        earlier message changed.
        """
        self._pending += octets
        at, pending = 0, self._pending
        singly_until = 0  # where messages end that cannot be carried out at once
        try:
            while not self.is_over and len(pending) - at >= _HEADER.size:
                version, kind, length, xid = _HEADER.unpack_from(pending, at)
                if length < _HEADER.size:  # the next message may begin anywhere
                    self.is_over = True
                    yield encode.error(xid, bad_length(), bytes(pending[at : at + _HEADER.size]))
                    return
                if len(pending) - at < length:
                    return
                if kind == ofp.OFPT_FLOW_MOD and at >= singly_until:
                    n = adds.messages_alike(pending, at)
                    operations = self._add_many(bytes(pending[at : at + n * length]), n)
                    if operations is not None:
                        at += n * length
                        yield from operations
                        continue
                    singly_until = at + n * length
                message = bytes(pending[at : at + length])
                at += length
                try:
                    if self._is_greeted:
                        yield from self._obey(version, kind, xid, message[_HEADER.size :])
                    else:
                        self._greet(version, kind, message[_HEADER.size :])
                except ProtocolError as refusal:
                    yield encode.error(xid, refusal, message)
        finally:
            del pending[:at]

    def tell(self, event: Event) -> bytes:
        """What this controller is sent of an event; nothing if it has not asked to hear of such."""
        member = self._member
        if not self.is_introduced or self.is_over:
            return b""
        match event:
            case PacketIn() if member.hears(ofp.OFPT_PACKET_IN, event.reason):
                return encode.packet_in(event)
            case FlowGone() if member.hears(ofp.OFPT_FLOW_REMOVED, event.reason):
                counts = self._instruments.flow_counts(event.entry.flow)
                return encode.flow_removed(event.entry, event.reason, *counts, self._instruments.now_ns())
            case PortChanged() if member.hears(ofp.OFPT_PORT_STATUS, ofp.OFPPR_MODIFY):
                port = self._ports[event.port]
                return encode.port_status(statistics.port_description(port, self._instruments))
        return b""

    def end(self) -> None:
        """The connection has gone, and its role with it."""
        self._roles.leave(self._member)

    def _greet(self, version: int, kind: int, body: bytes) -> None:
        """Agree on version 1.3, by the bitmap of the controller's HELLO or by its version number."""
        bitmap = _version_bitmap(body)
        agrees = version >= ofp.OFP_VERSION if bitmap is None else bitmap >> ofp.OFP_VERSION & 1
        if kind != ofp.OFPT_HELLO or not agrees:
            self.is_over = True
            raise ProtocolError(ofp.OFPET_HELLO_FAILED, ofp.OFPHFC_INCOMPATIBLE)
        self._is_greeted = True

    def _obey(self, version: int, kind: int, xid: int, body: bytes) -> Iterable[Result]:
        if version != ofp.OFP_VERSION:
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_VERSION)
        if kind in _WITHOUT_BODY and body:
            raise bad_length()
        if kind in _CHANGES:
            return self._change(kind, body)
        match kind:
            case ofp.OFPT_MULTIPART_REQUEST:
                return self._answer_multipart(xid, body)
            case ofp.OFPT_SET_CONFIG:
                self._set_config(body)
            case ofp.OFPT_SET_ASYNC:
                self._member.set_async(body)
            case ofp.OFPT_ERROR:
                self.is_over = True  # an error in answer to an error would go on for ever
            case ofp.OFPT_HELLO | ofp.OFPT_ECHO_REPLY:
                pass  # nothing is asked for
            case _:
                return (self._answer(kind, xid, body),)
        return ()

    def _add_many(self, messages: bytes, n: int) -> Iterable[Operation] | None:
        """Carry out `n` FLOW_MODs of equal length at once; return None, and do nothing, if that cannot be."""
        is_heard = self._is_greeted and not self._member.is_slave and messages[0] == ofp.OFP_VERSION
        read = adds.read(messages, n) if is_heard and n >= adds.LEAST else None
        return read and orders.add_flows(self._table, self._ports, read, self._instruments.now_ns())

    def _change(self, kind: int, body: bytes) -> Iterable[Operation | Event]:
        """What only a controller may ask for that is not a slave."""
        if self._member.is_slave:
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE)
        match kind:
            case ofp.OFPT_FLOW_MOD:
                return change_flows(self._table, self._ports, body, self._instruments.now_ns())
            case ofp.OFPT_GROUP_MOD:
                return change_groups(self._table, self._ports, body, self._instruments.now_ns())
            case ofp.OFPT_PACKET_OUT:
                return orders.send_packet(self._table, self._ports, body)
            case ofp.OFPT_PORT_MOD:
                return (orders.change_port(self._ports, self._instruments, body),)
            case ofp.OFPT_TABLE_MOD:
                orders.check_table_mod(body)
                return ()
            case _:
                raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_TYPE)

    def _answer(self, kind: int, xid: int, body: bytes) -> bytes:
        """The reply to a request that changes nothing in the data plane."""
        match kind:
            case ofp.OFPT_BARRIER_REQUEST:  # each message is carried out before the next is read
                return encode.message(ofp.OFPT_BARRIER_REPLY, xid)
            case ofp.OFPT_ECHO_REQUEST:
                return encode.message(ofp.OFPT_ECHO_REPLY, xid, body)
            case ofp.OFPT_FEATURES_REQUEST:
                self.is_introduced = True
                return encode.features(xid, self._switch.dpid)
            case ofp.OFPT_GET_CONFIG_REQUEST:
                return encode.config(xid, self._miss_send_len)
            case ofp.OFPT_ROLE_REQUEST:
                self._roles.change(self._member, body)
                return encode.role(xid, self._member.role, self._roles.generation)
            case ofp.OFPT_GET_ASYNC_REQUEST:
                return encode.message(ofp.OFPT_GET_ASYNC_REPLY, xid, self._member.async_config())
            case ofp.OFPT_EXPERIMENTER:
                raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_EXPERIMENTER)
            case _:
                raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_TYPE)

    def _set_config(self, body: bytes) -> None:
        if len(body) != _CONFIG.size:
            raise bad_length()
        flags, miss_send_len = _CONFIG.unpack(body)
        if flags != ofp.OFPC_FRAG_NORMAL:
            raise ProtocolError(ofp.OFPET_SWITCH_CONFIG_FAILED, ofp.OFPSCFC_BAD_FLAGS)
        self._miss_send_len = miss_send_len

    def _answer_multipart(self, xid: int, body: bytes) -> Iterator[bytes]:
        if len(body) < _MULTIPART.size:
            raise bad_length()
        kind, flags = _MULTIPART.unpack_from(body)
        if flags:  # OFPMPF_REQ_MORE, a request in several messages: none of ours needs that
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_MULTIPART_BUFFER_OVERFLOW)
        request = body[_MULTIPART.size :]
        if kind == ofp.OFPMP_TABLE_FEATURES and request and self._member.is_slave:
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE)
        answer = statistics.parts(kind, request, self._switch, self._table, self._instruments, self._start_ns)
        yield from encode.multipart(xid, kind, answer, statistics.first(kind))


def _version_bitmap(elements: bytes) -> int | None:
    """The first word of a HELLO's version bitmap, None if it has none (as Ryu's and os-ken's)."""
    at = 0
    while at + 8 <= len(elements):
        kind, length = struct.unpack_from(ofp.OFP_HELLO_ELEM_HEADER_PACK_STR, elements, at)
        if kind == ofp.OFPHET_VERSIONBITMAP and length >= 8:
            return int.from_bytes(elements[at + 4 : at + 8], "big")
        at += max(8, (length + 7) // 8 * 8)
    return None

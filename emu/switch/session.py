"""One switch's end of an OpenFlow 1.3 connection, without a socket: bytes in, replies and operations out.

Everything that is asked for is done, or refused with the error that the specification names; nothing
is passed over in silence.  There are flow entries on IPv4 matches, select and indirect groups, and
statistics; no packet-in, packet-out, meters, queues, roles or table features.
"""

import struct
from collections.abc import Iterator

from emu.switch import encode, statistics
from emu.switch.changes import change_flows, change_groups
from emu.switch.counters import Instruments
from emu.switch.entries import Operation
from emu.switch.openflow13 import ProtocolError, bad_length, ofp
from emu.switch.ports import SwitchPorts
from emu.switch.table import FlowTable

_HEADER = struct.Struct(ofp.OFP_HEADER_PACK_STR)
_CONFIG = struct.Struct(ofp.OFP_SWITCH_CONFIG_PACK_STR)
_MULTIPART = struct.Struct(ofp.OFP_MULTIPART_REQUEST_PACK_STR)
_DEFAULT_MISS_SEND_LEN = 128
_WITHOUT_BODY = (ofp.OFPT_FEATURES_REQUEST, ofp.OFPT_GET_CONFIG_REQUEST, ofp.OFPT_BARRIER_REQUEST)


class Session:
    """The state of one connection; the flow table outlives it."""

    def __init__(self, switch: SwitchPorts, table: FlowTable, instruments: Instruments) -> None:
        self.is_introduced = False  # the controller has asked for our features
        self.is_over = False  # send what is yielded, then close
        self._is_greeted = False
        self._switch = switch
        self._table = table
        self._instruments = instruments
        self._ports = frozenset(port.port for port in switch.ports)
        self._start_ns = instruments.now_ns()
        self._miss_send_len = _DEFAULT_MISS_SEND_LEN
        self._pending = bytearray()

    def receive(self, octets: bytes) -> Iterator[bytes | Operation]:
        """Replies and operations, in order.

        Carry out each before asking for the next one: a later reply reads the counters of what an
        earlier message changed.
        """
        self._pending += octets
        while not self.is_over and len(self._pending) >= _HEADER.size:
            _, _, length, xid = _HEADER.unpack_from(self._pending)
            if length < _HEADER.size:  # there is no telling where the next message begins
                self.is_over = True
                yield encode.error(xid, bad_length(), bytes(self._pending[: _HEADER.size]))
                return
            if len(self._pending) < length:
                return
            message = bytes(self._pending[:length])
            del self._pending[:length]
            try:
                yield from self._obey(message) if self._is_greeted else self._greet(message)
            except ProtocolError as refusal:
                yield encode.error(xid, refusal, message)

    def _greet(self, message: bytes) -> Iterator[bytes]:
        """Agree on version 1.3, by the bitmap of the controller's HELLO or by its version number."""
        version, kind, _, _ = _HEADER.unpack_from(message)
        bitmap = _version_bitmap(message[_HEADER.size :])
        agrees = version >= ofp.OFP_VERSION if bitmap is None else bitmap >> ofp.OFP_VERSION & 1
        if kind != ofp.OFPT_HELLO or not agrees:
            self.is_over = True
            raise ProtocolError(ofp.OFPET_HELLO_FAILED, ofp.OFPHFC_INCOMPATIBLE)
        self._is_greeted = True
        yield from ()

    def _obey(self, message: bytes) -> Iterator[bytes | Operation]:
        version, kind, _, xid = _HEADER.unpack_from(message)
        body = message[_HEADER.size :]
        if version != ofp.OFP_VERSION:
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_VERSION)
        if kind in _WITHOUT_BODY and body:
            raise bad_length()
        match kind:
            case ofp.OFPT_FLOW_MOD:
                yield from change_flows(self._table, self._ports, body, self._instruments.now_ns())
            case ofp.OFPT_GROUP_MOD:
                yield from change_groups(self._table, self._ports, body)
            case ofp.OFPT_MULTIPART_REQUEST:
                yield from self._answer_multipart(xid, body)
            case ofp.OFPT_SET_CONFIG:
                self._set_config(body)
            case ofp.OFPT_ERROR:
                self.is_over = True  # an error in answer to an error would go on for ever
            case ofp.OFPT_HELLO | ofp.OFPT_ECHO_REPLY:
                pass  # nothing is asked for
            case _:
                yield self._answer(kind, xid, body)

    def _answer(self, kind: int, xid: int, body: bytes) -> bytes:
        """The reply to a request that changes nothing."""
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
        answer = statistics.parts(kind, request, self._switch, self._table, self._instruments, self._start_ns)
        yield from encode.multipart(xid, kind, answer)


def _version_bitmap(elements: bytes) -> int | None:
    """The first word of a HELLO's version bitmap, None if it has none (as Ryu's and os-ken's)."""
    at = 0
    while at + 8 <= len(elements):
        kind, length = struct.unpack_from(ofp.OFP_HELLO_ELEM_HEADER_PACK_STR, elements, at)
        if kind == ofp.OFPHET_VERSIONBITMAP and length >= 8:
            return int.from_bytes(elements[at + 4 : at + 8], "big")
        at += max(8, (length + 7) // 8 * 8)
    return None

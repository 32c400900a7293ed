"""The controller's end of one switch's OpenFlow connection, without a controller."""

import select
import socket
import struct
from typing import Any

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from tests.made_rules import DATAPATH, serialized
from tests.real.timely import PATIENCE_S

_ANSWER_S = 30.0  # for what may wait behind much work
_RECEIVE_NBYTES = 1 << 18
_HEADER = struct.Struct("!BBHI")


class Speaker:
    """Listens for one switch; what the switch says unasked is kept in `unasked`."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(PATIENCE_S)
        self._pending = bytearray()
        self.unasked: list[Any] = []

    def accept(self) -> None:
        self._link, _ = self._server.accept()
        self._link.settimeout(_ANSWER_S)
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending.clear()
        hello = struct.pack("!BBHIHHI", 4, 0, 16, 0, 1, 8, 1 << 4)
        self.send(hello + serialized(parser.OFPFeaturesRequest(DATAPATH), 1))
        self.features = self.until(ofp.OFPT_FEATURES_REPLY)[-1]

    def hang_up(self) -> None:
        """Close the connection; the switch may come again."""
        self._link.close()

    def close(self) -> None:
        self._link.close()
        self._server.close()

    def send(self, octets: bytes) -> None:
        """Send little: who sends much has to read in between."""
        self._link.sendall(octets)

    def send_reading(self, octets: bytes) -> None:
        """Send much; what the switch answers meanwhile is kept for the next question."""
        unsent = memoryview(octets)
        while unsent:
            readable, writable, _ = select.select([self._link], [self._link], [], _ANSWER_S)
            if readable:
                self._pending += self._link.recv(_RECEIVE_NBYTES)
            if writable:
                unsent = unsent[self._link.send(unsent[:_RECEIVE_NBYTES]) :]
            if not readable and not writable:
                raise TimeoutError("the switch neither reads nor answers")

    def until(self, kind: int) -> list[Any]:
        """Answers up to and with the first of this kind.  TimeoutError if none comes."""
        answers: list[Any] = []
        while True:
            message = self._message()
            if message.msg_type == ofp.OFPT_ECHO_REQUEST:
                self.send(serialized(parser.OFPEchoReply(DATAPATH, message.data), message.xid))
            elif message.msg_type in (ofp.OFPT_PACKET_IN, ofp.OFPT_PORT_STATUS, ofp.OFPT_FLOW_REMOVED):
                self.unasked.append(message)
            else:
                answers.append(message)
                if message.msg_type == kind:
                    return answers

    def barrier(self) -> list[Any]:
        """All answers that come before the barrier's."""
        self.send(serialized(parser.OFPBarrierRequest(DATAPATH), 0xBA))
        return self.until(ofp.OFPT_BARRIER_REPLY)[:-1]

    def ask(self, request: Any) -> list[Any]:
        """The whole body of a multipart reply."""
        self.send(serialized(request, 0xA5))
        body: list[Any] = []
        while True:
            *others, reply = self.until(ofp.OFPT_MULTIPART_REPLY)
            assert others == [], f"unexpected before the answer: {others}"
            body += reply.body if isinstance(reply.body, list) else [reply.body]
            if not reply.flags & ofp.OFPMPF_REPLY_MORE:
                return body

    def _message(self) -> Any:
        while True:
            if len(self._pending) >= _HEADER.size:
                version, kind, length, xid = _HEADER.unpack_from(self._pending)
                if len(self._pending) >= length:
                    octets = bytes(self._pending[:length])
                    del self._pending[:length]
                    return ofproto_parser.msg(DATAPATH, version, kind, length, xid, octets)
            octets = self._link.recv(_RECEIVE_NBYTES)
            if not octets:
                raise ConnectionError("the switch has closed its connection")
            self._pending += octets

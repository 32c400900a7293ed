"""One OpenFlow connection to the listening port, from a switch or from anybody else.

os-ken's own receive loop believes what it is sent: a message that it cannot read kills a thread or is
logged and passed over, and with its native threads (4.2.2) a connection that ends leaves its sender
waiting for ever, so nobody hears of it.  This one ends with a reason instead, `trouble`.
"""

import logging
import socket
import struct
import threading
import time
from contextlib import closing
from typing import Any, Self

from gradwire.controller.ryu_api import (
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    LIBRARY,
    MAIN_DISPATCHER,
    Datapath,
    controller_module,
    ofp,
    ofp_event,
    ofproto_parser,
)

INTRODUCTION_S = 10.0  # in which a connection must have become a switch
MAX_STRANGERS = 512  # connections at once that have not
_RECEIVE_NBYTES = 1 << 16
_HEADER = struct.Struct(ofp.OFP_HEADER_PACK_STR)
_KEEPALIVE_S = 5
_serving = threading.local()
_ours = logging.getLogger("gradwire.controller")


class Malformed(Exception):
    """What came is not OpenFlow 1.3."""


class SwitchConnection(Datapath):  # type: ignore[misc]
    """os-ken's datapath; `trouble` says why we ended it, None if the other end did."""

    def __init__(self, *arguments: Any) -> None:
        self.trouble: str | None = None
        super().__init__(*arguments)
        # Mininet's `mn` looks for a controller with telnet and decodes what comes: a random number ended it.
        self.xid = 0
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)

    def _recv_loop(self) -> None:
        """Overrides the library's; runs in a thread of its own."""
        _serving.connection = self
        try:
            self._receive()
        except OSError:
            pass  # it is gone
        except Exception as error:  # noqa: BLE001 - the thread's end: nobody else would see it
            self.trouble = str(error) if isinstance(error, Malformed) else f"{type(error).__name__}: {error}"
        finally:
            self.socket.close()
            self.send(b"", close_socket=True)  # the sender waits for something to send

    def _receive(self) -> None:
        deadline_s = time.monotonic() + INTRODUCTION_S
        pending = bytearray()
        with _Stranger() as stranger:
            while self.state != DEAD_DISPATCHER:
                if self.state == MAIN_DISPATCHER:
                    stranger.is_known()
                elif time.monotonic() > deadline_s:
                    raise Malformed(f"did not introduce itself as a switch in {INTRODUCTION_S:.0f} s")
                try:
                    octets = self.socket.recv(_RECEIVE_NBYTES)
                except TimeoutError:
                    continue
                if not octets:
                    return
                pending += octets
                self._take_messages(pending)

    def _take_messages(self, pending: bytearray) -> None:
        """Take the whole messages at the front of `pending` away."""
        at = 0
        while len(pending) - at >= _HEADER.size and self.state != DEAD_DISPATCHER:
            version, kind, length, xid = _HEADER.unpack_from(pending, at)
            if length < _HEADER.size:
                raise Malformed(f"sent a message with an impossible length of {length} bytes")
            if self.state == HANDSHAKE_DISPATCHER and kind not in (ofp.OFPT_HELLO, ofp.OFPT_ERROR):
                raise Malformed(f"began with a message of type {kind}, not with HELLO")
            if len(pending) - at < length:
                break
            self._take(version, kind, length, xid, bytes(pending[at : at + length]))
            at += length
        del pending[:at]

    def _take(self, version: int, kind: int, length: int, xid: int, octets: bytes) -> None:
        message = ofproto_parser.msg(self, version, kind, length, xid, octets)
        if message is None:
            raise Malformed(f"sent a message of type {kind} that cannot be read")
        event = ofp_event.ofp_msg_to_ev(message)
        self.ofp_brick.send_event_to_observers(event, self.state)
        for handler in self.ofp_brick.get_handlers(event):
            if self.state in handler.callers[event.__class__].dispatchers:
                handler(event)
        if self.trouble:
            raise Malformed(self.trouble)


class _Stranger:
    """Counts connections that are not switches yet, while it is open or until it is known."""

    n = 0
    lock = threading.Lock()

    def __init__(self) -> None:
        self._counts = False

    def __enter__(self) -> Self:
        with self.lock:
            if _Stranger.n >= MAX_STRANGERS:
                raise Malformed(
                    f"is one of more than {MAX_STRANGERS} open connections that have not introduced "
                    f"themselves as switches"
                )
            _Stranger.n += 1
            self._counts = True
        return self

    def is_known(self) -> None:
        with self.lock:
            _Stranger.n -= self._counts
            self._counts = False

    def __exit__(self, *_: object) -> None:
        self.is_known()


class Complaints(logging.Handler):
    """Keeps what is logged as errors: those about a connection end that, the others are in `lines`.

    Of the library's a line says which logger it is, of ours the message.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        raised = record.exc_info[1] if record.exc_info else None
        reason = f"{type(raised).__name__}: {raised}" if raised else record.getMessage().splitlines()[-1]
        connection = getattr(_serving, "connection", None)
        if connection is None:
            what = record.getMessage() if record.name == _ours.name else record.name
            self.lines.append(f"{what}: {reason}")
        else:
            connection.trouble = connection.trouble or reason


def use_connections() -> None:
    """Let the library's server make `SwitchConnection`s from now on."""
    controller_module.datapath_connection_factory = _serve
    controller_module.StreamServer = _Listener
    # What it logs about a message that it cannot read, `SwitchConnection` says in a line.
    logging.getLogger(f"{LIBRARY}.ofproto.ofproto_parser").disabled = True


class _Listener(controller_module.StreamServer):  # type: ignore[misc]
    """The library's listening socket, whose end is logged.

    os-ken 4.2.2's native threads end silently, whatever was raised in them, for example where no thread can
    be started or no file opened.
    """

    def serve_forever(self) -> None:
        """See the library's; an error is logged, so that `Controller.check` raises it."""
        try:
            super().serve_forever()
        except Exception:
            _ours.exception("cannot accept connections any more")
            raise


def _serve(accepted: socket.socket, address: object) -> None:
    """The whole life of a connection."""
    with closing(SwitchConnection(accepted, address)) as connection:
        try:
            connection.serve()
        except RuntimeError:  # its sender got no thread
            _ours.exception("cannot serve a switch that has connected")

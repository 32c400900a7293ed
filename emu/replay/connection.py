"""One TCP connection between two ranks, in gloo's framing, without ever blocking."""

import array
import fcntl
import socket
import termios
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from traces.framing.gloo import PREAMBLE_NBYTES, Preamble, decode_preamble

_SENDMSG_MOST = 8
TCP_INFO_NBYTES = 256


class PeerLost(Exception):
    """The other rank closed the connection, or spoke something else than gloo."""


class Connection:
    """Bytes in, headers and payloads out; a queue of bytes the other way.

    `framing_nbytes` counts what was queued beside payload, so that TCP's own count of bytes can be compared
    with the plan's.
    """

    def __init__(self, sock: socket.socket, peer: int) -> None:
        self.sock = sock
        self.peer = peer
        self.framing_nbytes = 0
        self._out: deque[tuple[memoryview, int | None]] = deque()
        self._head = bytearray(PREAMBLE_NBYTES)
        self._head_got = 0
        self._body: memoryview | None = None
        self._body_got = 0

    @property
    def wants_to_send(self) -> bool:
        return bool(self._out)

    def queue_framing(self, data: bytes) -> None:
        self.framing_nbytes += len(data)
        self._out.append((memoryview(data), None))

    def queue_payload(self, data: memoryview, send: int) -> None:
        """`flush` reports `send` when the last byte has been handed to the kernel."""
        self._out.append((data, send))

    def flush(self) -> list[int]:
        """Hand the kernel what it takes now; returns the sends that are wholly handed over."""
        handed: list[int] = []
        while self._out:
            some = (
                [view for view, _ in list(self._out)[:_SENDMSG_MOST]]
                if len(self._out) > 1
                else [self._out[0][0]]
            )
            try:
                taken = self.sock.sendmsg(some)
            except BlockingIOError:
                break
            except OSError as error:
                raise PeerLost(f"rank {self.peer}: {error.strerror}") from error
            while self._out and taken >= len(self._out[0][0]):
                view, send = self._out.popleft()
                taken -= len(view)
                if send is not None:
                    handed.append(send)
            if taken:
                view, send = self._out[0]
                self._out[0] = (view[taken:], send)
        return handed

    def read_header(self) -> Preamble | None:
        """The next preamble, or None when it has not come in yet."""
        count = self._receive(memoryview(self._head)[self._head_got :])
        self._head_got += count
        if self._head_got < PREAMBLE_NBYTES:
            return None
        self._head_got = 0
        preamble = decode_preamble(bytes(self._head))
        if preamble is None:
            raise PeerLost(f"rank {self.peer} sent no gloo preamble")
        return preamble

    def expect_body(self, into: memoryview) -> None:
        self._body, self._body_got = into, 0

    @property
    def in_body(self) -> bool:
        return self._body is not None

    def read_body(self) -> bool:
        """Read payload; True when it is complete."""
        assert self._body is not None
        self._body_got += self._receive(self._body[self._body_got :])
        if self._body_got < len(self._body):
            return False  # epoll is level-triggered: no need to ask until the kernel says "no more"
        self._body = None
        return True

    def _receive(self, into: memoryview) -> int:
        if not into:
            return 0
        try:
            count = self.sock.recv_into(into)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"rank {self.peer}: {error.strerror}") from error
        if not count:
            raise PeerLost(f"rank {self.peer} closed its connection")
        return count

    def unacknowledged_nbytes(self) -> int:
        """What the kernel still holds: not sent, or sent and not acknowledged (tcp(7), SIOCOUTQ)."""
        count = array.array("i", [0])
        fcntl.ioctl(self.sock, termios.TIOCOUTQ, count)
        return count[0]

    def tcp_info(self) -> dict[str, int]:
        """Counters of the kernel's `struct tcp_info` (linux/tcp.h), by their names there."""
        raw = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_NBYTES)
        return {
            name: int.from_bytes(raw[offset : offset + size], "little")
            for name, (offset, size) in _TCP_INFO_FIELDS.items()
            if len(raw) >= offset + size
        }


_TCP_INFO_FIELDS = {
    "total_retrans": (100, 4),
    "bytes_acked": (120, 8),
}


class Totals(NamedTuple):
    """By TCP's own count: payload that was acknowledged, framing taken off, and segments sent again."""

    payload_nbytes: int
    retransmits: int


def totals(connections: Iterable[Connection]) -> Totals:
    payload_nbytes = retransmits = 0
    for connection in connections:
        info = connection.tcp_info()
        payload_nbytes += info["bytes_acked"] - connection.framing_nbytes
        retransmits += info["total_retrans"]
    return Totals(payload_nbytes, retransmits)

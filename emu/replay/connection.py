"""A non-blocking TCP connection between two ranks, in gloo's framing."""

import array
import fcntl
import socket
import termios
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Preamble, decode_preamble

TCP_INFO_NBYTES = 256


class PeerLost(Exception):
    """The other rank closed the connection, or spoke something else than gloo."""


class RankConnection:
    """Bytes in, headers and payloads out; a queue of messages the other way.

    Each message is handed to TCP by a call of its own, as gloo does (`Pair::write` in gloo/transport/tcp):
    then a notice is a segment of its own unless TCP still holds what came before it, and TCP counts it and
    queues it as it did in the captured job.

    `framing_nbytes` counts what was queued beside payload, so that TCP's own count of bytes can be compared
    with the plan's.
    """

    def __init__(self, sock: socket.socket, peer: int) -> None:
        self.sock = sock
        self.peer = peer
        self.framing_nbytes = 0
        self._out: deque[tuple[list[memoryview], int | None]] = deque()  # messages, what is left of each
        self._head = bytearray(PREAMBLE_NBYTES)
        self._head_got = 0
        self._body: memoryview | None = None
        self._body_got = 0

    @property
    def wants_to_send(self) -> bool:
        return bool(self._out)

    def queue_notice(self, preamble: bytes) -> None:
        self.framing_nbytes += len(preamble)
        self._out.append(([memoryview(preamble)], None))

    def queue_data(self, preamble: bytes, payload: memoryview, send: int) -> None:
        """`flush` reports `send` when the last byte has been handed to the kernel."""
        self.framing_nbytes += len(preamble)
        self._out.append(([memoryview(preamble), payload], send))

    def flush(self) -> list[int]:
        """Hand the kernel what it takes now; returns the sends that are wholly handed over."""
        handed: list[int] = []
        while self._out:
            left, send = self._out[0]
            try:
                taken = self.sock.sendmsg(left)
            except BlockingIOError:
                break
            except OSError as error:
                raise PeerLost(f"rank {self.peer}: {error.strerror}") from error
            while left and taken >= len(left[0]):
                taken -= len(left.pop(0))
            if left:
                left[0] = left[0][taken:]
                continue
            self._out.popleft()
            if send is not None:
                handed.append(send)
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
            raise PeerLost(f"rank {self.peer} sent bytes that are not a gloo preamble")
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


def totals(connections: Iterable[RankConnection]) -> Totals:
    payload_nbytes = retransmits = 0
    for connection in connections:
        info = connection.tcp_info()
        payload_nbytes += info["bytes_acked"] - connection.framing_nbytes
        retransmits += info["total_retrans"]
    return Totals(payload_nbytes, retransmits)

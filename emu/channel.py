"""The channel from a run to its live view: messages, each a JSON object with its `kind`, in datagrams.

Several processes put messages in, the run's own among them.  None ever waits long for the one that takes them
out: what that is too slow for is lost, and the next message says how things are by then.
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

DATAGRAM_NBYTES = 1 << 16
WAIT_S = 1.0  # for a reader that is busy
_ABOVE = b"{}"  # in place of a message that is in a file beside it


class Channel:
    """The end at which messages are put in."""

    def __init__(self, end: socket.socket, wait_s: float = WAIT_S) -> None:
        self._end = end
        self._end.settimeout(wait_s)

    @classmethod
    def inherited(cls, fd: int) -> "Channel":
        """Of a process that was started with the descriptor; it never waits."""
        return cls(socket.socket(fileno=fd), wait_s=0)

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, kind: str, **values: Any) -> bool:
        """Whether it was taken: not if nobody reads any more, or too slowly."""
        octets = json.dumps({"kind": kind, **values}, separators=(",", ":")).encode()
        with suppress(OSError):
            if len(octets) <= DATAGRAM_NBYTES:
                self._end.send(octets)
            else:
                _send_in_memory(self._end, octets)
            return True
        return False

    def close(self) -> None:
        self._end.close()


def channel() -> tuple[Channel, socket.socket]:
    """A new one: where messages are put in, and where `receive` takes them out."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours), theirs


def receive(end: socket.socket) -> Mapping[str, Any] | None:
    """The next message; None when all who could send one are gone.  Raise BlockingIOError as `recv` does."""
    octets, fds, _, _ = socket.recv_fds(end, DATAGRAM_NBYTES, 1)
    if not octets:
        return None
    for fd in fds:
        octets = os.pread(fd, os.fstat(fd).st_size, 0)
        os.close(fd)
    message: Mapping[str, Any] = json.loads(octets)
    return message


def _send_in_memory(end: socket.socket, octets: bytes) -> None:
    """No datagram holds a large drawing; a file in memory does, and its descriptor goes along."""
    fd = os.memfd_create("message")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(octets)
        socket.send_fds(end, [_ABOVE], [fd])
    finally:
        os.close(fd)

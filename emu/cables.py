"""Cables that fail by plan: their ports go down and up at their times, and all are up again at the end.

By rtnetlink, in the network namespace of the process: no command to start, so the time is right within a
millisecond where the machine is not busy.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from emu.fabric import interface
from emu.failures import Change

_RTM_NEWLINK = 16
_REQUEST_AND_ACK = 1 | 4  # NLM_F_REQUEST, NLM_F_ACK
_IFF_UP = 1
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, which of them to change
_ERROR = struct.Struct("=i")
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Done:
    """A change that took place; times are CLOCK_MONOTONIC, `done_ns` when the kernel had carried it out."""

    change: Change
    due_ns: int
    done_ns: int


class Cables:
    """Changes ports of this namespace in a thread of its own, from `begin` to `end`, repeat by repeat."""

    def __init__(self, changes: Sequence[Change], netlink: socket.socket) -> None:
        self._changes = changes
        self._netlink = netlink
        self._index = {
            change.port: socket.if_nametoindex(interface(change.port.node, change.port.port))
            for change in changes
        }
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._done: list[Done] = []
        self._error: OSError | None = None

    def begin(self, start_ns: int) -> None:
        """Carry the changes out at their times after `start_ns` (CLOCK_MONOTONIC)."""
        self._over.clear()
        self._done, self._error = [], None
        self._thread = threading.Thread(target=self._carry_out, args=(start_ns,), daemon=True)
        self._thread.start()

    def end(self) -> list[Done]:
        """What took place since `begin`; everything is up when this returns.  Raise OSError."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
        for port in self._index:
            self._set(port_index=self._index[port], is_up=True)
        if self._error is not None:
            raise self._error
        return self._done

    def _carry_out(self, start_ns: int) -> None:
        for change in self._changes:
            due_ns = start_ns + change.due_ns
            if self._over.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
                return
            try:
                self._set(self._index[change.port], change.is_up)
            except OSError as error:
                self._error = error
                return
            self._done.append(Done(change, due_ns, time.monotonic_ns()))

    def _set(self, port_index: int, is_up: bool) -> None:
        link = _LINK.pack(socket.AF_UNSPEC, 0, port_index, _IFF_UP if is_up else 0, _IFF_UP)
        length = _HEADER.size + len(link)
        self._netlink.send(_HEADER.pack(length, _RTM_NEWLINK, _REQUEST_AND_ACK, 0, 0) + link)
        answer = self._netlink.recv(4096)
        (code,) = _ERROR.unpack_from(answer, _HEADER.size)
        if code:
            raise OSError(-code, f"cable at interface {port_index}: {os.strerror(-code)}")


@contextmanager
def failing(changes: Sequence[Change]) -> Iterator[Cables]:
    """The ports must exist; they are up when this ends.  Raise OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.settimeout(_ANSWER_S)
        netlink.bind((0, 0))
        cables = Cables(changes, netlink)
        try:
            yield cables
        finally:
            cables.end()

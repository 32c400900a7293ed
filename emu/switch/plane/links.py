"""Whether cables are up: rtnetlink reports each change at once, without polling.

Edge module: one socket that hears of every change of every interface of this network namespace.
"""

import socket
from collections.abc import Iterator

from gradwire.emu.kernel.rtnetlink import (
    IFF_RUNNING,
    IFF_UP,
    IFINFOMSG,
    NLM_F_REQUEST,
    RTM_NEWLINK,
    attributes,
    encoded,
    messages,
)
from gradwire.emu.switch.plane.counters import InterfaceState

_RTM_DELLINK, _RTM_GETLINK = 17, 18
_RTMGRP_LINK = 1
_NLM_F_DUMP = 0x300
_IFLA_ADDRESS = 1
_BUFFER_NBYTES = 4 << 20
_DATAGRAM_NBYTES = 1 << 16
_MAC_NBYTES = 6
GONE = InterfaceState(bytes(_MAC_NBYTES), is_up=False, is_enabled=False)


class LinkWatch:
    """The state of interfaces by index, as the kernel reports it."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_NBYTES)
        self.socket.bind((0, _RTMGRP_LINK))
        self.socket.settimeout(0)
        self._ask()

    def changes(self) -> Iterator[tuple[int, InterfaceState]]:
        """(index, state) of each interface that the kernel has reported since; one may come several times."""
        while True:
            try:
                datagram = self.socket.recv(_DATAGRAM_NBYTES)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS: more happened than the buffer holds, so ask how all of them are
                self._ask()
                continue
            for kind, _, body in messages(datagram):
                if kind in (RTM_NEWLINK, _RTM_DELLINK) and len(body) >= IFINFOMSG.size:
                    yield _state(kind, body)

    def _ask(self) -> None:
        request = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        self.socket.send(encoded(_RTM_GETLINK, NLM_F_REQUEST | _NLM_F_DUMP, 0, request))


def _state(kind: int, body: bytes) -> tuple[int, InterfaceState]:
    _, _, index, flags, _ = IFINFOMSG.unpack_from(body)
    if kind == _RTM_DELLINK:
        return index, GONE
    mac = attributes(body[IFINFOMSG.size :]).get(_IFLA_ADDRESS, b"")[:_MAC_NBYTES].ljust(_MAC_NBYTES, b"\0")
    return index, InterfaceState(mac, bool(flags & IFF_UP and flags & IFF_RUNNING), bool(flags & IFF_UP))

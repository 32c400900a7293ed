"""One switch's connection to one controller: a socket, and the session that it carries.

It is opened by the switch, or accepted from a person's `ovs-ofctl` (management.py).
"""

import errno
import selectors
import socket
import sys
from collections.abc import Callable, Iterator

from gradwire.emu.switch.server.session import Result, Session
from gradwire.emu.switch.table.planeoperations import Operation
from gradwire.emu.switch.wire.encode import hello
from gradwire.planning.openflow.entries import Event, FlowGone, PacketIn, PortChanged

# What is read is obeyed before anybody else's turn, so that no other session meets half a change:
# about 300 rules, a few milliseconds.
_RECEIVE_NBYTES = 1 << 15
_MAX_UNSENT_NBYTES = 1 << 20  # of answers, and of packets for the controller
_HOPELESS_NBYTES = 1 << 24  # a controller with more than this unread is disconnected

Address = tuple[str, int]


class ControllerConnection:
    """Not blocking; `wants` and `serve` are for a selector."""

    def __init__(
        self,
        address: Address,
        session: Session,
        apply: Callable[[Operation], None],
        announce: Callable[[Event], None],
        start_s: float,
        accepted: socket.socket | None = None,
    ) -> None:
        """`accepted` is there already, else the socket is made here, for `start`."""
        self.address = address
        self.session = session
        self.start_s = start_s
        self.is_open = accepted is not None
        self._apply = apply
        self._announce = announce
        self._unsent = bytearray(hello())
        self._work: Iterator[Result] = iter(())  # what came and is not carried out yet
        self._has_work = False
        self._is_behind = False
        self.socket = accepted or _socket_for(address)

    def start(self) -> bool:
        """Begin to connect.  False if it is known at once that nobody listens there."""
        try:
            return self.socket.connect_ex(self.address) in (0, errno.EINPROGRESS)
        except OSError:  # no such host
            return False

    def close(self) -> None:
        self.session.end()
        self.socket.close()

    def wants(self) -> int:
        """The selector events that this connection waits for."""
        if not self.is_open:
            return selectors.EVENT_WRITE
        reads = 0 if self._has_work else selectors.EVENT_READ
        # There may be work and nothing unsent, if the kernel took all answers at once: it goes on then.
        return reads | (selectors.EVENT_WRITE if self._unsent or self._has_work else 0)

    def serve(self, events: int) -> bool:
        """Read, obey, answer.  False when the connection has ended."""
        try:
            if not self.is_open:
                if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    return False
                self.is_open = True
            if events & selectors.EVENT_READ:
                octets = self.socket.recv(_RECEIVE_NBYTES)
                if not octets:
                    return False
                self._work, self._has_work = self.session.receive(octets), True
            self._obey()
            if self._unsent:
                del self._unsent[: self.socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return bool(self._unsent) or self._has_work or not self.session.is_over

    def hear(self, event: Event) -> bool:
        """Queue the event for the controller.  False if it reads so little that it is to be disconnected."""
        if isinstance(event, PacketIn) and len(self._unsent) > _MAX_UNSENT_NBYTES:
            self._say_behind()  # the packet would only arrive later at one that is too slow already
            return True
        self._unsent += self.session.tell(event)
        return len(self._unsent) < _HOPELESS_NBYTES

    def _say_behind(self) -> None:
        if not self._is_behind:
            self._is_behind = True
            host, port = self.address
            print(
                f"switch agent: {host}:{port} reads too slowly: packets for it are dropped", file=sys.stderr
            )

    def _obey(self) -> None:
        """Carry out what came, as long as the answers are taken: questions are small, answers are not."""
        while self._has_work and len(self._unsent) < _MAX_UNSENT_NBYTES:
            result = next(self._work, None)
            if result is None:
                self._has_work = False
            elif isinstance(result, bytes):
                self._unsent += result
            elif isinstance(result, (FlowGone, PacketIn, PortChanged)):
                self._announce(result)
            else:
                self._apply(result)


def _socket_for(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made

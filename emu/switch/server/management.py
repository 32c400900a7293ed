"""The Unix sockets by which people reach the switches; `emu.switch.ofctl` is the other end.

That of a switch speaks OpenFlow, and is where Open vSwitch has the same: `ovs-ofctl` finds it.
"""

import selectors
import socket
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gradwire.emu.switch.ofctl import AGENT, DONE, management_socket
from gradwire.emu.switch.server.connection import ControllerConnection

_BACKLOG = 8
_LINE_NBYTES = 4096


class Management:
    """The sockets in `folder`, which must exist; they are served by who selects on `selector`."""

    def __init__(self, folder: Path, selector: selectors.BaseSelector) -> None:
        self._folder = folder
        self._selector = selector
        self._listeners: dict[str, socket.socket] = {}
        self._visitors: defaultdict[str, set[ControllerConnection]] = defaultdict(set)

    def open(self, name: str, connection: Callable[[socket.socket], ControllerConnection]) -> None:
        """Let people speak OpenFlow with switch `name`; `connection` makes theirs.  Raise OSError."""
        path = management_socket(self._folder, name)
        self._listen(name, path, lambda visitor: self._visit(name, connection(visitor)))

    def open_agent(self, obey: Callable[[str], None]) -> None:
        """Carry out lines; `obey` raises ValueError for what it cannot do.  Raise OSError."""
        self._listen(AGENT, self._folder / AGENT, partial(self._converse, obey))

    def close(self, name: str) -> None:
        """Nobody reaches switch `name`, or with AGENT the agent, until it is opened again."""
        listener = self._listeners.pop(name)
        self._selector.unregister(listener)
        Path(listener.getsockname()).unlink(missing_ok=True)
        listener.close()
        for visitor in list(self._visitors[name]):
            self._leave(name, visitor)

    def _listen(self, name: str, path: Path, welcome: Callable[[socket.socket], None]) -> None:
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        listener.settimeout(0)
        self._listeners[name] = listener
        self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener, welcome))

    def _accept(
        self, listener: socket.socket, welcome: Callable[[socket.socket], None], _events: int
    ) -> None:
        with suppress(OSError):  # it has gone already, or was closed a moment ago
            visitor, _ = listener.accept()
            visitor.settimeout(0)
            welcome(visitor)

    def _visit(self, name: str, visitor: ControllerConnection) -> None:
        self._visitors[name].add(visitor)
        self._selector.register(visitor.socket, visitor.wants(), partial(self._serve, name, visitor))

    def _serve(self, name: str, visitor: ControllerConnection, events: int) -> None:
        if visitor not in self._visitors[name]:
            return  # ended by what another did a moment ago
        if not visitor.serve(events):
            self._leave(name, visitor)
            return
        key = self._selector.get_key(visitor.socket)
        self._selector.modify(visitor.socket, visitor.wants(), key.data)

    def _leave(self, name: str, visitor: ControllerConnection) -> None:
        self._visitors[name].discard(visitor)
        self._selector.unregister(visitor.socket)
        visitor.close()

    def _converse(self, obey: Callable[[str], None], visitor: socket.socket) -> None:
        def serve(_events: int) -> None:
            with suppress(OSError):
                line = visitor.recv(_LINE_NBYTES).decode(errors="replace").strip()
                try:
                    obey(line)
                    answer = DONE
                except ValueError as error:
                    answer = str(error)
                visitor.send(answer.encode())
            self._selector.unregister(visitor)
            visitor.close()

        self._selector.register(visitor, selectors.EVENT_READ, serve)

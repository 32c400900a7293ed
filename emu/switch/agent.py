"""The switch agent: one process that is all OpenFlow switches of a fabric.

It attaches the data plane to their ports (`attached` on stdout), connects every switch to the
controller (`connected`), and then carries out what the controller says.  When the controller goes
away the rules stay in force, OpenFlow's fail-secure mode, and the agent tries to reach it again.
"""

import argparse
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from emu.switch import ports
from emu.switch.dataplane import DataPlane, attached
from emu.switch.entries import Operation
from emu.switch.maps import MAX_FLOWS, MAX_GROUPS
from emu.switch.ports import SwitchPorts
from emu.switch.table import FlowNumbers, FlowTable, Room

PATIENCE_S = 10.0  # how long the controller may be away
_RETRY_S = 0.05
_CONNECT_S = 1.0
_RECEIVE_NBYTES = 1 << 18
_MAX_UNSENT_NBYTES = 1 << 20


class NoController(OSError):
    """The controller could not be reached, or not again, in time."""


class Connection:
    """One switch's socket."""

    def __init__(self, switch: SwitchPorts, table: FlowTable, plane: DataPlane) -> None:
        # os-ken takes 0.2 s to import: here, that passes when the ports are attached already.
        from emu.switch.encode import hello
        from emu.switch.session import Session

        self.dpid = switch.dpid
        self.session = Session(switch, table, plane)
        self._plane = plane
        self._unsent = bytearray(hello())
        self._work: Iterator[bytes | Operation] = iter(())  # what came and is not carried out yet
        self._has_work = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def open(self, address: tuple[str, int]) -> bool:
        """False if nobody listens there."""
        self.socket.settimeout(_CONNECT_S)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            return False
        self.socket.settimeout(0)
        return True

    def wants(self) -> int:
        """The selector events that this connection waits for."""
        reads = 0 if self._has_work else selectors.EVENT_READ
        return reads | (selectors.EVENT_WRITE if self._unsent else 0)

    def serve(self, events: int) -> bool:
        """Read, obey, answer.  False when the connection has ended."""
        try:
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
        except ConnectionError:
            return False
        return bool(self._unsent) or self._has_work or not self.session.is_over

    def _obey(self) -> None:
        """Carry out what came, as long as the answers are taken: questions are small, answers are not."""
        while self._has_work and len(self._unsent) < _MAX_UNSENT_NBYTES:
            result = next(self._work, None)
            if result is None:
                self._has_work = False
            elif isinstance(result, bytes):
                self._unsent += result
            else:
                self._plane.apply(self.dpid, result)


class Agent:
    """All switches and their connections."""

    def __init__(
        self,
        switches: Iterable[SwitchPorts],
        plane: DataPlane,
        controller: tuple[str, int],
        patience_s: float,
    ) -> None:
        numbers, group_room = FlowNumbers(MAX_FLOWS), Room(MAX_GROUPS)
        self._tables = {switch.dpid: FlowTable(numbers, group_room) for switch in switches}
        self._plane = plane
        self._controller = controller
        self._selector = selectors.DefaultSelector()
        self._unconnected = {switch.dpid: switch for switch in switches}
        self._switches = dict(self._unconnected)
        self._patience_s = patience_s
        self._deadline_s = time.monotonic() + patience_s
        self._next_try_s = 0.0

    def run(self) -> None:
        """Serve for ever; raise NoController."""
        is_told = False
        while True:
            waiting = self._waiting()
            if waiting:
                self._connect(waiting)
            elif not is_told:
                is_told = True
                print("connected", flush=True)
            for key, events in self._selector.select(_RETRY_S if waiting else None):
                self._serve(key.data, events)

    def _waiting(self) -> list[str]:
        """The switches that no controller has asked for their features."""
        connections = (key.data for key in self._selector.get_map().values())
        strangers = [each.dpid for each in connections if not each.session.is_introduced]
        return [self._switches[dpid].name for dpid in (*self._unconnected, *strangers)]

    def _connect(self, waiting: list[str]) -> None:
        now_s = time.monotonic()
        if now_s > self._deadline_s:
            host, port = self._controller
            more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
            raise NoController(
                f"no OpenFlow 1.3 controller at {host}:{port} for {self._patience_s:g} s; "
                f"{', '.join(waiting[:3])}{more} without one"
            )
        if now_s < self._next_try_s:
            return
        self._next_try_s = now_s + _RETRY_S
        for dpid, switch in list(self._unconnected.items()):
            connection = Connection(switch, self._tables[dpid], self._plane)
            if not connection.open(self._controller):
                break
            self._selector.register(connection.socket, connection.wants(), connection)
            del self._unconnected[dpid]

    def _serve(self, connection: Connection, events: int) -> None:
        if connection.serve(events):
            self._selector.modify(connection.socket, connection.wants(), connection)
            return
        if not self._waiting():  # this is the first to lose its controller
            self._deadline_s = time.monotonic() + self._patience_s
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._unconnected[connection.dpid] = self._switches[connection.dpid]


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT, such as 127.0.0.1:6653")
    return host, int(port)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m emu.switch.agent", description=__doc__)
    parser.add_argument("ports", type=Path, help="JSON file that names the switches and their ports")
    parser.add_argument("--controller", type=address, default=("127.0.0.1", 6653), metavar="HOST:PORT")
    parser.add_argument("--object", type=Path, required=True, help="the compiled switch.o")
    parser.add_argument("--pin", type=Path, default=Path("/sys/fs/bpf/gradwire_switch"))
    parser.add_argument("--seed", type=int, default=0, help="of the hash of select groups")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        switches = ports.load(arguments.ports)
        with attached(switches, arguments.object, arguments.pin, arguments.seed) as plane:
            print("attached", flush=True)
            Agent(switches, plane, arguments.controller, arguments.patience).run()
    except (OSError, ValueError) as error:
        print(f"switch agent: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The state of a switch that outlives its connections: flow table, roles, timeouts, and who is connected."""

from collections.abc import Callable, Iterator

from gradwire.emu.switch.ports import SwitchPorts
from gradwire.emu.switch.server.connection import Address, ControllerConnection
from gradwire.emu.switch.server.roles import Roles
from gradwire.emu.switch.table.planeoperations import Operation
from gradwire.emu.switch.table.table import FlowTable, Selection
from gradwire.planning.openflow.entries import Entry, FlowGone, Gone

SECOND_NS = 10**9


class SwitchState:
    """The agent's state of one switch."""

    def __init__(self, switch: SwitchPorts, table: FlowTable, start_ns: int) -> None:
        self.ports = switch
        self.table = table
        self.roles = Roles()
        self.connections: dict[Address, ControllerConnection] = {}
        self.start_ns = start_ns
        self.is_stopped = False
        self.ports_to_start: list[int] = []  # those that were enabled when it was stopped
        self._timeouts = Timeouts()

    def is_led(self) -> bool:
        """A controller has asked for the switch's features."""
        return any(connection.session.is_introduced for connection in self.connections.values())

    def forget(self) -> Iterator[Operation | FlowGone]:
        """Lose all rules, groups and roles, as a switch without power does."""
        yield from self.table.delete(Selection())
        for number in sorted(self.table.groups):
            yield from self.table.delete_group(number)
        self.roles = Roles()

    def expire(self, packets_of: Callable[[int], int], now_ns: int) -> Iterator[Operation | FlowGone]:
        """Take out the flow entries whose time is over."""
        for entry, reason in list(self._timeouts.expired(self.table, packets_of, now_ns)):
            yield from self.table.remove([entry], reason)


class Timeouts:
    """Watches the entries of a table that have a timeout: `expired` is to be asked several times a second."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Entry, int, int]] = {}  # by flow: entry, packets, when they last changed

    def expired(
        self, table: FlowTable, packets_of: Callable[[int], int], now_ns: int
    ) -> Iterator[tuple[Entry, Gone]]:
        """The entries whose time is over; the caller takes them out of the table."""
        seen: dict[int, tuple[Entry, int, int]] = {}
        for flow, entry in list(table.mortals.items()):
            packets = packets_of(flow)
            before = self._seen.get(flow)
            is_same = before is not None and before[0].since_ns == entry.since_ns
            if before is None or not is_same:
                used_ns = entry.since_ns if packets == 0 else now_ns
            else:
                used_ns = before[2] if before[1] == packets else now_ns
            if entry.hard_s and now_ns - entry.since_ns >= entry.hard_s * SECOND_NS:
                yield entry, Gone.HARD
            elif entry.idle_s and now_ns - used_ns >= entry.idle_s * SECOND_NS:
                yield entry, Gone.IDLE
            else:
                seen[flow] = entry, packets, used_ns
        self._seen = seen

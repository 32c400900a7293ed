"""What of one switch outlives its connections: flow table, roles, timeouts, and who is connected."""

from collections.abc import Callable, Iterator

from emu.switch.ports import SwitchPorts
from emu.switch.server.connection import Address, Connection
from emu.switch.server.roles import Roles
from emu.switch.table.operations import Operation
from emu.switch.table.table import FlowTable
from emu.switch.table.timeouts import Timeouts
from planning.openflow.entries import FlowGone


class Switch:
    """The agent's state of one switch."""

    def __init__(self, switch: SwitchPorts, table: FlowTable) -> None:
        self.ports = switch
        self.table = table
        self.roles = Roles()
        self.connections: dict[Address, Connection] = {}
        self._timeouts = Timeouts()

    def is_led(self) -> bool:
        """A controller has asked for the switch's features."""
        return any(connection.session.is_introduced for connection in self.connections.values())

    def expire(self, packets_of: Callable[[int], int], now_ns: int) -> Iterator[Operation | FlowGone]:
        """Take out the flow entries whose time is over."""
        for entry, reason in list(self._timeouts.expired(self.table, packets_of, now_ns)):
            yield from self.table.remove([entry], reason)

"""What the shaped queues of all ports, hosts' ports too, have sent and dropped.

It takes microseconds a port, and no process.
"""

import socket
from collections.abc import Iterable, Mapping

from gradwire.emu.network.namespaces import inside
from gradwire.emu.network.rtnetlink import netlink_socket
from gradwire.emu.switch.plane.counters import Transmitted
from gradwire.emu.switch.plane.qdisc import parse_queues, read_queues


class Queues:
    """The ports in this network namespace, and in those of the processes `pids`."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._namespaces = [_ports()]
        for pid in pids:
            with inside(pid):
                self._namespaces.append(_ports())

    def counted(self) -> dict[str, Transmitted]:
        """By interface, since it was shaped; what is not shaped is left out."""
        return {
            names[ifindex]: counted
            for netlink, names in self._namespaces
            for ifindex, counted in parse_queues(read_queues(netlink))
            if ifindex in names
        }

    def dropped(self) -> dict[str, int]:
        """Packets by interface, likewise."""
        return {name: sent.dropped for name, sent in self.counted().items()}


def _ports() -> tuple[socket.socket, Mapping[int, str]]:
    return netlink_socket(), dict(socket.if_nameindex())

"""A controller's packets: out through ports, through a group, or through the switch's own table.

Edge module: one packet socket, whose frames pass the port's queueing discipline like all others, and
runs of the data plane's second program.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress

from emu.switch.plane.bpf import BpfError, BpfObject
from emu.switch.plane.maps import PACKET_OUT_PROGRAM
from emu.switch.table.operations import SendPacket
from planning.openflow.entries import Output, Reserved, ToGroup

_NO_INTERFACE = 1  # the loopback, which is never a port
# A port's queue is what shall be full first, not the socket, which all ports share.
_SO_SNDBUFFORCE, _SEND_NBYTES = 32, 64 << 20
_FLOODS = (Reserved.ALL, Reserved.FLOOD)


class Sender:
    def __init__(self, loaded: BpfObject) -> None:
        self._loaded = loaded
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)  # protocol 0: it receives nothing
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_NBYTES)
        self._socket.settimeout(0)  # a slow port would hold up all switches

    def send(
        self,
        order: SendPacket,
        interfaces: Mapping[int, str],
        ifindex: Mapping[int, int],
        words: tuple[int, int],
    ) -> None:
        """Carry out one action; `interfaces` and `ifindex` are by port, `words` (switch's index, its salt).

        A frame that the interface or its queue does not take (too long, down, full) is dropped, as on a
        wire; to the table or a group the kernel takes no more than some 3,500 bytes.
        """
        action = order.action
        if isinstance(action, ToGroup):
            self._run(order, ifindex, words, Reserved.ALL, action.group)
        elif action.port == Reserved.TABLE:
            self._run(order, ifindex, words, Reserved.TABLE, 0)
        else:
            for port in _ports(order, action, interfaces):
                with suppress(OSError):
                    self._socket.sendto(order.frame, (interfaces[port], 0))

    def _run(
        self, order: SendPacket, ifindex: Mapping[int, int], words: tuple[int, int], place: int, group: int
    ) -> None:
        switch_index, salt = words
        context = switch_index, order.in_port, salt, place, group
        with suppress(BpfError):
            interface = ifindex.get(order.in_port, _NO_INTERFACE)
            self._loaded.run_program(PACKET_OUT_PROGRAM, order.frame, interface, context)


def _ports(order: SendPacket, action: Output, interfaces: Mapping[int, str]) -> list[int]:
    """The ports of an output; never that where the packet came in, unless by name."""
    if action.port in _FLOODS:
        return [port for port in interfaces if port != order.in_port]
    port = order.in_port if action.port == Reserved.IN_PORT else action.port
    if port not in interfaces or (port == order.in_port and action.port != Reserved.IN_PORT):
        return []
    return [port]

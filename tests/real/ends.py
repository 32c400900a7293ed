"""The far ends of a switch's cables: they send and receive whole frames, and know when all is through.

Nothing is waited for by the clock: markers follow the packets, and what has come by the time that the
markers have come is all there is.
"""

import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from os_ken.ofproto import ofproto_v1_3 as ofp

from tests.made_frames import Frame
from tests.made_rules import PORTS, FlowChange, Output
from tests.real.timely import PATIENCE_S

MARKER_COOKIE = 0x6D61726B
_MARKER_PRIORITY = 0xFFFF
_SOL_PACKET, _PACKET_IGNORE_OUTGOING, _PACKET_AUXDATA, _SO_RCVBUFFORCE, _ETH_P_ALL = 263, 23, 8, 33, 3
_AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata of linux/if_packet.h
_VLAN_VALID = 0x10
_RECEIVE_NBYTES = 16 << 20
_LOOK_S = 1.0  # looks at the clock that often


def _marker_address(port: int) -> str:
    return f"10.255.255.{port}"


def _marker(round_number: int, in_port: int, out_port: int) -> bytes:
    """A packet of its own address, whose identification tells where it came in, and when."""
    head = struct.pack("!6s6sH", b"\x02" * 6, b"\x02\0\0\0\0\1", 0x0800)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, round_number << 8 | in_port, 0, 64, 253, 0,
                     socket.inet_aton("10.255.0.1"), socket.inet_aton(_marker_address(out_port)))  # fmt: skip
    return head + ip + bytes(20)


MARKER_RULES: tuple[FlowChange, ...] = tuple(
    FlowChange(
        ofp.OFPFC_ADD,
        (("eth_type", 0x0800), ("ipv4_dst", _marker_address(port))),
        _MARKER_PRIORITY,
        (Output(port),),
        cookie=MARKER_COOKIE,
    )
    for port in PORTS
)


class Ends:
    """The far ends of one switch's cables."""

    def __init__(self, switch: str) -> None:
        self._switch = switch
        self._sockets = {}
        self._round = 0
        for port in PORTS:
            link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            link.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            link.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            link.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_NBYTES)
            link.bind((f"{switch}{port}", _ETH_P_ALL))
            link.setblocking(False)
            self._sockets[port] = link

    def send(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._sockets[frame.in_port].send(frame.octets)

    def received(self, live: Sequence[int]) -> dict[int, Counter[bytes]]:
        """All frames that came out of each port, once the switch has worked off what it was sent.

        Two rounds of markers: Open vSwitch takes packets up to 32 at a time and forwards those of a
        flow that it knows first, so a marker may overtake what came before it, but not what came
        before a marker that is through.
        """
        came: dict[int, Counter[bytes]] = {port: Counter() for port in PORTS}
        for _ in range(2):
            self._round = self._round % 255 + 1
            expected = {
                (out_port, _marker(self._round, in_port, out_port)[14:34])
                for in_port in live
                for out_port in live
                if in_port != out_port
            }
            for in_port in live:
                for out_port in live:
                    if in_port != out_port:
                        self._sockets[in_port].send(_marker(self._round, in_port, out_port))
            deadline_s = time.monotonic() + PATIENCE_S
            while expected:
                select.select(list(self._sockets.values()), [], [], _LOOK_S)
                for port, octets in self._drained():
                    if (port, octets[14:34]) in expected:
                        expected.discard((port, octets[14:34]))
                    else:
                        came[port][octets] += 1
                if time.monotonic() > deadline_s:
                    raise AssertionError(f"{self._switch} has lost {len(expected)} of its markers")
        return came

    def close(self) -> None:
        for link in self._sockets.values():
            link.close()

    def drop(self) -> None:
        for _ in self._drained():
            pass

    def _drained(self) -> Iterator[tuple[int, bytes]]:
        for port, link in self._sockets.items():
            while True:
                try:
                    octets = _with_vlan_tag(*link.recvmsg(1 << 16, 64)[:2])
                except BlockingIOError:
                    break
                except OSError:  # ENETDOWN: the cable was cut
                    continue
                yield port, octets


def _with_vlan_tag(octets: bytes, ancillary: Sequence[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the cable; the kernel hands its VLAN tag beside it."""
    for _, kind, data in ancillary:
        if kind == _PACKET_AUXDATA:
            status, _, _, _, _, tci, tpid = _AUXDATA.unpack(data)
            if status & _VLAN_VALID:
                return octets[:12] + struct.pack("!HH", tpid, tci) + octets[12:]
    return octets

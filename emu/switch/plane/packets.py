"""Carries packets from the data plane to controllers, and back.

The data plane hands a packet over in its ring, without the checksums that its sender left to a network card.
Between virtual interfaces no card ever fills them in: a packet travels with the sum of its pseudo header in
the field (Linux: CHECKSUM_PARTIAL), and the kernel knows.  A controller has the bytes alone.

A controller's packets go out through ports, through a group, or through the switch's own table: by one packet
socket, whose frames pass the port's queueing discipline like all others, and by runs of the data plane's
second program.
"""

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

from gradwire.emu.switch.plane.bpf import BpfError, BpfObject
from gradwire.emu.switch.plane.maps import PACKET_OUT_PROGRAM
from gradwire.emu.switch.table.planeoperations import SendPacket
from gradwire.planning.openflow.entries import Output, PacketIn, Reserved, ToGroup, Why

_PACKET_IN = struct.Struct("=IIQIIH2sI")  # struct packet_in of layout.h
_NO_VLAN = bytes(2)
_ADDRESSES_NBYTES = 12
_ETH_TYPES_OF_TAGS = (0x8100, 0x88A8)
_IPV4, _IPV6 = 0x0800, 0x86DD
_CHECKSUM_AT = {6: 16, 17: 6}  # in the headers of TCP and of UDP
_IPV4_HEADER = struct.Struct(
    "!BxHxxHxBxx8s"
)  # version and length, total length, fragment, protocol, addresses
_IPV6_HEADER = struct.Struct("!4xHBx32s")  # payload's length, next header, addresses
_FRAGMENT = 0x3FFF  # more fragments, and the offset
_NO_INTERFACE = 1  # the loopback, which is never a port
# A port's queue is what shall be full first, not the socket, which all ports share.
_SO_SNDBUFFORCE, _SEND_NBYTES = 32, 64 << 20
_FLOODS = (Reserved.ALL, Reserved.FLOOD)


def packet_in(record: bytes) -> tuple[int, PacketIn]:
    """The switch's index, and the packet as on a cable: its VLAN tag in the frame, its checksum right."""
    switch_index, in_port, cookie, nbytes, kept_nbytes, tci, vlan, reason = _PACKET_IN.unpack_from(record)
    frame = record[_PACKET_IN.size : _PACKET_IN.size + kept_nbytes]
    if vlan != _NO_VLAN:
        tag = vlan + tci.to_bytes(2, "big")
        frame = frame[:_ADDRESSES_NBYTES] + tag + frame[_ADDRESSES_NBYTES:]
        nbytes += len(tag)
    return switch_index, PacketIn(in_port, Why(reason), cookie, nbytes, completed(frame))


def completed(frame: bytes) -> bytes:
    """The frame with its TCP or UDP checksum, if it has but the sum of the pseudo header (RFC 1071)."""
    segment = _segment(frame)
    if segment is None:
        return frame
    proto, addresses, start, end = segment
    at = start + _CHECKSUM_AT.get(proto, len(frame))
    if at + 2 > end or end > len(frame):
        return frame
    (field,) = struct.unpack_from("!H", frame, at)
    if field != _folded(_sum(addresses) + proto + end - start):
        return frame
    checksum = ~_folded(_sum(frame[start:end])) & 0xFFFF  # the field's sum of the pseudo header is in it
    if proto == 17:
        checksum = checksum or 0xFFFF  # RFC 768: 0 says that there is none
    return frame[:at] + checksum.to_bytes(2, "big") + frame[at + 2 :]


def _segment(frame: bytes) -> tuple[int, bytes, int, int] | None:
    """(protocol, both addresses, start, end) of what an IP packet carries; None of anything else."""
    at = 12
    while int.from_bytes(frame[at : at + 2], "big") in _ETH_TYPES_OF_TAGS:
        at += 4
    eth_type = int.from_bytes(frame[at : at + 2], "big")
    at += 2
    if eth_type == _IPV4 and len(frame) >= at + _IPV4_HEADER.size:
        version, nbytes, fragment, proto, addresses = _IPV4_HEADER.unpack_from(frame, at)
        is_whole = version >> 4 == 4 and not fragment & _FRAGMENT
        return (proto, addresses, at + (version & 0xF) * 4, at + nbytes) if is_whole else None
    if eth_type == _IPV6 and len(frame) >= at + _IPV6_HEADER.size:
        nbytes, proto, addresses = _IPV6_HEADER.unpack_from(frame, at)
        start = at + _IPV6_HEADER.size
        return proto, addresses, start, start + nbytes
    return None


def _sum(octets: bytes) -> int:
    padded = octets + bytes(len(octets) % 2)
    return sum(struct.unpack(f"!{len(padded) // 2}H", padded))


def _folded(total: int) -> int:
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


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

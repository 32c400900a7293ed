"""Packets for controllers, as the data plane hands them over in its ring.  Pure."""

import struct

from emu.switch.plane.checksum import completed
from planning.openflow.entries import PacketIn, Why

_PACKET_IN = struct.Struct("=IIQIIH2sI")  # struct packet_in of layout.h
_NO_VLAN = bytes(2)
_ADDRESSES_NBYTES = 12


def packet_in(record: bytes) -> tuple[int, PacketIn]:
    """The switch's index, and the packet as on a cable: its VLAN tag in the frame, its checksum right."""
    switch_index, in_port, cookie, nbytes, kept_nbytes, tci, vlan, reason = _PACKET_IN.unpack_from(record)
    frame = record[_PACKET_IN.size : _PACKET_IN.size + kept_nbytes]
    if vlan != _NO_VLAN:
        tag = vlan + tci.to_bytes(2, "big")
        frame = frame[:_ADDRESSES_NBYTES] + tag + frame[_ADDRESSES_NBYTES:]
        nbytes += len(tag)
    return switch_index, PacketIn(in_port, Why(reason), cookie, nbytes, completed(frame))

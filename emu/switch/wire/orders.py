"""PACKET_OUT, PORT_MOD and TABLE_MOD: checked against what the switch can do, then turned into operations."""

import struct
from collections.abc import Iterator, Mapping

from emu.switch.plane.counters import Instruments
from emu.switch.ports import Port
from emu.switch.table.operations import EnablePort, SendPacket
from emu.switch.table.table import FlowTable
from emu.switch.wire import requests
from emu.switch.wire.changes import check_actions
from planning.openflow.entries import NO_COOKIE, Output, PacketIn, Reserved, Why
from planning.openflow.openflow13 import ProtocolError, bad_length, ofp

_TABLE_MOD = struct.Struct(ofp.OFP_TABLE_MOD_PACK_STR)
_NOWHERE = (ofp.OFPP_CONTROLLER, ofp.OFPP_ANY)  # in_port of a packet that came in through no port


def send_packet(table: FlowTable, ports: Mapping[int, Port], body: bytes) -> Iterator[SendPacket | PacketIn]:
    """PACKET_OUT: its actions in order, each on the frame as it came.  Raise ProtocolError."""
    asked = requests.packet_out(body)
    if asked.in_port not in ports and asked.in_port not in _NOWHERE:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT)
    check_actions(asked.actions, table, ports, tuple(Reserved))
    for action in asked.actions:
        if isinstance(action, Output) and action.port == Reserved.CONTROLLER:
            yield PacketIn(asked.in_port, Why.ACTION, NO_COOKIE, len(asked.frame), asked.frame)
        else:
            yield SendPacket(asked.in_port, action, asked.frame)


def change_port(ports: Mapping[int, Port], instruments: Instruments, body: bytes) -> EnablePort:
    """PORT_MOD: only up and down.  Raise ProtocolError."""
    asked = requests.port_mod(body)
    port = ports.get(asked.port)
    if port is None:
        raise _port_error(ofp.OFPPMFC_BAD_PORT)
    link = instruments.link(port.interface)
    if asked.mac != link.mac:
        raise _port_error(ofp.OFPPMFC_BAD_HW_ADDR)
    if asked.mask & ~ofp.OFPPC_PORT_DOWN:
        raise _port_error(ofp.OFPPMFC_BAD_CONFIG)
    if asked.advertise:
        raise _port_error(ofp.OFPPMFC_BAD_ADVERTISE)
    return EnablePort(asked.port, not asked.config & ofp.OFPPC_PORT_DOWN if asked.mask else link.is_enabled)


def check_table_mod(body: bytes) -> None:
    """There is one table, and nothing about it to be configured.  Raise ProtocolError."""
    if len(body) != _TABLE_MOD.size:
        raise bad_length()
    table, config = _TABLE_MOD.unpack(body)
    if table not in (0, ofp.OFPTT_ALL):
        raise ProtocolError(ofp.OFPET_TABLE_MOD_FAILED, ofp.OFPTMFC_BAD_TABLE)
    if config:
        raise ProtocolError(ofp.OFPET_TABLE_MOD_FAILED, ofp.OFPTMFC_BAD_CONFIG)


def _port_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_PORT_MOD_FAILED, code)

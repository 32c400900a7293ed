"""Multipart requests: what the switch says of its flows, ports, groups and itself."""

import struct
from collections.abc import Iterator

from emu.switch import decode, encode
from emu.switch.counters import Instruments
from emu.switch.entries import Entry
from emu.switch.openflow13 import ProtocolError, bad_length, ofp
from emu.switch.ports import Port, SwitchPorts
from emu.switch.table import FlowTable

_PORT_REQUEST = struct.Struct(ofp.OFP_PORT_STATS_REQUEST_PACK_STR)
_PORT_STATS = struct.Struct(ofp.OFP_PORT_STATS_PACK_STR)
_WITHOUT_BODY = (ofp.OFPMP_DESC, ofp.OFPMP_TABLE, ofp.OFPMP_GROUP_DESC, ofp.OFPMP_PORT_DESC)


def parts(
    kind: int, body: bytes, switch: SwitchPorts, table: FlowTable, instruments: Instruments, start_ns: int
) -> Iterator[bytes]:
    """The body of the reply to a multipart request, in pieces that stay whole."""
    if kind in _WITHOUT_BODY and body:
        raise bad_length()
    match kind:
        case ofp.OFPMP_DESC:
            yield encode.description(switch.name)
        case ofp.OFPMP_FLOW:
            now_ns = instruments.now_ns()
            for entry in _chosen(body, table):
                yield encode.flow_stats(entry, *instruments.flow_counts(entry.flow), now_ns)
        case ofp.OFPMP_AGGREGATE:
            counts = [instruments.flow_counts(entry.flow) for entry in _chosen(body, table)]
            yield encode.aggregate(len(counts), sum(c[0] for c in counts), sum(c[1] for c in counts))
        case ofp.OFPMP_TABLE:
            seen = [instruments.received(port.interface) for port in switch.ports]
            lookups = sum(received.packets for received in seen)
            missed = sum(received.missed_packets for received in seen)
            yield encode.table_stats(len(table), lookups, lookups - missed)
        case ofp.OFPMP_GROUP_DESC:
            yield from (
                encode.group_description(*item)
                for item in sorted(table.groups.items(), key=lambda item: item[0])
            )
        case ofp.OFPMP_PORT_STATS:
            yield from (_port_stats(port, instruments, start_ns) for port in _chosen_ports(body, switch))
        case ofp.OFPMP_PORT_DESC:
            yield from (_port_description(port, instruments) for port in switch.ports)
        case _:
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_MULTIPART)


def _chosen(body: bytes, table: FlowTable) -> list[Entry]:
    number, selection = decode.flow_request(body)
    if number not in (0, ofp.OFPTT_ALL):
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_TABLE_ID)
    return table.entries(selection)


def _chosen_ports(body: bytes, switch: SwitchPorts) -> tuple[Port, ...]:
    if len(body) != _PORT_REQUEST.size:
        raise bad_length()
    (number,) = _PORT_REQUEST.unpack(body)
    chosen = tuple(port for port in switch.ports if number in (port.port, ofp.OFPP_ANY))
    if not chosen and number != ofp.OFPP_ANY:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT)
    return chosen


def _port_stats(port: Port, instruments: Instruments, start_ns: int) -> bytes:
    came = instruments.received(port.interface)
    went = instruments.transmitted(port.interface)
    no = encode.UNAVAILABLE
    seconds, nanoseconds = divmod(instruments.now_ns() - start_ns, 10**9)
    return _PORT_STATS.pack(
        port.port,
        came.packets,
        went.packets if went else no,
        came.nbytes,
        went.nbytes if went else no,
        came.dropped_packets,
        went.dropped if went else no,
        *[no] * 6,  # errors and collisions: a veth has none to count
        seconds,
        nanoseconds,
    )


def _port_description(port: Port, instruments: Instruments) -> bytes:
    mac, is_up = instruments.link(port.interface)
    return encode.port(port.port, mac, port.interface, port.rate_bps, is_up)

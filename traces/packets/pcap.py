"""Reads classic pcap files into columns: one row per packet, no Python per packet.

Ethernet (with or without VLAN tags) carrying IPv4 TCP and UDP is understood; every other packet keeps
its row, with `protocol` 0.  This is an edge module: it opens files.
"""

from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from traces.packets.jit import compiled
from traces.packets.packets import ETHERNET, NO_SHIFT, SYN, TCP, UDP, BadCapture, Packets

Column = npt.NDArray[Any]

FILE_HEADER_NBYTES = 24
RECORD_HEADER_NBYTES = 16
MAX_RECORD_NBYTES = 1 << 20  # tcpdump's largest snaplen is 256 KiB; more is a broken length
_UNIT_NS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
_PCAPNG = b"\x0a\x0d\x0d\x0a"


class _Columns(NamedTuple):
    """The columns of Packets; a type of its own because numba passes named tuples of arrays."""

    time_ns: Column
    wire_nbytes: Column
    captured_nbytes: Column
    frame_at: Column
    network_offset: Column
    protocol: Column
    ip_id: Column
    src: Column
    dst: Column
    sport: Column
    dport: Column
    flags: Column
    seq: Column
    ack: Column
    window: Column
    window_shift: Column
    payload_nbytes: Column
    visible_nbytes: Column
    payload_at: Column
    interface: Column


def _empty_columns(count: int) -> _Columns:
    return _Columns(
        time_ns=np.zeros(count, np.int64),
        wire_nbytes=np.zeros(count, np.int32),
        captured_nbytes=np.zeros(count, np.int32),
        frame_at=np.zeros(count, np.int64),
        network_offset=np.zeros(count, np.uint8),
        protocol=np.zeros(count, np.uint8),
        ip_id=np.zeros(count, np.uint16),
        src=np.zeros(count, np.uint32),
        dst=np.zeros(count, np.uint32),
        sport=np.zeros(count, np.uint16),
        dport=np.zeros(count, np.uint16),
        flags=np.zeros(count, np.uint8),
        seq=np.zeros(count, np.uint32),
        ack=np.zeros(count, np.uint32),
        window=np.zeros(count, np.uint16),
        window_shift=np.full(count, NO_SHIFT, np.uint8),
        payload_nbytes=np.zeros(count, np.int32),
        visible_nbytes=np.zeros(count, np.int32),
        payload_at=np.zeros(count, np.int64),
        interface=np.zeros(count, np.uint16),
    )


def read_pcap(path: Path) -> Packets:
    """Raise BadCapture for what is no classic Ethernet pcap with at least one whole packet.

    A last record that is cut off, or has an impossible length, ends the reading: `truncated`.
    """
    with path.open("rb") as file:
        header = file.read(FILE_HEADER_NBYTES)
    big_endian, unit_ns = _checked_header(path, header)
    data = np.memmap(path, np.uint8, "r")
    count, end = _count(data, big_endian)
    if not count:
        raise BadCapture(f"{path}: no whole packet in it: capture again, or leave the file out")
    columns = _empty_columns(count)
    _fill(data, big_endian, unit_ns, columns)
    numbers, positions = np.unique(np.concatenate([columns.src, columns.dst]), return_inverse=True)
    src, dst = np.split(positions.astype(np.uint32), 2)
    addresses = tuple(str(IPv4Address(int(number))) for number in numbers)
    columns = columns._replace(src=src, dst=dst)
    return Packets(path, data, end != len(data), addresses, **columns._asdict())


def _checked_header(path: Path, header: bytes) -> tuple[bool, int]:
    """Whether the file is big-endian, and its unit of time in ns."""
    if header[:4] == _PCAPNG:
        raise BadCapture(
            f"{path}: is a pcapng file; convert it with `editcap -F nsecpcap {path.name} {path.stem}.pcap`"
        )
    orders: tuple[Literal["little", "big"], ...] = ("little", "big")
    for order in orders:
        unit_ns = _UNIT_NS.get(int.from_bytes(header[:4], order))
        if unit_ns is None or len(header) < FILE_HEADER_NBYTES:
            continue
        link_type = int.from_bytes(header[20:24], order) & 0xFFFF
        if link_type != ETHERNET:
            raise BadCapture(
                f"{path}: link type {link_type}, not Ethernet: capture on one interface, not on `any`"
            )
        return order == "big", unit_ns
    raise BadCapture(f"{path}: is no pcap file: give captures made by tcpdump -w, or a folder of them")


@compiled
def _octet(data: Column, at: int) -> int:
    return int(np.int64(data[at]))  # numba would leave it unsigned, and make floats where the signs meet


@compiled
def _u16(data: Column, at: int) -> int:
    return _octet(data, at) << 8 | _octet(data, at + 1)


@compiled
def _u32(data: Column, at: int) -> int:
    return _u16(data, at) << 16 | _u16(data, at + 2)


@compiled
def _header_u32(data: Column, at: int, big_endian: bool) -> int:
    if big_endian:
        return _u32(data, at)
    low = _octet(data, at) | _octet(data, at + 1) << 8
    return low | _octet(data, at + 2) << 16 | _octet(data, at + 3) << 24


@compiled
def _count(data: Column, big_endian: bool) -> tuple[int, int]:
    """How many whole records there are, and where the last one ends."""
    at, count = 24, 0
    while at + 16 <= len(data):
        captured = _header_u32(data, at + 8, big_endian)
        if captured > MAX_RECORD_NBYTES or at + 16 + captured > len(data):
            break
        at += 16 + captured
        count += 1
    return count, at


@compiled
def _fill(data: Column, big_endian: bool, unit_ns: int, columns: _Columns) -> None:
    at = 24
    for row in range(len(columns.time_ns)):
        seconds = _header_u32(data, at, big_endian)
        captured = _header_u32(data, at + 8, big_endian)
        wire = max(captured, min(_header_u32(data, at + 12, big_endian), MAX_RECORD_NBYTES))
        columns.time_ns[row] = seconds * 1_000_000_000 + _header_u32(data, at + 4, big_endian) * unit_ns
        columns.captured_nbytes[row] = captured
        columns.wire_nbytes[row] = wire
        at += 16
        columns.frame_at[row] = at
        ip = at + 14
        while ip + 4 <= at + captured and _u16(data, ip - 2) in (0x8100, 0x88A8):
            ip += 4
        if ip + 20 <= at + captured and _u16(data, ip - 2) == 0x0800:
            columns.network_offset[row] = ip - at
            _fill_ipv4(data, ip, at + captured, at + wire, row, columns)
        at += captured


@compiled
def _fill_ipv4(data: Column, ip: int, end: int, wire_end: int, row: int, columns: _Columns) -> None:
    """`end` is where the captured bytes of the packet end, `wire_end` where all of them would."""
    protocol = data[ip + 9]
    transport = ip + (data[ip] & 15) * 4
    is_later_fragment = _u16(data, ip + 6) & 0x1FFF
    if data[ip] >> 4 != 4 or transport < ip + 20 or is_later_fragment:
        return
    total = _u16(data, ip + 2)  # 0: a segment above 64 KiB (BIG TCP), whose length only the wire knows
    ip_end = min(wire_end, ip + total) if total else wire_end
    if protocol == TCP and transport + 20 <= end:
        payload = transport + (data[transport + 12] >> 4) * 4
        if payload < transport + 20:
            return
        columns.seq[row] = _u32(data, transport + 4)
        columns.ack[row] = _u32(data, transport + 8)
        columns.flags[row] = data[transport + 13]
        columns.window[row] = _u16(data, transport + 14)
        if data[transport + 13] & SYN:
            columns.window_shift[row] = _window_shift(data, transport + 20, min(payload, end))
    elif protocol == UDP and transport + 8 <= end:
        payload = transport + 8
    else:
        return
    if payload > ip_end:
        return
    columns.protocol[row] = protocol
    columns.ip_id[row] = _u16(data, ip + 4)
    columns.src[row] = _u32(data, ip + 12)
    columns.dst[row] = _u32(data, ip + 16)
    columns.sport[row] = _u16(data, transport)
    columns.dport[row] = _u16(data, transport + 2)
    columns.payload_nbytes[row] = ip_end - payload
    columns.visible_nbytes[row] = max(0, min(end, ip_end) - payload)
    columns.payload_at[row] = payload


@compiled
def _window_shift(data: Column, at: int, end: int) -> int:
    """The window scale option among TCP's options [at, end) (RFC 7323, 2.2)."""
    while at + 2 < end and data[at] != 0:
        if data[at] == 1:
            at += 1
            continue
        if data[at] == 3 and data[at + 1] == 3:
            return min(_octet(data, at + 2), 14)
        at += max(2, _octet(data, at + 1))
    return 255

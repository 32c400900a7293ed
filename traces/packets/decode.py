"""Decodes packet headers into columns: link layer, VLAN tags, IPv4, IPv6, TCP, UDP.

One compiled loop for all file formats.  Everything that it calls is in this file, because numba's cache
knows a function by its own file only.  Nothing here reads outside [frame_at, frame_at + captured_nbytes).
Link types: tcpdump.org/linktypes.html.
"""

import numpy as np

from gradwire.traces.packets.addresses import Table
from gradwire.traces.packets.columns import Counts, Headers, Octets, Records
from gradwire.traces.packets.jit import compiled
from gradwire.traces.packets.packets import ETHERNET, NO_SHIFT, SYN, TCP, UDP

NULL, RAW, RAW_12, RAW_14, LOOP, COOKED, IPV4, IPV6, COOKED2 = 0, 101, 12, 14, 108, 113, 228, 229, 276
LINK_TYPES = frozenset({NULL, ETHERNET, RAW, RAW_12, RAW_14, LOOP, COOKED, IPV4, IPV6, COOKED2})
MAX_TAGS, MAX_EXTENSIONS, MAX_PROBES = 8, 16, 256
_IP4, _IP6 = 0x0800, 0x86DD
_CUT, ZERO = -1, np.uint64(0)


@compiled
def _octet(data: Octets, at: int) -> int:
    """Not left unsigned, as numba would make floats where the signs meet.  The index is unsigned, as numba
    would ask each time whether it counts from the end.
    """
    return int(np.int64(data[np.uint64(at)]))


@compiled
def _u16(data: Octets, at: int) -> int:
    return _octet(data, at) << 8 | _octet(data, at + 1)


@compiled
def _u32(data: Octets, at: int) -> int:
    return _u16(data, at) << 16 | _u16(data, at + 2)


@compiled
def _u64(data: Octets, at: int) -> np.uint64:
    return np.uint64(_u32(data, at)) << np.uint64(32) | np.uint64(_u32(data, at + 4))


@compiled
def decode(
    data: Octets, records: Records, link_types: Counts, table: Table, headers: Headers
) -> tuple[int, bool]:
    """How many packets are TCP, UDP or IP whose headers were cut off by the capture, and whether the
    table had room for all addresses; if not, the columns are not to be used.

    `link_types` has an entry for each interface.
    """
    n_cut = 0
    for row in range(len(records.frame_at)):
        at = records.frame_at[row]
        end, wire_end = at + records.captured_nbytes[row], at + records.wire_nbytes[row]
        version, ip = _network(data, at, end, link_types[records.interface[row]])
        protocol, transport, payload, ip_end = version, at, at, at
        if version > 0:
            headers.ip_version[row] = version
            headers.network_offset[row] = ip - at
            protocol, transport, payload, ip_end = _transport(data, ip, version, end, wire_end)
        if protocol <= 0:
            n_cut += protocol == _CUT and end < wire_end
            continue
        src, dst = _ends(data, ip, version, table)
        if min(src, dst) < 0:
            return n_cut, False
        headers.protocol[row] = protocol
        headers.src[row] = src
        headers.dst[row] = dst
        headers.sport[row] = _u16(data, transport)
        headers.dport[row] = _u16(data, transport + 2)
        headers.ip_id[row] = _u16(data, ip + 4) if version == 4 else 0
        headers.payload_at[row] = min(payload, end)
        headers.payload_nbytes[row] = ip_end - payload
        headers.visible_nbytes[row] = max(0, min(end, ip_end) - payload)
        if protocol == TCP:
            headers.seq[row] = _u32(data, transport + 4)
            headers.ack[row] = _u32(data, transport + 8)
            headers.flags[row] = _octet(data, transport + 13)
            headers.window[row] = _u16(data, transport + 14)
            headers.window_shift[row] = _window_shift(data, transport, min(payload, end))
    return n_cut, True


@compiled
def _network(data: Octets, at: int, end: int, link_type: int) -> tuple[int, int]:
    """IP's version (0: it is not IP, _CUT: that cannot be seen) and where its header begins."""
    kind, ip = _link(data, at, end, link_type)
    for _ in range(MAX_TAGS):
        if kind not in (0x8100, 0x88A8, 0x9100):
            break
        kind, ip = (_u16(data, ip + 2), ip + 4) if ip + 4 <= end else (_CUT, ip)
    if kind == _CUT or (kind in (_IP4, _IP6) and ip >= end):
        return _CUT, ip
    version = 4 if kind == _IP4 else 6
    if kind not in (_IP4, _IP6) or _octet(data, ip) >> 4 != version:
        return 0, ip
    return (version if ip + (20 if version == 4 else 40) <= end else _CUT), ip


@compiled
def _link(data: Octets, at: int, end: int, link_type: int) -> tuple[int, int]:
    """The EtherType of what the frame carries (0: none, _CUT), and where that begins."""
    if link_type in (ETHERNET, COOKED, COOKED2):
        kind_at, network = at + 12, at + 14
        if link_type == COOKED:
            kind_at, network = at + 14, at + 16
        elif link_type == COOKED2:
            kind_at, network = at, at + 20
        return (_u16(data, kind_at) if network <= end else _CUT), network
    if link_type not in (NULL, LOOP, RAW, RAW_12, RAW_14, IPV4, IPV6):
        return 0, at
    network = at + 4 if link_type in (NULL, LOOP) else at
    if network >= end:
        return _CUT, network
    if network > at and not _is_ip_family(data, at):
        return 0, network
    return (_IP6 if _octet(data, network) >> 4 == 6 else _IP4), network


@compiled
def _is_ip_family(data: Octets, at: int) -> bool:
    """A socket family in the byte order of the machine that captured: IPv6 is 10, 24, 28 or 30."""
    if data[at + 1] or data[at + 2] or (data[at] and data[at + 3]):
        return False
    return (data[at] | data[at + 3]) in (2, 10, 24, 28, 30)


@compiled
def _transport(data: Octets, ip: int, version: int, end: int, wire_end: int) -> tuple[int, int, int, int]:
    """The protocol, where its header begins, where its payload does, and where that ends on the wire.

    The protocol is 0 if it is neither TCP nor UDP, or its header cannot be; _CUT if that is not seen.
    """
    if version == 4:
        protocol, transport, ip_end = _ipv4(data, ip, wire_end)
    else:
        protocol, transport, ip_end = _ipv6(data, ip, end, wire_end)
    if protocol == TCP:
        if transport + 20 > end:
            return _CUT, transport, end, end
        payload = transport + (_octet(data, transport + 12) >> 4) * 4
        if payload < transport + 20:
            return 0, transport, payload, ip_end
    elif protocol == UDP:
        if transport + 8 > end:
            return _CUT, transport, end, end
        payload = transport + 8
        if _u16(data, transport + 4) >= 8:  # 0 in a jumbogram
            ip_end = min(ip_end, transport + _u16(data, transport + 4))
    else:
        return protocol, transport, end, end
    return (protocol if payload <= ip_end else 0), transport, payload, ip_end


@compiled
def _ipv4(data: Octets, ip: int, wire_end: int) -> tuple[int, int, int]:
    """The protocol (0 if it is of no interest), where its header begins, and where the IP packet ends."""
    transport = ip + (_octet(data, ip) & 15) * 4
    protocol = _octet(data, ip + 9)
    is_later_fragment = _u16(data, ip + 6) & 0x1FFF
    if transport < ip + 20 or is_later_fragment or protocol not in (TCP, UDP):
        return 0, transport, wire_end
    total = _u16(data, ip + 2)  # 0: a segment above 64 KiB (BIG TCP), whose length only the wire knows
    return protocol, transport, min(wire_end, ip + total) if total else wire_end


@compiled
def _ipv6(data: Octets, ip: int, end: int, wire_end: int) -> tuple[int, int, int]:
    """Like _ipv4, behind the extension headers (RFC 8200, 4)."""
    nbytes = _u16(data, ip + 4)  # 0: a jumbogram (RFC 2675; BIG TCP)
    ip_end = min(wire_end, ip + 40 + nbytes) if nbytes else wire_end
    protocol, at = _octet(data, ip + 6), ip + 40
    for _ in range(MAX_EXTENSIONS):
        if protocol in (TCP, UDP):
            return protocol, at, ip_end
        if protocol not in (0, 43, 44, 51, 60, 135, 139, 140):
            break
        if at + 8 > end:
            return _CUT, at, ip_end
        nbytes = (_octet(data, at + 1) + 1) * 8
        if protocol == 44:  # a fragment's header has no length
            nbytes = 8
            if _u16(data, at + 2) & 0xFFF8:
                break
        elif protocol == 51:  # IPsec's counts in words
            nbytes = (_octet(data, at + 1) + 2) * 4
        protocol = _octet(data, at)
        at += nbytes
    return 0, at, ip_end


@compiled
def _window_shift(data: Octets, tcp: int, end: int) -> int:
    """The window scale option of a SYN whose header ends at `end` (RFC 7323, 2.2)."""
    if not _octet(data, tcp + 13) & SYN:
        return NO_SHIFT
    at = tcp + 20
    while at + 2 < end and _octet(data, at) != 0:
        if _octet(data, at) == 1:
            at += 1
            continue
        if _octet(data, at) == 3 and _octet(data, at + 1) == 3:
            return min(_octet(data, at + 2), 14)
        at += max(2, _octet(data, at + 1))
    return NO_SHIFT


@compiled
def _ends(data: Octets, ip: int, version: int, table: Table) -> tuple[int, int]:
    """The positions of source and destination; -1: there was no room."""
    if version == 4:
        src = _position(ZERO, np.uint64(_u32(data, ip + 12)), 4, table)
        return src, _position(ZERO, np.uint64(_u32(data, ip + 16)), 4, table)
    src = _position(_u64(data, ip + 8), _u64(data, ip + 16), 6, table)
    return src, _position(_u64(data, ip + 24), _u64(data, ip + 32), 6, table)


@compiled
def _position(high: np.uint64, low: np.uint64, version: int, table: Table) -> int:
    """Double hashing; the number of probes is bounded, so that chosen collisions cost little."""
    mixed = (high * np.uint64(0x9E3779B97F4A7C15) ^ low) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ mixed >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    mask = len(table.slots) - 1
    slot = np.int64(mixed >> np.uint64(32)) & mask
    step = np.int64(mixed & np.uint64(0xFFFFFFFF)) | 1
    for _ in range(MAX_PROBES):
        position = np.int64(table.slots[slot]) - 1
        if position < 0:
            return _added(int(slot), high, low, version, table)
        if table.low[position] == low and table.high[position] == high and table.version[position] == version:
            return int(position)
        slot = (slot + step) & mask
    return -1


@compiled
def _added(slot: int, high: np.uint64, low: np.uint64, version: int, table: Table) -> int:
    position = int(table.used[0])
    if position == len(table.low):
        return -1
    table.low[position], table.high[position], table.version[position] = low, high, version
    table.slots[slot] = position + 1
    table.used[0] = position + 1
    return position

"""Headers of packets into columns: link layer, VLAN tags, IPv4, IPv6, TCP, UDP.

One compiled loop for all file formats.  Everything that it calls is in this file, because numba's cache
knows a function by its own file only.  Nothing here reads outside [frame_at, frame_at + captured_nbytes).
Link types: tcpdump.org/linktypes.html.
"""

import numpy as np

from traces.packets.addresses import Table
from traces.packets.columns import Column, Headers, Records
from traces.packets.jit import compiled
from traces.packets.packets import SYN, TCP, UDP

NULL, ETHERNET, LOOP, RAW, IPV4, IPV6, COOKED, COOKED2 = 0, 1, 108, 101, 228, 229, 113, 276
LINK_TYPES = {  # by name, for people
    NULL: "loopback",
    ETHERNET: "Ethernet",
    RAW: "raw IP",
    12: "raw IP",  # as some systems number it
    14: "raw IP",
    LOOP: "loopback",
    COOKED: "Linux cooked",
    IPV4: "raw IPv4",
    IPV6: "raw IPv6",
    COOKED2: "Linux cooked v2",
}
MAX_TAGS, MAX_EXTENSIONS, MAX_PROBES = 8, 16, 256
_IP4, _IP6 = 0x0800, 0x86DD
_CUT = -1


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
def _u64(data: Column, at: int) -> "np.uint64":
    return np.uint64(_u32(data, at)) << np.uint64(32) | np.uint64(_u32(data, at + 4))


@compiled
def decode(
    data: Column, records: Records, link_types: Column, table: Table, headers: Headers
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
        if version == 0:
            continue
        protocol, transport, ip_end = _CUT, end, end
        if version > 0:
            headers.ip_version[row] = version
            headers.network_offset[row] = ip - at
            if version == 4:
                protocol, transport, ip_end = _ipv4(data, ip, wire_end)
            else:
                protocol, transport, ip_end = _ipv6(data, ip, end, wire_end)
        if protocol == TCP and transport + 20 <= end:
            known = _tcp(data, transport, end, ip_end, row, headers)
        elif protocol == UDP and transport + 8 <= end:
            known = _udp(data, transport, end, ip_end, row, headers)
        else:
            n_cut += protocol != 0 and end < wire_end
            continue
        if known:
            src, dst = _ends(data, ip, version, table)
            if src < 0 or dst < 0:
                return n_cut, False
            headers.src[row] = src
            headers.dst[row] = dst
            headers.sport[row] = _u16(data, transport)
            headers.dport[row] = _u16(data, transport + 2)
            headers.ip_id[row] = _u16(data, ip + 4) if version == 4 else 0
            headers.protocol[row] = protocol
    return n_cut, True


@compiled
def _network(data: Column, at: int, end: int, link_type: int) -> tuple[int, int]:
    """IP's version (0: it is not IP, _CUT: that cannot be seen) and where its header begins."""
    type_at, ip = at + 12, at + 14
    if link_type == COOKED:
        type_at, ip = at + 14, at + 16
    elif link_type == COOKED2:
        type_at, ip = at, at + 20
    elif link_type in (NULL, LOOP):
        type_at, ip = -1, at + 4
    elif link_type != ETHERNET:
        type_at, ip = -1, at
    if ip >= end:
        return _CUT, ip
    if type_at < 0:
        if ip > at and not _is_ip_family(data, at):
            return 0, ip
        kind = _IP6 if _octet(data, ip) >> 4 == 6 else _IP4
    else:
        kind = _u16(data, type_at)
        for _ in range(MAX_TAGS):
            if kind not in (0x8100, 0x88A8, 0x9100):
                break
            if ip + 4 >= end:
                return _CUT, ip
            kind = _u16(data, ip + 2)
            ip += 4
    if kind not in (_IP4, _IP6):
        return 0, ip
    version = 4 if kind == _IP4 else 6
    if _octet(data, ip) >> 4 != version:
        return 0, ip
    return (version if ip + (20 if version == 4 else 40) <= end else _CUT), ip


@compiled
def _is_ip_family(data: Column, at: int) -> bool:
    """A socket family in the byte order of the machine that captured: IPv6 is 10, 24, 28 or 30."""
    if data[at + 1] or data[at + 2] or (data[at] and data[at + 3]):
        return False
    return (data[at] | data[at + 3]) in (2, 10, 24, 28, 30)


@compiled
def _ipv4(data: Column, ip: int, wire_end: int) -> tuple[int, int, int]:
    """The protocol (0 if it is of no interest), where its header begins, and where the IP packet ends."""
    transport = ip + (_octet(data, ip) & 15) * 4
    protocol = _octet(data, ip + 9)
    is_later_fragment = _u16(data, ip + 6) & 0x1FFF
    if transport < ip + 20 or is_later_fragment or protocol not in (TCP, UDP):
        return 0, transport, wire_end
    total = _u16(data, ip + 2)  # 0: a segment above 64 KiB (BIG TCP), whose length only the wire knows
    return protocol, transport, min(wire_end, ip + total) if total else wire_end


@compiled
def _ipv6(data: Column, ip: int, end: int, wire_end: int) -> tuple[int, int, int]:
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
def _tcp(data: Column, tcp: int, end: int, ip_end: int, row: int, headers: Headers) -> bool:
    """False for a header that cannot be: shorter than 20 bytes, or longer than its packet."""
    payload = tcp + (_octet(data, tcp + 12) >> 4) * 4
    if payload < tcp + 20 or payload > ip_end:
        return False
    headers.seq[row] = _u32(data, tcp + 4)
    headers.ack[row] = _u32(data, tcp + 8)
    headers.flags[row] = data[tcp + 13]
    headers.window[row] = _u16(data, tcp + 14)
    if data[tcp + 13] & SYN:
        headers.window_shift[row] = _window_shift(data, tcp + 20, min(payload, end))
    headers.payload_nbytes[row] = ip_end - payload
    headers.visible_nbytes[row] = max(0, min(end, ip_end) - payload)
    headers.payload_at[row] = payload
    return True


@compiled
def _udp(data: Column, udp: int, end: int, ip_end: int, row: int, headers: Headers) -> bool:
    payload, nbytes = udp + 8, _u16(data, udp + 4)
    if payload > ip_end:
        return False
    if nbytes >= 8:  # 0 in a jumbogram
        ip_end = min(ip_end, udp + nbytes)
    headers.payload_nbytes[row] = ip_end - payload
    headers.visible_nbytes[row] = max(0, min(end, ip_end) - payload)
    headers.payload_at[row] = payload
    return True


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


@compiled
def _ends(data: Column, ip: int, version: int, table: Table) -> tuple[int, int]:
    """The positions of source and destination; -1 if there is no room for one."""
    if version == 4:
        zero = np.uint64(0)
        src = _position(zero, np.uint64(_u32(data, ip + 12)), version, table)
        return src, _position(zero, np.uint64(_u32(data, ip + 16)), version, table)
    src = _position(_u64(data, ip + 8), _u64(data, ip + 16), version, table)
    return src, _position(_u64(data, ip + 24), _u64(data, ip + 32), version, table)


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
            return _added(slot, high, low, version, table)
        if table.low[position] == low and table.high[position] == high and table.version[position] == version:
            return int(position)
        slot = (slot + step) & mask
    return -1


@compiled
def _added(slot: int, high: np.uint64, low: np.uint64, version: int, table: Table) -> int:
    position = int(table.count[0])
    if position == len(table.low):
        return -1
    table.low[position], table.high[position], table.version[position] = low, high, version
    table.slots[slot] = position + 1
    table.count[0] = position + 1
    return position

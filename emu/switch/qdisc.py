"""What the queueing discipline at an interface's root has sent and dropped, by rtnetlink.

HTB counts packets as the wire carries them, a super-segment as its segments with a header each; the
interface's own counters do not.  One request per interface, no process, and no /sys (which shows
another network namespace unless it was mounted in this one).
"""

import socket
import struct
import sys
from collections.abc import Iterator

from emu.switch.counters import Transmitted

_RTM_NEWQDISC, _RTM_GETQDISC = 36, 38
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_ECHO = 1, 4, 8
_FLAGS = _NLM_F_REQUEST | _NLM_F_ACK | _NLM_F_ECHO  # without ECHO the answer goes to listeners only
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_STATS2 = 1, 7
_NOQUEUE = b"noqueue\0"
_TCA_STATS_BASIC, _TCA_STATS_QUEUE, _TCA_STATS_PKT64 = 1, 3, 8
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")
_BASIC = struct.Struct("=QI")  # bytes, packets
_QUEUE = struct.Struct("=III")  # length, backlog, drops
_TYPE_MASK = 0x3FFF
_ANSWER_NBYTES = 65536


def netlink_socket() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)


def transmitted(netlink: socket.socket, ifindex: int) -> Transmitted | None:
    """None if there is no such interface or its root does not count (`noqueue`)."""
    request = _TCMSG.pack(socket.AF_UNSPEC, ifindex, 0, _TC_H_ROOT, 0)
    length = _HEADER.size + len(request)
    netlink.send(_HEADER.pack(length, _RTM_GETQDISC, _FLAGS, ifindex, 0) + request)
    found = None
    while True:  # the acknowledgement, which comes last, ends it
        for kind, sequence, body in _messages(netlink.recv(_ANSWER_NBYTES)):
            if kind == _RTM_NEWQDISC:
                found = _statistics(body[_TCMSG.size :])
            elif sequence == ifindex:
                return found


def _messages(answer: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(type, sequence, body) of each message of a datagram."""
    at = 0
    while at + _HEADER.size <= len(answer):
        length, kind, _, sequence, _ = _HEADER.unpack_from(answer, at)
        yield kind, sequence, answer[at + _HEADER.size : at + length]
        at += max(_HEADER.size, (length + 3) // 4 * 4)


def _attributes(body: bytes) -> dict[int, bytes]:
    attributes = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        attributes[kind & _TYPE_MASK] = body[at + _ATTRIBUTE.size : at + length]
        at += max(_ATTRIBUTE.size, (length + 3) // 4 * 4)
    return attributes


def _statistics(body: bytes) -> Transmitted | None:
    attributes = _attributes(body)
    if attributes.get(_TCA_KIND) == _NOQUEUE or _TCA_STATS2 not in attributes:
        return None
    statistics = _attributes(attributes[_TCA_STATS2])
    nbytes, packets = _BASIC.unpack_from(statistics[_TCA_STATS_BASIC])
    if _TCA_STATS_PKT64 in statistics:  # only where 32 bits did not hold them
        packets = int.from_bytes(statistics[_TCA_STATS_PKT64], sys.byteorder)
    dropped = _QUEUE.unpack_from(statistics[_TCA_STATS_QUEUE])[2]
    return Transmitted(packets, nbytes, dropped)

"""rtnetlink, spoken directly: what would take a process per host, of `ip` or `tc`, takes microseconds.

Messages are bytes, and go to the kernel many in one piece.  Numbers and structs are those of netlink(7),
rtnetlink(7) and linux/{netlink,rtnetlink,if_link,if_addr,neighbour}.h.
"""

import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

_NLMSG_ERROR, _NLMSG_DONE = 2, 3
RTM_NEWLINK, _RTM_GETLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWNEIGH = 16, 18, 20, 24, 28
NLM_F_REQUEST, NLM_F_ACK, NLM_F_ECHO, NLM_F_DUMP = 1, 4, 8, 0x300
_NLM_F_REPLACE, _NLM_F_EXCL, _NLM_F_CREATE = 0x100, 0x200, 0x400
CREATE = NLM_F_REQUEST | _NLM_F_CREATE | _NLM_F_EXCL
IFF_UP, IFF_RUNNING = 0x1, 0x40
_IFLA_LINK, _IFLA_OPERSTATE, _IFLA_EXT_MASK, _IFLA_LINK_NETNSID = 5, 16, 29, 37
_SKIP_STATISTICS = 8  # RTEXT_FILTER_SKIP_STATS
_IF_OPER_UP = b"\x06"
_NUD_PERMANENT = 0x80
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_NDA_DST, _NDA_LLADDR = 1, 2
_RTA_DST, _RTA_OIF, _RTA_PREFSRC, _RTA_METRICS = 1, 4, 7, 8
_RTAX_INITCWND, _RTAX_QUICKACK, _RTAX_CC_ALGO = 11, 15, 16
_RT_TABLE_MAIN, _RTPROT_KERNEL, _RT_SCOPE_LINK, _RTN_UNICAST = 254, 2, 253, 1
_TYPE_MASK = 0x3FFF
_ANSWER_NBYTES = 65536

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, type
IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, which of them change
_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_RTMSG = struct.Struct("=BBBBBBBBI")  # family, both lengths, TOS, table, protocol, scope, type, flags
_NDMSG = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type
TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info: of queueing disciplines
_ERROR = struct.Struct("=i")

Request = tuple[int, int, bytes]  # type, flags, body of a message


def netlink_socket() -> socket.socket:
    """One of the network namespace in which the thread is now; there it stays."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)


def link_up(ifindex: int) -> Request:
    return RTM_NEWLINK, NLM_F_REQUEST, IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, IFF_UP, IFF_UP)


def link_down(ifindex: int) -> Request:
    return RTM_NEWLINK, NLM_F_REQUEST, IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, 0, IFF_UP)


def address(ifindex: int, ip: str, prefix_length: int) -> Request:
    packed = IPv4Address(ip).packed
    body = _IFADDRMSG.pack(socket.AF_INET, prefix_length, 0, 0, ifindex)
    return _RTM_NEWADDR, CREATE, body + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def tcp_route(
    ifindex: int,
    ip: str,
    prefix_length: int,
    control: str,
    window_packets: int | None = None,
    *,
    acknowledges_at_once: bool = False,
) -> Request:
    """How TCP sends to all who share the prefix of `address`: with this congestion `control`, unless a socket
    chooses for itself, and from the beginning with a congestion window of `window_packets` (None: the
    kernel's).  If it `acknowledges_at_once`, not only when the receiver's process reads.

    In a namespace that is not the machine's first, the sysctl for the congestion control takes only what the
    machine allows all users; the window and quick acknowledgements have no sysctl.
    """
    network = IPv4Network((ip, prefix_length), strict=False).network_address.packed
    types = (_RT_TABLE_MAIN, _RTPROT_KERNEL, _RT_SCOPE_LINK, _RTN_UNICAST, 0)
    body = _RTMSG.pack(socket.AF_INET, prefix_length, 0, 0, *types)
    body += attribute(_RTA_DST, network) + attribute(_RTA_OIF, _u32(ifindex))
    body += attribute(_RTA_PREFSRC, IPv4Address(ip).packed)
    metrics = attribute(_RTAX_CC_ALGO, control.encode() + b"\0")
    if acknowledges_at_once:
        metrics += attribute(_RTAX_QUICKACK, _u32(1))
    if window_packets is not None:
        metrics += attribute(_RTAX_INITCWND, _u32(window_packets))
    body += attribute(_RTA_METRICS, metrics)
    return _RTM_NEWROUTE, NLM_F_REQUEST | _NLM_F_REPLACE, body


def neighbour(ifindex: int, ip: str, mac: str) -> Request:
    """Who has `ip`, for ever: nobody will ask for it by ARP."""
    body = _NDMSG.pack(socket.AF_INET, ifindex, _NUD_PERMANENT, 0, 0)
    body += attribute(_NDA_DST, IPv4Address(ip).packed)
    return _RTM_NEWNEIGH, CREATE, body + attribute(_NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, sys.byteorder)


def encoded(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """One message; `body` is a multiple of 4 bytes."""
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def carry_out(requests: Iterable[Request]) -> None:
    """All of them, in order, in the network namespace of this thread.  Raise OSError for a refusal."""
    *most, (kind, flags, body) = requests
    octets = b"".join(encoded(*request[:2], number, request[2]) for number, request in enumerate(most))
    last = len(most)
    with netlink_socket() as netlink:
        netlink.send(octets + encoded(kind, flags | NLM_F_ACK, last, body))
        errors: dict[int, int] = {}  # by request; only the last one is answered if all is well
        while last not in errors:
            for kind, number, answer in messages(netlink.recv(_ANSWER_NBYTES)):
                if kind == _NLMSG_ERROR:
                    errors[number] = -_ERROR.unpack_from(answer)[0]
    for number, error in errors.items():
        if error:
            raise OSError(error, f"rtnetlink request {number + 1} of {last + 1} failed: {os.strerror(error)}")


class LinkState(NamedTuple):
    """Whether an interface was set up, whether it can send (RFC 2863's state up), and of a veth the other
    end's index if that is in this namespace too; `is_running` like the second, but true also of a tunnel,
    which does not know.
    """

    is_enabled: bool
    is_operating: bool
    other: int | None
    is_running: bool


def link_state(ifindex: int) -> LinkState:
    """Raise OSError if there is no such interface."""
    body = IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
    with netlink_socket() as netlink:
        netlink.send(encoded(_RTM_GETLINK, NLM_F_REQUEST, 0, body))
        ((kind, _, answer),) = messages(netlink.recv(_ANSWER_NBYTES))
    if kind == _NLMSG_ERROR:
        error = -_ERROR.unpack_from(answer)[0]
        raise OSError(error, f"interface {ifindex}: {os.strerror(error)}")
    return _state(answer)


def link_states() -> dict[int, LinkState]:
    """Of all interfaces of this network namespace, by their indices.  Raise OSError."""
    states: dict[int, LinkState] = {}
    with netlink_socket() as netlink:
        body = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        body += attribute(_IFLA_EXT_MASK, _u32(_SKIP_STATISTICS))
        netlink.send(encoded(_RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 0, body))
        is_over = False
        while not is_over:
            part = netlink.recv(_ANSWER_NBYTES)
            is_over = ends_dump(part)
            for kind, _, answer in messages(part):
                if kind == RTM_NEWLINK:
                    states[IFINFOMSG.unpack_from(answer)[2]] = _state(answer)
                elif kind == _NLMSG_ERROR:
                    error = -_ERROR.unpack_from(answer)[0]
                    raise OSError(error, f"interfaces: {os.strerror(error)}")
    return states


def _state(answer: bytes) -> LinkState:
    by_type = attributes(answer[IFINFOMSG.size :])
    is_here = _IFLA_LINK in by_type and _IFLA_LINK_NETNSID not in by_type
    other = int.from_bytes(by_type[_IFLA_LINK], sys.byteorder) if is_here else None
    flags = IFINFOMSG.unpack_from(answer)[3]
    is_operating = by_type[_IFLA_OPERSTATE][:1] == _IF_OPER_UP
    return LinkState(bool(flags & IFF_UP), is_operating, other, bool(flags & IFF_RUNNING))


def ends_dump(answer: bytes) -> bool:
    """Whether a datagram ends a dump (NLM_F_DUMP): its last message says so, or it is an error."""
    if len(answer) < _HEADER.size or _HEADER.unpack_from(answer)[1] == _NLMSG_ERROR:
        return True
    at = len(answer) - _HEADER.size - _ERROR.size
    return at >= 0 and _HEADER.unpack_from(answer, at)[:2] == (_HEADER.size + _ERROR.size, _NLMSG_DONE)


def messages(answer: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(type, sequence, body) of each message of a datagram."""
    at = 0
    while at + _HEADER.size <= len(answer):
        length, kind, _, sequence, _ = _HEADER.unpack_from(answer, at)
        yield kind, sequence, answer[at + _HEADER.size : at + length]
        at += max(_HEADER.size, (length + 3) // 4 * 4)


def attributes(body: bytes) -> dict[int, bytes]:
    """The attributes in (the rest of) a message, by type."""
    by_type = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        by_type[kind & _TYPE_MASK] = body[at + _ATTRIBUTE.size : at + length]
        at += max(_ATTRIBUTE.size, (length + 3) // 4 * 4)
    return by_type


def attribute(kind: int, value: bytes) -> bytes:
    """With its padding."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)

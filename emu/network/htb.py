"""A port's queueing disciplines by rtnetlink: what `shaping.port_batch` says in the words of `tc`.

A `tc` for each host, whose ports are in network namespaces of their own, takes longer than all that the
kernel does for them.  Numbers and structs are those of linux/{rtnetlink,pkt_sched,pkt_cls}.h, and times in
ticks are made as iproute2 makes them (tc/tc_core.c).
"""

import socket
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gradwire.emu.kernel.rtnetlink import CREATE, TCMSG, Request, attribute
from gradwire.emu.network.shaping import PortShape

_RTM_NEWQDISC, _RTM_NEWTCLASS, _RTM_NEWTFILTER = 36, 40, 44
_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TCA_HTB_PARMS, _TCA_HTB_INIT, _TCA_HTB_RATE64, _TCA_HTB_CEIL64 = 1, 2, 6, 7
_TCA_U32_CLASSID, _TCA_U32_SEL = 1, 5
_HTB_GLOB = struct.Struct("=5I")  # version, rate2quantum, default class, debug, direct packets
_HTB_GLOB_VALUES = 3, 10
_RATE = struct.Struct("=BBHhHI")  # cell log, link layer, overhead, cell align, least unit, bytes a second
_HTB_CLASS = struct.Struct("=5I")  # after rate and ceil: buffer and its ceil's, quantum, level, priority
_ETHERNET, _MOST_RATE = 1, 0xFFFFFFFF
_U32_HEAD = struct.Struct("=BBBxHHhhI")  # flags, offset's shift, keys, offset's mask, offset, …, hash mask
_U32_KEY = struct.Struct("=4s4sii")  # mask, value, offset, mask of the next header's offset
_TERMINAL = 1
_ETH_P_IP = 0x0800
# IPv4 with protocol TCP, flags ACK alone, and a total length below 64, or from 64 to 79.
_LENGTHS = ((0x0000, 0xFFC0), (0x0040, 0xFFF0))


def requests(ifindex: int, shape: PortShape) -> Iterator[Request]:
    """HTB at the interface, which has none yet and delays nothing.  Raise ValueError if it is to delay."""
    if shape.delay_ns:
        raise ValueError("a port that delays is shaped by tc")
    yield _made(_RTM_NEWQDISC, ifindex, _ROOT, _handle(1), "htb", attribute(_TCA_HTB_INIT, _htb_default(2)))
    rate_bps, ack_bps = shape.rate_bps, shape.ack_bps
    classes = ((0x10, 0, rate_bps, 0), (1, 0x10, ack_bps, 0), (2, 0x10, rate_bps - ack_bps, 1))
    for minor, parent, bps, priority in classes:
        options = _htb_class(shape, bps, priority)
        yield _made(_RTM_NEWTCLASS, ifindex, _handle(1, parent), _handle(1, minor), "htb", options)
    for minor, limit in enumerate(shape.queues_nbytes, start=1):
        fifo = struct.pack("=I", limit)
        yield _made(_RTM_NEWQDISC, ifindex, _handle(1, minor), _handle(0x10 + minor), "bfifo", fifo)
    for value, mask in _LENGTHS:
        yield _filter(ifindex, value, mask)


def _handle(major: int, minor: int = 0) -> int:
    return major << 16 | minor


def _htb_default(minor: int) -> bytes:
    return _HTB_GLOB.pack(*_HTB_GLOB_VALUES, minor, 0, 0)


def _htb_class(shape: PortShape, bps: int, priority: int) -> bytes:
    burst, rates = shape.burst_nbytes, (bps // 8, shape.rate_bps // 8)
    large = b"".join(
        attribute(kind, struct.pack("=Q", rate))
        for kind, rate in zip((_TCA_HTB_RATE64, _TCA_HTB_CEIL64), rates, strict=True)
        if rate > _MOST_RATE
    )
    parameters = b"".join(_RATE.pack(0, _ETHERNET, 0, -1, 0, min(rate, _MOST_RATE)) for rate in rates)
    ticks = [_ticks(burst, rate) for rate in rates]
    return large + attribute(_TCA_HTB_PARMS, parameters + _HTB_CLASS.pack(*ticks, burst, 0, priority))


def _ticks(nbytes: int, rate: int) -> int:
    """How long this many bytes take at a rate of bytes a second; tc drops what is less than a microsecond."""
    return int(int(1e6 * nbytes / rate) * _ticks_a_microsecond())


@cache
def _ticks_a_microsecond() -> float:
    numerator, denominator, resolution, _ = (
        int(word, 16) for word in Path("/proc/net/psched").read_text().split()
    )
    return numerator / denominator * (resolution / 1e6)


def _filter(ifindex: int, length: int, mask: int) -> Request:
    keys = (
        _U32_KEY.pack(b"\0\xff\0\0", b"\0\6\0\0", 8, 0),
        _U32_KEY.pack(mask.to_bytes(4, "big"), length.to_bytes(4, "big"), 0, 0),
    )
    head = _U32_HEAD.pack(_TERMINAL, 0, len(keys), 0, 0, 0, 0, 0)
    options = attribute(_TCA_U32_CLASSID, struct.pack("=I", _handle(1, 1)))
    options += attribute(_TCA_U32_SEL, head + b"".join(keys))
    return _made(_RTM_NEWTFILTER, ifindex, _handle(1), 0, "u32", options, 1 << 16 | socket.htons(_ETH_P_IP))


def _made(
    message: int, ifindex: int, parent: int, handle: int, kind: str, options: bytes, info: int = 0
) -> Request:
    head = TCMSG.pack(socket.AF_UNSPEC, ifindex, handle, parent, info)
    named = attribute(_TCA_KIND, kind.encode() + b"\0")
    return message, CREATE, head + named + attribute(_TCA_OPTIONS, options)

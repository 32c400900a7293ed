"""pcapng files that a test writes itself, block by block, with struct alone."""

import struct

from tests.made_captures import Order

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
NAME, RESOLUTION, OFFSET, INTERFACE_DROPS, SYSTEM_DROPS, DROPCOUNT = 2, 9, 14, 5, 7, 4


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def block(kind: int, body: bytes, order: Order = "<", nbytes: int | None = None) -> bytes:
    """`nbytes` is what its two lengths say, if not the truth."""
    length = struct.pack(order + "I", 12 + len(padded(body)) if nbytes is None else nbytes)
    return struct.pack(order + "I", kind) + length + padded(body) + length


def option(code: int, value: bytes, order: Order = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + padded(value)


def section(order: Order = "<", options: bytes = b"") -> bytes:
    return block(SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface(order: Order = "<", options: bytes = b"", link_type: int = 1, snaplen: int = 0) -> bytes:
    return block(INTERFACE, struct.pack(order + "HHI", link_type, 0, snaplen) + options, order)


def packet(
    ticks: int,
    frame: bytes,
    order: Order = "<",
    number: int = 0,
    wire_nbytes: int | None = None,
    options: bytes = b"",
) -> bytes:
    wire = len(frame) if wire_nbytes is None else wire_nbytes
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), wire)
    return block(PACKET, head + padded(frame) + options, order)


def old_packet(ticks: int, frame: bytes, order: Order = "<", number: int = 0) -> bytes:
    head = struct.pack(
        order + "HHIIII", number, 0xFFFF, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame)
    )
    return block(OLD_PACKET, head + padded(frame), order)


def simple_packet(frame: bytes, order: Order = "<", wire_nbytes: int | None = None) -> bytes:
    wire = len(frame) if wire_nbytes is None else wire_nbytes
    return block(SIMPLE_PACKET, struct.pack(order + "I", wire) + padded(frame), order)


def statistics(number: int, options: bytes, order: Order = "<") -> bytes:
    return block(STATISTICS, struct.pack(order + "III", number, 0, 0) + options, order)

"""The blocks of a pcapng file that describe packets: sections, interfaces, statistics.  Bytes to values."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from gradwire.traces.packets.packets import Interface

ByteOrder = Literal["little", "big"]
MAGIC = b"\x0a\x0d\x0d\x0a"  # a section header's kind, the same in both orders
MAX_OPTIONS = 1000
MAX_NAME = 100
_END, _NAME, _RESOLUTION, _OFFSET = 0, 2, 9, 14
_INTERFACE_DROPS, _SYSTEM_DROPS = 5, 7
_MICROSECONDS = 6


class BadBlock(Exception):
    """A block that cannot be read; the text says why, and neither where nor in which file."""


class Clock(NamedTuple):
    """As the options if_tsresol and if_tsoffset say it."""

    resolution: int = _MICROSECONDS
    offset_s: int = 0


def section_order(block: bytes) -> ByteOrder:
    """Of the section that this header opens."""
    magic = block[8:12]
    if magic == b"\x4d\x3c\x2b\x1a":
        return "little"
    if magic == b"\x1a\x2b\x3c\x4d":
        return "big"
    raise BadBlock("a section has an unknown byte-order mark")


def read_interface(body: bytes, order: ByteOrder) -> tuple[Interface, Clock]:
    """An interface description, without the block's kind and lengths."""
    if len(body) < 8:
        raise BadBlock("an interface's description is too short")
    name, clock = "", Clock()
    for code, value in _options(body[8:], order):
        if code == _NAME:
            name = _printable(value)
        elif code == _RESOLUTION and value:
            clock = clock._replace(resolution=value[0])
        elif code == _OFFSET and len(value) == 8:
            clock = clock._replace(offset_s=int.from_bytes(value, order, signed=True))
    power = clock.resolution & 0x7F
    if power > (63 if clock.resolution & 0x80 else 19):
        raise BadBlock(f"an interface's time resolution, 0x{clock.resolution:02x}, is impossible")
    if abs(clock.offset_s) > 1 << 32:
        raise BadBlock(f"an interface's time offset, {clock.offset_s} s, is impossible")
    link_type, snaplen = int.from_bytes(body[:2], order), int.from_bytes(body[4:8], order)
    return Interface(name, link_type, snaplen), clock


def read_dropped(body: bytes, order: ByteOrder) -> tuple[int, int | None]:
    """Statistics: the number of the interface in its section, and how many packets were lost there by the
    interface and by the system since the capture began; None if neither is given.
    """
    if len(body) < 12:
        raise BadBlock("an interface's statistics are too short")
    dropped = [
        int.from_bytes(value, order)
        for code, value in _options(body[12:], order)
        if code in (_INTERFACE_DROPS, _SYSTEM_DROPS) and len(value) == 8
    ]
    return int.from_bytes(body[:4], order), sum(dropped) if dropped else None


def _options(body: bytes, order: ByteOrder) -> Iterator[tuple[int, bytes]]:
    """Code and value of each; they end with the block, or earlier with the option that says so."""
    at = 0
    for _ in range(MAX_OPTIONS):
        if at + 4 > len(body):
            return
        code, nbytes = (int.from_bytes(body[i : i + 2], order) for i in (at, at + 2))
        if code == _END:
            return
        if at + 4 + nbytes > len(body):
            raise BadBlock("an option is longer than its block")
        yield code, body[at + 4 : at + 4 + nbytes]
        at += 4 + (nbytes + 3) // 4 * 4
    raise BadBlock(f"a block has more than {MAX_OPTIONS} options")


def _printable(value: bytes) -> str:
    text = value[:MAX_NAME].rstrip(b"\0").decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in text)

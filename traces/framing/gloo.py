"""gloo's wire format: the preamble that its TCP transport sends before every message, in both directions.

Source: gloo/transport/tcp/pair.h and gloo/types.h of pytorch/gloo, checked against the payloads of
torch 2.13. Each direction of a connection is a sequence of messages; the side that opened the
connection sends 8 bytes first (which of the peer's listening pairs it wants).  A message is 48 bytes,
six little-endian u64, and for data its payload.  Nothing here needs more than the standard library.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

PREAMBLE = struct.Struct("<6Q")  # nbytes, opcode, slot, offset, length, roffset
PREAMBLE_NBYTES = PREAMBLE.size
HELLO_NBYTES = 8
MAX_LENGTH = 1 << 40
P2P = 0
COLLECTIVES = {
    1: "gather",
    2: "allgather",
    3: "reduce",
    4: "allreduce",
    5: "scatter",
    6: "broadcast",
    7: "barrier",
    8: "alltoall",
    9: "reducescatter",  # gloo's own prefixes end with 8
    10: "topk",
    11: "gtopk",
}
PREFIXES = {name: prefix for prefix, name in COLLECTIVES.items()}
_TAG_BITS, _DELTA_BITS, _PREFIX_SHIFT = 32, 24, 56


class Opcode(IntEnum):
    """What a message is; data leaves only after both sides have said that they are ready."""

    SEND_BUFFER = 0
    DATA = 1  # gloo: SEND_UNBOUND_BUFFER
    SEND_READY = 2
    RECV_READY = 3

    @property
    def has_payload(self) -> bool:
        return self in (Opcode.SEND_BUFFER, Opcode.DATA)


class Slot(NamedTuple):
    """`prefix` names the collective (COLLECTIVES; 0: send/recv), `tag` is the collective's counter."""

    prefix: int
    tag: int
    delta: int = 0


class Preamble(NamedTuple):
    """`nbytes` is the distance to the next preamble; `length` the payload's size, sent or announced."""

    nbytes: int
    opcode: Opcode
    slot: int
    length: int


def pack_slot(prefix: int, tag: int, delta: int = 0) -> int:
    """The u64 of a collective's messages; for send/recv the slot is the user's tag itself."""
    if prefix not in COLLECTIVES:
        raise ValueError(f"no gloo collective has prefix {prefix}")
    if not 0 <= tag < 1 << _TAG_BITS or not 0 <= delta < 1 << _DELTA_BITS:
        raise ValueError(f"a gloo tag has 32 bits and a delta 24, got {tag} and {delta}")
    return prefix << _PREFIX_SHIFT | tag << _DELTA_BITS | delta


def unpack_slot(slot: int) -> Slot:
    """Prefix 0 is send/recv, whose whole slot is the tag."""
    prefix = slot >> _PREFIX_SHIFT
    if prefix == P2P:
        return Slot(P2P, slot)
    return Slot(prefix, slot >> _DELTA_BITS & (1 << _TAG_BITS) - 1, slot & (1 << _DELTA_BITS) - 1)


def encode_preamble(opcode: int, slot: int, length: int) -> bytes:
    """The 48 bytes before a payload of `length`, or of a message that announces one."""
    if not 0 <= length <= MAX_LENGTH:
        raise ValueError(f"a gloo message has 0 to {MAX_LENGTH} bytes, got {length}")
    nbytes = PREAMBLE_NBYTES + (length if Opcode(opcode).has_payload else 0)
    return PREAMBLE.pack(nbytes, opcode, slot, 0, length, 0)


def decode_preamble(data: bytes) -> Preamble | None:
    """None when the first 48 bytes are not a preamble that gloo would write."""
    nbytes, opcode, slot, offset, length, roffset = PREAMBLE.unpack_from(data)
    if opcode > Opcode.RECV_READY or length > MAX_LENGTH or slot >> _PREFIX_SHIFT not in (P2P, *COLLECTIVES):
        return None
    kind = Opcode(opcode)
    if nbytes != PREAMBLE_NBYTES + (length if kind.has_payload else 0):
        return None
    if max(offset, roffset) > (MAX_LENGTH if kind is Opcode.SEND_BUFFER else 0):
        return None
    return Preamble(nbytes, kind, slot, length)

"""The header of in-network aggregation, between the UDP header and the numbers that switches add up.

24 bytes in network order, then `count` signed 32-bit integers, also in network order:

     0  version    8 bits   1
     1  kind       8 bits   see Kind
     2  job       16 bits   whose sum it is
     4  epoch     16 bits   counts how often the job's tree was built again
     6  count     16 bits   elements that follow; 0 in a *bare* packet
     8  chunk     32 bits   the position of these elements in all that the job sends in this epoch
    12  peak      32 bits   signed; the switches pass on the largest of the children's
    16  seen      64 bits   STATUS: the children whose contributions are in, bit i for child i; else 0

Slots with two versions, a bitmap of workers and a sum that is kept for late retransmissions are SwitchML's
(Sapio et al., NSDI 2021); so is a block's exponent that is agreed on one round ahead, here `peak`.  Other
than there the packet does not say whose it is: the switch knows that from the port (docs/aggregation.md).
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
FIRST_PORT = 0xBEE0  # UDP; a tree has one port of its own.  SwitchML's range begins there too
DISSECTED_PORTS = range(FIRST_PORT, FIRST_PORT + 32)  # where captures are looked through for this header
NO_PEAK = -(1 << 31)
ELEMENT_NBYTES = 4
_HEADER = struct.Struct("!BBHHHIiQ")
HEADER_NBYTES = _HEADER.size


class PacketKind(IntEnum):
    """CONTRIBUTION goes up, all others come down.

    STATUS answers a retransmission that cannot be answered with a RESULT yet; its `count` is how many levels
    above the switch that the host is at it was made, and no element follows.  EPOCH answers a packet of
    another epoch than the switch's, which it names.
    """

    CONTRIBUTION = 1
    RESULT = 2
    STATUS = 3
    EPOCH = 4


@dataclass(frozen=True, slots=True)
class Header:
    kind: int
    job: int
    epoch: int
    count: int
    chunk: int
    peak: int = NO_PEAK
    seen: int = 0
    version: int = VERSION

    @property
    def n_elements(self) -> int:
        """How many elements must follow."""
        return self.count if self.kind in (PacketKind.CONTRIBUTION, PacketKind.RESULT) else 0


def encode(header: Header) -> bytes:
    """Raise struct.error for a number that has no room."""
    return _HEADER.pack(
        header.version,
        header.kind,
        header.job,
        header.epoch,
        header.count,
        header.chunk,
        header.peak,
        header.seen,
    )


def decode(payload: bytes) -> Header | None:
    """The header of a UDP payload; None if it is none, or if the elements that it announces are not there.

    Elements may be cut off by a capture: what follows may be less than announced, never more.
    """
    if len(payload) < HEADER_NBYTES:
        return None
    version, kind, job, epoch, count, chunk, peak, seen = _HEADER.unpack_from(payload)
    header = Header(kind, job, epoch, count, chunk, peak, seen, version)
    known = version == VERSION and kind in tuple(PacketKind)
    fits = len(payload) <= HEADER_NBYTES + header.n_elements * ELEMENT_NBYTES
    return header if known and fits else None

"""Walks through classic pcap files, including the modified format of Kuznetzov's patched libpcap.

The format: ietf-opsawg-pcap; both byte orders, µs and ns.
"""

from typing import Literal, NamedTuple

import numpy as np

from gradwire.traces.packets.columns import Octets, Records, empty_records, first_records
from gradwire.traces.packets.jit import compiled
from gradwire.traces.packets.packets import Interface
from gradwire.traces.packets.walkers import MAX_RECORD_NBYTES, ROWS_PER_WALK, Walked

FILE_HEADER_NBYTES = 24
RECORD_HEADER_NBYTES = 16


class _Variant(NamedTuple):
    unit_ns: int
    record_header_nbytes: int


_VARIANTS = {
    0xA1B2C3D4: _Variant(1000, RECORD_HEADER_NBYTES),
    0xA1B23C4D: _Variant(1, RECORD_HEADER_NBYTES),
    0xA1B2CD34: _Variant(1000, 24),  # interface, protocol and direction follow in each record
}
NONE, BAD_LENGTH, ZEROS = range(3)
_FAULTS = ("", "a packet's length is impossible", "zeros, and no packet")  # by number
ByteOrder = Literal["little", "big"]
_ORDERS: tuple[ByteOrder, ...] = ("little", "big")


class PcapWalker:
    """`header` is the file's, FILE_HEADER_NBYTES long, and begins with one of the magic numbers."""

    start = FILE_HEADER_NBYTES

    def __init__(self, header: bytes) -> None:
        order = byte_order(header)
        if order is None:
            raise ValueError("not a pcap header")
        self._is_big_endian = order == "big"
        self._variant = _VARIANTS[int.from_bytes(header[:4], order)]
        self.interfaces = (
            Interface(
                link_type=int.from_bytes(header[20:24], order) & 0xFFFF,  # above: length of the FCS
                snaplen=int.from_bytes(header[16:20], order),
            ),
        )

    def walk(self, data: Octets, at: int) -> Walked:
        """See Walker."""
        records = empty_records(ROWS_PER_WALK)
        count, end, fault = _walk(data, at, self._is_big_endian, self._variant, records)
        records.interface[:count] = 0
        return Walked(first_records(records, count), end, _FAULTS[fault])


def byte_order(header: bytes) -> ByteOrder | None:
    """None if these are not the first bytes of a pcap file."""
    return next((order for order in _ORDERS if int.from_bytes(header[:4], order) in _VARIANTS), None)


@compiled
def _u32(data: Octets, at: int, is_big_endian: bool) -> int:
    place = np.uint64(at)  # unsigned: numba need not ask each time whether it counts from the end
    first, second = np.int64(data[place]), np.int64(data[place + np.uint64(1)])
    third, fourth = np.int64(data[place + np.uint64(2)]), np.int64(data[place + np.uint64(3)])
    if is_big_endian:
        return int(first << 24 | second << 16 | third << 8 | fourth)
    return int(first | second << 8 | third << 16 | fourth << 24)


@compiled
def _walk(
    data: Octets, at: int, is_big_endian: bool, variant: _Variant, records: Records
) -> tuple[int, int, int]:
    """How many rows were filled, where the next record begins, and which of the faults it has.

    A file system may leave zeros at the end of a file that was being written when the machine went down.
    """
    row = 0
    while row < len(records.time_ns) and at + variant.record_header_nbytes <= len(data):
        captured = _u32(data, at + 8, is_big_endian)
        frame = at + variant.record_header_nbytes
        if captured > MAX_RECORD_NBYTES:
            return row, at, BAD_LENGTH
        if frame + captured > len(data):
            break
        seconds, fraction = _u32(data, at, is_big_endian), _u32(data, at + 4, is_big_endian)
        on_wire = _u32(data, at + 12, is_big_endian)
        if seconds | fraction | captured | on_wire == 0:
            return row, at, ZEROS
        records.time_ns[row] = seconds * 1_000_000_000 + fraction * variant.unit_ns
        records.captured_nbytes[row] = captured
        records.wire_nbytes[row] = max(captured, min(on_wire, MAX_RECORD_NBYTES))
        records.frame_at[row] = frame
        row += 1
        at = frame + captured
    return row, at, NONE

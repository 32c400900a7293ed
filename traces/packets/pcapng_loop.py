"""The compiled loop over the blocks of a pcapng file: it finds packets and skips unknown blocks."""

from typing import NamedTuple

import numpy as np

from gradwire.traces.packets.columns import Ints, Octets, Records
from gradwire.traces.packets.jit import compiled
from gradwire.traces.packets.walkers import MAX_RECORD_NBYTES

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
EPB_DROPCOUNT = 4
MAX_INTERFACES = 1 << 16
MAX_BLOCK_NBYTES = 2 * MAX_RECORD_NBYTES  # of a block that is read: options come on top of a packet
MAX_S = 9_223_372_035  # what int64 holds in ns, and a second to spare
# Why the loop stopped: no more whole packets; no more rows; a block for Python to read; faults.
MORE, FULL, ASK, BAD_LENGTH, BAD_TRAILER, BAD_CAPTURED, BAD_INTERFACE = range(7)
POWERS = 10 ** np.arange(20, dtype=np.uint64)


class State(NamedTuple):
    """What the loop knows: arrays by interface, numbered through all sections."""

    resolution: Octets
    offset_s: Ints
    snaplen: Ints
    drops: Ints
    section: Ints  # [the first interface of this section, the number of interfaces so far]
    last_ns: Ints  # [the time of the last packet that had one: a simple packet has none]


def new_state() -> State:
    """No interface yet."""
    return State(
        resolution=np.zeros(MAX_INTERFACES, np.uint8),
        offset_s=np.zeros(MAX_INTERFACES, np.int64),
        snaplen=np.zeros(MAX_INTERFACES, np.int64),
        drops=np.zeros(MAX_INTERFACES, np.int64),
        section=np.zeros(2, np.int64),
        last_ns=np.zeros(1, np.int64),
    )


@compiled
def _u32(data: Octets, at: int, is_big_endian: bool) -> int:
    first, second = np.int64(data[at]), np.int64(data[at + 1])
    third, fourth = np.int64(data[at + 2]), np.int64(data[at + 3])
    if is_big_endian:
        return int(first << 24 | second << 16 | third << 8 | fourth)
    return int(first | second << 8 | third << 16 | fourth << 24)


@compiled
def _u16(data: Octets, at: int, is_big_endian: bool) -> int:
    first, second = np.int64(data[at]), np.int64(data[at + 1])
    return int(first << 8 | second) if is_big_endian else int(first | second << 8)


@compiled
def walk_blocks(
    data: Octets, at: int, is_big_endian: bool, state: State, records: Records, row: int
) -> tuple[int, int, int]:
    """The next free row, where the next block begins, and why the loop stopped there."""
    while at + 12 <= len(data):
        kind, nbytes = _u32(data, at, is_big_endian), _u32(data, at + 4, is_big_endian)
        if kind in (SECTION, INTERFACE, STATISTICS):  # a section's kind reads the same in both orders
            return row, at, ASK
        if nbytes < 12 or nbytes % 4:
            return row, at, BAD_LENGTH
        is_packet = kind in (PACKET, OLD_PACKET, SIMPLE_PACKET)
        if is_packet and (nbytes > MAX_BLOCK_NBYTES or nbytes < (16 if kind == SIMPLE_PACKET else 32)):
            return row, at, BAD_LENGTH
        if at + nbytes > len(data):
            return row, (at if is_packet else at + nbytes), MORE
        if _u32(data, at + nbytes - 4, is_big_endian) != nbytes:
            return row, at, BAD_TRAILER
        if is_packet:
            if row == len(records.time_ns):
                return row, at, FULL
            fault = _packet(data, at, kind, nbytes, is_big_endian, state, records, row)
            if fault:
                return row, at, fault
            row += 1
        at += nbytes
    return row, at, MORE


@compiled
def _packet(
    data: Octets,
    at: int,
    kind: int,
    nbytes: int,
    is_big_endian: bool,
    state: State,
    records: Records,
    row: int,
) -> int:
    """Fill the row; what is wrong with the block, or 0."""
    interface, frame, room = 0, at + 28, nbytes - 32
    if kind == PACKET:
        interface = _u32(data, at + 8, is_big_endian)
    elif kind == OLD_PACKET:
        interface = _u16(data, at + 8, is_big_endian)
    number = state.section[0] + interface
    if number >= state.section[1]:
        return BAD_INTERFACE
    if kind == SIMPLE_PACKET:
        frame, room = at + 12, nbytes - 16
        wire = _u32(data, at + 8, is_big_endian)
        captured = min(wire, room, state.snaplen[number] or wire)
    else:
        captured, wire = _u32(data, at + 20, is_big_endian), _u32(data, at + 24, is_big_endian)
        high, low = _u32(data, at + 12, is_big_endian), _u32(data, at + 16, is_big_endian)
        ticks = np.uint64(high) << np.uint64(32) | np.uint64(low)
        state.last_ns[0] = _time_ns(ticks, state.resolution[number], state.offset_s[number])
    if captured > room or captured > MAX_RECORD_NBYTES:
        return BAD_CAPTURED
    records.time_ns[row] = state.last_ns[0]
    records.wire_nbytes[row] = max(captured, min(wire, MAX_RECORD_NBYTES))
    records.captured_nbytes[row] = captured
    records.frame_at[row] = frame
    records.interface[row] = number
    if kind == PACKET:
        options = frame + (captured + 3) // 4 * 4
        state.drops[number] += _drops(data, options, at + nbytes - 4, is_big_endian)
    return 0


@compiled
def _drops(data: Octets, at: int, end: int, is_big_endian: bool) -> int:
    """The count of epb_dropcount: packets lost on this interface since the one before."""
    while at + 4 <= end:
        code, nbytes = _u16(data, at, is_big_endian), _u16(data, at + 2, is_big_endian)
        if code == 0:
            break
        if code == EPB_DROPCOUNT and nbytes == 8 and at + 12 <= end:
            low = at + (8 if is_big_endian else 4)  # more than 2³² of them were not lost between two
            return _u32(data, low, is_big_endian)
        at += 4 + (nbytes + 3) // 4 * 4
    return 0


@compiled
def _time_ns(ticks: np.uint64, resolution: int, offset_s: int) -> int:
    """The option if_tsresol: its highest bit chooses powers of two.  Rounded down; kept within int64."""
    if resolution & 0x80:
        shift = np.uint64(resolution & 0x7F)
        seconds = ticks >> shift
        fraction = ticks & ((np.uint64(1) << shift) - np.uint64(1))
        half = np.uint64(32)
        if shift <= half:
            nanoseconds = fraction * POWERS[9] >> shift
        else:  # in two halves, as the product has more than 64 bits
            low = (fraction & np.uint64(0xFFFFFFFF)) * POWERS[9] >> half
            nanoseconds = ((fraction >> half) * POWERS[9] + low) >> (shift - half)
    else:
        seconds = ticks // POWERS[resolution]
        fraction = ticks % POWERS[resolution]
        nanoseconds = (
            fraction * POWERS[9 - resolution] if resolution <= 9 else fraction // POWERS[resolution - 9]
        )
    whole = MAX_S if seconds > np.uint64(MAX_S) else int(np.int64(seconds))
    return max(-MAX_S, min(whole + offset_s, MAX_S)) * 1_000_000_000 + int(np.int64(nanoseconds))

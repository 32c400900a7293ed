"""The columns of `Packets` while a file is read.

Two steps make them: a walker of a file format finds out where the packets lie (Records), then one loop,
the same for all formats, decodes their headers (Headers).  Named tuples, because numba takes those.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.packets import NO_SHIFT

Octets = npt.NDArray[np.uint8]
Shorts = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Longs = npt.NDArray[np.uint64]


class Records(NamedTuple):
    """What the file says of each packet; the meanings are those of Packets."""

    time_ns: Ints
    wire_nbytes: Counts
    captured_nbytes: Counts
    frame_at: Ints
    interface: Shorts


class Headers(NamedTuple):
    """What each packet's own bytes say; the meanings are those of Packets."""

    network_offset: Octets
    ip_version: Octets
    protocol: Octets
    ip_id: Shorts
    src: Words
    dst: Words
    sport: Shorts
    dport: Shorts
    flags: Octets
    seq: Words
    ack: Words
    window: Shorts
    window_shift: Octets
    payload_nbytes: Counts
    visible_nbytes: Counts
    payload_at: Ints


def empty_records(count: int) -> Records:
    """Columns to be filled from their beginning on."""
    return Records(
        time_ns=np.empty(count, np.int64),
        wire_nbytes=np.empty(count, np.int32),
        captured_nbytes=np.empty(count, np.int32),
        frame_at=np.empty(count, np.int64),
        interface=np.empty(count, np.uint16),
    )


def first_records(records: Records, count: int) -> Records:
    """A copy, so that the rest of the columns is given back, if there is a rest."""
    if count == len(records.time_ns):
        return records
    return Records._make(column[:count].copy() for column in records)


def joined_records(parts: Sequence[Records]) -> Records:
    """All of them as one."""
    if len(parts) == 1:
        return parts[0]
    return Records._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def empty_headers(count: int) -> Headers:
    """Columns that say of every packet: no TCP or UDP."""
    return Headers(
        network_offset=np.zeros(count, np.uint8),
        ip_version=np.zeros(count, np.uint8),
        protocol=np.zeros(count, np.uint8),
        ip_id=np.zeros(count, np.uint16),
        src=np.zeros(count, np.uint32),
        dst=np.zeros(count, np.uint32),
        sport=np.zeros(count, np.uint16),
        dport=np.zeros(count, np.uint16),
        flags=np.zeros(count, np.uint8),
        seq=np.zeros(count, np.uint32),
        ack=np.zeros(count, np.uint32),
        window=np.zeros(count, np.uint16),
        window_shift=np.full(count, NO_SHIFT, np.uint8),
        payload_nbytes=np.zeros(count, np.int32),
        visible_nbytes=np.zeros(count, np.int32),
        payload_at=np.zeros(count, np.int64),
    )


ROW_NBYTES = sum(column.itemsize for column in (*empty_records(0), *empty_headers(0)))

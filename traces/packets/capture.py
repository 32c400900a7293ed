"""Opens capture files of any format and returns their packets.  An edge module: it opens files.

pcap (also the modified one) and pcapng, plain or compressed by gzip or zstd, in files or pipes; which
it is, the first bytes say, not the name.  docs/schemas.md says what is understood inside.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwire.traces.packets.capturefile import FileReading
from gradwire.traces.packets.columns import ROW_NBYTES, Octets, Records, joined_records
from gradwire.traces.packets.openfile import Opened, free_nbytes
from gradwire.traces.packets.packets import BadCapture, Packets
from gradwire.traces.packets.pcap import FILE_HEADER_NBYTES
from gradwire.traces.packets.walkers import ROWS_PER_WALK
from gradwire.traces.units import show_nbytes

SUFFIXES = tuple(f".{kind}{packed}" for packed in ("", ".gz", ".zst") for kind in ("pcap", "pcapng", "cap"))
PIECE_NBYTES = 16 << 20
_CUT_OFF = "the last packet is cut off"


def read_capture(path: Path, budget_nbytes: int | None = None) -> Packets:
    """All packets of a file; the bytes of a plain one stay in the file, mapped into memory.

    `budget_nbytes` bounds the columns, and the bytes if they must be unpacked; half of what this
    process may still take if None.  A packet that is cut off, or a length that cannot be, ends the reading:
    `truncated`.
    Raises BadCapture, also if there is no whole packet or no room; OSError.
    """
    budget = free_nbytes() // 2 if budget_nbytes is None else budget_nbytes
    with Opened(path) as source:
        head = source.read(FILE_HEADER_NBYTES)
        reading = FileReading(path, head, source.fault)
        data = source.mapped() if source.is_plain else _unpacked(source, head, budget)
        records, at, fault = _all_records(reading, data, budget - len(data) * (not source.is_plain))
        fault = fault or source.fault or _CUT_OFF * (at != len(data))
    return reading.packets(data, records, _placed(fault, at))


def packet_blocks(path: Path, piece_nbytes: int = PIECE_NBYTES) -> Iterator[Packets]:
    """The packets of a file of any length, some at a time: memory stays within a few `piece_nbytes`.

    Each block has its own `data`.  Positions of addresses and interfaces are the same in all blocks, and
    later blocks may have more of them.  Only the last one says whether the file is `truncated`, and what
    its interfaces dropped in all.  Raises like read_capture, also between blocks.
    """
    with Opened(path) as source:
        data = source.read(max(piece_nbytes, FILE_HEADER_NBYTES))
        reading = FileReading(path, data)
        at, begin = reading.walker.start, 0  # the place in `data`, and that of `data` in the file
        last = None
        while True:
            records, at, fault = reading.walker.walk(data, at)
            if len(records.time_ns):
                if last:
                    yield last
                last = reading.packets(data, records, "")
            if fault:
                break
            if len(records.time_ns) == ROWS_PER_WALK:
                continue
            more = source.read(piece_nbytes)
            if not len(more):
                fault = source.fault or _CUT_OFF * (at != len(data))
                break
            keep = min(at, len(data))
            data, begin, at = _joined(data[keep:], more), begin + keep, at - keep
    if last is None:
        last = reading.packets(data, records, _placed(fault, begin + at))
    interfaces = reading.walker.interfaces
    yield replace(last, truncated=bool(fault), fault=_placed(fault, begin + at), interfaces=interfaces)


def _all_records(reading: FileReading, data: Octets, budget_nbytes: int) -> tuple[Records, int, str]:
    """The packets, where they end, and what is wrong there."""
    parts: list[Records] = []
    at, fault = reading.walker.start, ""
    while not parts or (len(parts[-1].time_ns) == ROWS_PER_WALK and not fault):
        records, at, fault = reading.walker.walk(data, at)
        parts.append(records)
        if sum(len(part.time_ns) for part in parts) * ROW_NBYTES > budget_nbytes:
            raise BadCapture(_no_room(reading.path, budget_nbytes))
    return joined_records(parts), at, fault


def _unpacked(source: Opened, head: Octets, budget_nbytes: int) -> Octets:
    """All of it, beginning with `head`."""
    data = bytearray(head.tobytes())
    try:
        while len(piece := source.read(PIECE_NBYTES)):
            data += piece.data
            if len(data) > budget_nbytes:
                raise BadCapture(_no_room(source.path, budget_nbytes))
    except MemoryError:
        raise BadCapture(_no_room(source.path, len(data))) from None
    whole = np.frombuffer(data, np.uint8)
    whole.flags.writeable = False
    return whole


def _joined(first: Octets, second: Octets) -> Octets:
    if not len(first):
        return second
    both = np.concatenate([first, second])
    both.flags.writeable = False
    return both


def _placed(fault: str, at: int) -> str:
    return f"at byte {at:,}: {fault}" if fault else ""


def _no_room(path: Path, budget_nbytes: int) -> str:
    return (
        f"{path}: reading it takes more than the allowed {show_nbytes(budget_nbytes)} of memory: give a part "
        f"of it, for example from `editcap -c 1000000 {path.name} part.pcapng`"
    )

"""Opens capture files of any format and returns their packets.  An edge module: it opens files.

pcap (also the modified one) and pcapng, plain or compressed by gzip or zstd, in files or pipes; which
it is, the first bytes say, not the name.  docs/schemas.md says what is understood inside.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwire.traces.memory import free_nbytes
from gradwire.traces.packets.addresses import MAX_ADDRESSES, Addresses
from gradwire.traces.packets.columns import ROW_NBYTES, Octets, Records, empty_headers, joined_records
from gradwire.traces.packets.decode import LINK_TYPES, decode
from gradwire.traces.packets.openfile import Opened
from gradwire.traces.packets.packets import BadCapture, Packets
from gradwire.traces.packets.pcap import FILE_HEADER_NBYTES, PcapWalker, byte_order
from gradwire.traces.packets.pcapng import PcapngWalker
from gradwire.traces.packets.pcapng_blocks import MAGIC
from gradwire.traces.packets.walkers import ROWS_PER_WALK, Walker
from gradwire.traces.units import show_nbytes

SUFFIXES = tuple(f".{kind}{packed}" for packed in ("", ".gz", ".zst") for kind in ("pcap", "pcapng", "cap"))
PIECE_NBYTES = 16 << 20
_CUT_OFF = "the last packet is cut off"


class FileReading:
    """`walker` goes through the bytes; what it finds becomes Packets here."""

    def __init__(self, path: Path, head: Octets, fault: str = "") -> None:
        """`head` is the beginning of the file, at least FILE_HEADER_NBYTES of it if it has as many.

        `fault` is why it ended early, "" if it did not.
        """
        self.path = path
        self.walker = _walker(path, head[:FILE_HEADER_NBYTES].tobytes(), fault)
        self._addresses = Addresses()

    def packets(self, data: Octets, records: Records, fault: str) -> Packets:
        """`fault` is why the file could not be read further, "" if it could."""
        interfaces = self.walker.interfaces
        if not len(records.time_ns):
            reason = f" ({fault})" if fault else ""
            raise BadCapture(
                f"{self.path}: it holds no complete packet{reason}: capture again, or leave the file out"
            )
        link_types = [interface.link_type for interface in interfaces]
        if not LINK_TYPES & set(link_types):
            raise BadCapture(
                f"{self.path}: gradwire does not read link type "
                f"{', '.join(map(str, sorted(set(link_types))))}: "
                "capture on an Ethernet interface, or on `any`"
            )
        headers = empty_headers(len(records.time_ns))
        n_cut, fits = decode(data, records, np.array(link_types, np.int32), self._addresses.table, headers)
        if not fits:
            raise BadCapture(
                f"{self.path}: it has more than {MAX_ADDRESSES:,} addresses, as in a scan or an attack: "
                f"keep the job's packets only, with `tshark -r {self.path.name} -Y ip.addr==10.0.0.0/8 "
                "-w job.pcapng`"
            )
        return Packets(
            path=self.path,
            data=data,
            truncated=bool(fault),
            addresses=self._addresses.texts(),
            **records._asdict(),
            **headers._asdict(),
            interfaces=interfaces,
            fault=fault,
            n_cut=n_cut,
        )


def _walker(path: Path, head: bytes, fault: str) -> Walker:
    if head[:4] == MAGIC:
        return PcapngWalker()
    if len(head) == FILE_HEADER_NBYTES and byte_order(head):
        return PcapWalker(head)
    what = fault or ("it is not a pcap or pcapng file" if head else "it is empty")
    raise BadCapture(f"{path}: {what}: give captures made by tcpdump -w, or a folder of them")


def read_capture(path: Path, budget_nbytes: int | None = None) -> Packets:
    """All packets of a file; the bytes of a plain one stay in the file, mapped into memory.

    `budget_nbytes` bounds the columns, and the bytes if they must be unpacked; half of what this
    process may still take if None.  A packet that is cut off, zeros in the place of one, or a length that
    cannot be, ends the reading: `truncated`.
    Raises BadCapture, also if there is no whole packet or no room; OSError.
    """
    budget = free_nbytes() // 2 if budget_nbytes is None else budget_nbytes
    with Opened(path) as source:
        head = source.read(FILE_HEADER_NBYTES)
        reading = FileReading(path, head, source.fault)
        parts: list[Records] = []
        if source.is_plain:
            data = source.mapped()
            at, fault = _walk(reading, data, reading.walker.start, parts, budget)
        else:
            data, at, fault = _unpacked(reading, source, head, parts, budget)
        fault = fault or source.fault or _CUT_OFF * (at != len(data))
    return reading.packets(data, joined_records(parts), _placed(fault, at))


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


def _walk(
    reading: FileReading, data: Octets, at: int, parts: list[Records], budget_nbytes: int
) -> tuple[int, str]:
    """Append the packets from byte `at` on to `parts`; where they end, and what is wrong there."""
    while True:
        records, at, fault = reading.walker.walk(data, at)
        parts.append(records)
        if sum(len(part.time_ns) for part in parts) * ROW_NBYTES > budget_nbytes:
            raise BadCapture(_no_room(reading.path, budget_nbytes))
        if fault or len(records.time_ns) < ROWS_PER_WALK:
            return at, fault


def _unpacked(
    reading: FileReading, source: Opened, head: Octets, parts: list[Records], budget_nbytes: int
) -> tuple[Octets, int, str]:
    """The bytes that packets were found in, beginning with `head`, and what `_walk` says of them.

    Nothing after a fault is unpacked: it may be a thousand times as long as the file.
    """
    data = bytearray(head.tobytes())
    at, fault, is_more = reading.walker.start, "", True
    try:
        while is_more and not fault:
            piece = source.read(PIECE_NBYTES)
            is_more = len(piece) == PIECE_NBYTES
            data += piece.data
            if len(data) > budget_nbytes:
                raise BadCapture(_no_room(source.path, budget_nbytes))
            at, fault = _walk(reading, _octets(data), at, parts, budget_nbytes - len(data))
    except MemoryError:
        raise BadCapture(_no_room(source.path, len(data))) from None
    return _octets(data), at, fault


def _octets(data: bytearray) -> Octets:
    """The same bytes, not a copy: `data` can't grow while anybody has them."""
    octets = np.frombuffer(data, np.uint8)
    octets.flags.writeable = False
    return octets


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

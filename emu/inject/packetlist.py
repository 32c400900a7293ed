"""The packets to send, as columns, and how packets that are too long are cut."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from gradwire.emu.inject.candidates import Chosen
from gradwire.emu.inject.timetable import Ints, steady
from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES
from gradwire.traces.packets.packets import FIN, PSH, TCP, Packets

MAX_IP_NBYTES = 65_535
_CWR = 0x80
_DATA_OFFSET_AT = 12  # in TCP's header
_UDP_HEADER_NBYTES = 8


@dataclass(frozen=True)
class Pieces:
    """One entry for each packet to send, in the order of time.

    It is a packet of file number `file`, in its row `row`, or a part of one: `payload_nbytes` from `offset`
    of its payload on.  `recorded_ns` never goes backwards; `src` and `dst` are hosts' numbers;
    `header_nbytes` are those of IP and TCP or UDP together, `segment_nbytes` is the most payload beside them
    in a packet of the fabric's MTU; the other columns are as in Packets.
    """

    file: npt.NDArray[np.uint16]
    row: Ints
    recorded_ns: Ints
    src: npt.NDArray[np.uint16]
    dst: npt.NDArray[np.uint16]
    protocol: npt.NDArray[np.uint8]
    sport: npt.NDArray[np.uint16]
    dport: npt.NDArray[np.uint16]
    seq: npt.NDArray[np.uint32]
    ack: npt.NDArray[np.uint32]
    ip_id: npt.NDArray[np.uint16]
    flags: npt.NDArray[np.uint8]
    header_nbytes: npt.NDArray[np.uint16]
    segment_nbytes: npt.NDArray[np.uint16]
    offset: npt.NDArray[np.int32]
    payload_nbytes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.row)

    def taken(self, index: npt.NDArray[np.integer] | slice) -> "Pieces":
        return Pieces(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    @property
    def n_segments(self) -> Ints:
        """How many packets the wire of a real network would carry for each."""
        whole: Ints = -(-self.payload_nbytes.astype(np.int64) // self.segment_nbytes)
        return np.maximum(whole, 1, dtype=np.int64)

    @property
    def wire_nbytes(self) -> Ints:
        """Octets on the wire, with headers for each segment, as the fabric's shapers count them."""
        headers = self.header_nbytes.astype(np.int64) + ETHERNET_NBYTES
        return self.n_segments * headers + self.payload_nbytes


def pieces(files: Sequence[Chosen], mtu_nbytes: int) -> tuple[Pieces, list[str]]:
    """All packets of all files in the order of time, whole, for a fabric of this MTU, and notes about the
    clocks.
    """
    parts, notes = [], []
    for number, file in enumerate(files):
        clock = steady(file.packets.time_ns[file.rows])
        parts.append(_of_file(number, file, clock.time_ns, mtu_nbytes))
        if clock.n_backward:
            notes.append(
                f"{file.packets.path}: the clock goes backwards {clock.n_backward} times, by "
                f"{clock.largest_ns / 1e6:.3g} ms at most; deadlines were made monotonic"
            )
    joined = Pieces(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Pieces)})
    return joined.taken(np.argsort(joined.recorded_ns, kind="stable")), notes


def _of_file(number: int, file: Chosen, recorded_ns: Ints, mtu_nbytes: int) -> Pieces:
    packets, rows = file.packets, file.rows
    header_nbytes = _header_nbytes(packets, rows)
    return Pieces(
        file=np.full(len(rows), number, np.uint16),
        row=rows,
        recorded_ns=recorded_ns,
        src=file.src.astype(np.uint16),
        dst=file.dst.astype(np.uint16),
        protocol=packets.protocol[rows],
        sport=packets.sport[rows],
        dport=packets.dport[rows],
        seq=packets.seq[rows],
        ack=packets.ack[rows],
        ip_id=packets.ip_id[rows],
        flags=packets.flags[rows],
        header_nbytes=header_nbytes,
        segment_nbytes=(mtu_nbytes - header_nbytes).astype(np.uint16),
        offset=np.zeros(len(rows), np.int32),
        payload_nbytes=packets.payload_nbytes[rows],
    )


def _header_nbytes(packets: Packets, rows: Ints) -> npt.NDArray[np.uint16]:
    """As the headers themselves say it: their ends may be cut off."""
    ip = packets.frame_at[rows] + packets.network_offset[rows]
    nbytes = (packets.data[ip] & 15).astype(np.int64) * 4
    is_tcp = packets.protocol[rows] == TCP
    offsets = packets.data[np.where(is_tcp, ip + nbytes + _DATA_OFFSET_AT, 0)] >> 4
    transport = np.where(is_tcp, offsets.astype(np.int64) * 4, _UDP_HEADER_NBYTES)
    whole: npt.NDArray[np.uint16] = (nbytes + transport).astype(np.uint16)
    return whole


def cut(whole: Pieces, exact_mtu: bool) -> Pieces:
    """Packets that can be sent: TCP of at most 64 KiB, or with `exact_mtu` of the MTU; UDP always of the MTU.

    Pieces are what the kernel's segmentation makes of a packet: sequence and IP numbers go on, FIN and PSH
    are the last one's, CWR the first one's.
    """
    limit = whole.segment_nbytes.astype(np.int64)
    if not exact_mtu:
        most = (MAX_IP_NBYTES - whole.header_nbytes.astype(np.int64)) // limit * limit
        limit = np.where(whole.protocol == TCP, most, limit)
    n_pieces = np.maximum(1, -(-whole.payload_nbytes.astype(np.int64) // limit))
    if n_pieces.max(initial=1) == 1:
        return whole
    source = np.repeat(np.arange(len(whole)), n_pieces)
    which = np.arange(len(source)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    parts = whole.taken(source)
    offset = which * limit[source]
    is_first, is_last = which == 0, which == n_pieces[source] - 1
    flags = np.where(is_last, parts.flags, parts.flags & ~np.uint8(FIN | PSH))
    is_tcp = parts.protocol == TCP
    return replace(
        parts,
        seq=np.where(is_tcp, parts.seq + offset.astype(np.uint32), parts.seq),
        ip_id=parts.ip_id + which.astype(np.uint16),
        flags=np.where(is_first, flags, flags & ~np.uint8(_CWR)),
        offset=offset.astype(np.int32),
        payload_nbytes=np.minimum(limit[source], parts.payload_nbytes - offset).astype(np.int32),
    )

"""Rewrites captured packets for the fabric: its MAC and IP addresses, and correct checksums.

What the snaplen cut off is zeros, which are not stored: a frame is a head and a number of zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.emu.inject.packetlist import Pieces
from gradwire.emu.inject.timetable import Ints
from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES
from gradwire.traces.packets.packets import TCP, Packets

Octets = npt.NDArray[np.uint8]

VNET_NBYTES = 10  # struct virtio_net_hdr, which PACKET_VNET_HDR puts before every frame
MAX_HEADS_NBYTES = 1 << 30
_CHUNK = 32_768  # packets rewritten at a time: some tens of MB of indices
_NEEDS_CSUM, _GSO_TCPV4, _GSO_ECN = 1, 1, 0x80  # linux/virtio_net.h
_CWR = 0x80
_CHECKSUM_AT = {True: 16, False: 6}  # in TCP's and in UDP's header


@dataclass(frozen=True)
class Frames:
    """Frame i is `head_nbytes[i]` octets of `heads` from `head_at[i]` on, then `zeros_nbytes[i]` zeros.

    Before the Ethernet header each has a virtio_net_hdr, of VNET_NBYTES.
    """

    heads: Octets
    head_at: Ints
    head_nbytes: Ints
    zeros_nbytes: Ints


def spans(starts: Ints, nbytes: Ints) -> Ints:
    """The indices of all octets of the spans that begin at `starts`, one after the other."""
    ends = np.cumsum(nbytes)
    return np.repeat(starts - (ends - nbytes), nbytes) + np.arange(ends[-1] if len(ends) else 0)


def rewritten(
    pieces: Pieces, captures: Sequence[Packets], addresses: Sequence[int], macs: Sequence[bytes]
) -> Frames:
    """The frames of `pieces`; `addresses` and `macs` are those of the hosts, by number.  Raise ValueError."""
    visible = visible_nbytes(pieces, captures)
    nbytes = VNET_NBYTES + ETHERNET_NBYTES + pieces.header_nbytes.astype(np.int64) + visible
    stride = nbytes + (nbytes & 1)  # so that every header is at an even place
    if (total := int(stride.sum())) > MAX_HEADS_NBYTES:
        raise ValueError(
            f"the capture holds {total / 1e9:.1f} GB to send, and {MAX_HEADS_NBYTES / 1e9:.1f} GB is the "
            "limit: cut off the payload with editcap -s 128, or cut the capture by time with -A and -B"
        )
    head_at = np.cumsum(stride) - stride
    heads = np.zeros(total, np.uint8)
    hosts = np.array(addresses, np.int64), np.frombuffer(b"".join(macs), np.uint8).reshape(-1, 6)
    for first in range(0, len(pieces), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        low = int(head_at[first])
        high = low + int(stride[chunk].sum())
        part, at = heads[low:high], head_at[chunk] - low
        of_part = pieces.taken(chunk)
        _copy(of_part, captures, visible[chunk], part, at)
        _readdress(of_part, *hosts, part, at)
    zeros = pieces.payload_nbytes - visible
    return Frames(heads, head_at, nbytes, zeros)


def visible_nbytes(pieces: Pieces, captures: Sequence[Packets]) -> Ints:
    """How much of each piece's payload is in its file."""
    visible = np.zeros(len(pieces), np.int64)
    for number, packets in enumerate(captures):
        mine = np.flatnonzero(pieces.file == number)
        visible[mine] = packets.visible_nbytes[pieces.row[mine]]
    shown: Ints = np.clip(visible - pieces.offset, 0, pieces.payload_nbytes)
    return shown


def _copy(pieces: Pieces, captures: Sequence[Packets], visible: Ints, out: Octets, at: Ints) -> None:
    """Headers from IP on and visible payload, as they are in the files."""
    at = at + VNET_NBYTES + ETHERNET_NBYTES
    for number in np.unique(pieces.file).tolist():
        packets, mine = captures[number], np.flatnonzero(pieces.file == number)
        row, header = pieces.row[mine], pieces.header_nbytes[mine].astype(np.int64)
        offset = packets.network_offset[row].astype(np.int64)
        captured = np.minimum(header, packets.captured_nbytes[row] - offset)  # options may be cut off
        out[spans(at[mine], captured)] = packets.data[spans(packets.frame_at[row] + offset, captured)]
        source = packets.payload_at[row] + pieces.offset[mine]
        out[spans(at[mine] + header, visible[mine])] = packets.data[spans(source, visible[mine])]


def _readdress(pieces: Pieces, addresses: Ints, macs: npt.NDArray[np.uint8], out: Octets, at: Ints) -> None:
    """Every field that is another on the fabric, or in this piece of the packet."""
    ethernet = at + VNET_NBYTES
    out[ethernet[:, None] + np.arange(6)] = macs[pieces.dst]
    out[ethernet[:, None] + np.arange(6, 12)] = macs[pieces.src]
    _put16(out, ethernet + 12, 0x0800)
    ip = ethernet + ETHERNET_NBYTES
    l4 = ip + (out[ip] & 15).astype(np.int64) * 4
    total = pieces.header_nbytes.astype(np.int64) + pieces.payload_nbytes
    src, dst = addresses[pieces.src], addresses[pieces.dst]
    _put16(out, ip + 2, total)
    _put16(out, ip + 4, pieces.ip_id)
    _put16(out, ip + 10, 0)
    for place, address in ((12, src), (16, dst)):
        _put16(out, ip + place, address >> 16)
        _put16(out, ip + place + 2, address & 0xFFFF)
    is_tcp = pieces.protocol == TCP
    tcp = np.flatnonzero(is_tcp)
    _put16(out, l4[tcp] + 4, pieces.seq[tcp] >> 16)
    _put16(out, l4[tcp] + 6, pieces.seq[tcp] & 0xFFFF)
    out[l4[tcp] + 13] = pieces.flags[tcp]
    udp = np.flatnonzero(~is_tcp)
    _put16(out, l4[udp] + 4, (total - (l4 - ip))[udp])
    checksum_at = l4 + np.where(is_tcp, _CHECKSUM_AT[True], _CHECKSUM_AT[False])
    _put16(out, checksum_at, 0)
    pseudo = pseudo_header_sums(src, dst, pieces.protocol.astype(np.int64), total - (l4 - ip))
    _checksum(pieces, out, (ip, l4, checksum_at), pseudo)


def _checksum(pieces: Pieces, out: Octets, places: tuple[Ints, Ints, Ints], pseudo: Ints) -> None:
    """Fill in both checksums; a segment that the kernel cuts gets only the sum that the kernel expects."""
    ip, l4, checksum_at = places
    ends = np.concatenate((ip[1:] - VNET_NBYTES - ETHERNET_NBYTES, [len(out)]))
    padded = np.concatenate((out, np.zeros(2, np.uint8)))
    sums = word_sums(padded, np.column_stack((ip, l4, ends)).ravel())
    _put16(out, ip + 10, complement(sums[0::3]))
    whole = complement(sums[1::3] + pseudo)
    whole[(pieces.protocol != TCP) & (whole == 0)] = 0xFFFF  # 0 would say that UDP has no checksum
    is_large = (pieces.n_segments > 1) & (pieces.protocol == TCP)
    _put16(out, checksum_at, np.where(is_large, folded(pseudo), whole))
    large = np.flatnonzero(is_large)
    vnet, ecn = ip[large] - VNET_NBYTES - ETHERNET_NBYTES, pieces.flags[large] & _CWR
    out[vnet] = _NEEDS_CSUM
    out[vnet + 1] = _GSO_TCPV4 | np.where(ecn, _GSO_ECN, 0)
    start = l4[large] - ip[large] + ETHERNET_NBYTES
    _put16_native(out, vnet + 2, pieces.header_nbytes[large] + np.uint16(ETHERNET_NBYTES))
    _put16_native(out, vnet + 4, pieces.segment_nbytes[large])
    _put16_native(out, vnet + 6, start)
    _put16_native(out, vnet + 8, np.full(len(large), _CHECKSUM_AT[True]))


def _put16(out: Octets, at: Ints, value: npt.ArrayLike) -> None:
    values = np.broadcast_to(np.asarray(value, np.int64), at.shape)
    out[at], out[at + 1] = values >> 8 & 0xFF, values & 0xFF


def _put16_native(out: Octets, at: Ints, value: npt.ArrayLike) -> None:
    octets = np.asarray(value).astype(np.uint16).view(np.uint8).reshape(-1, 2)
    out[at[:, None] + np.arange(2)] = octets


def folded(sums: Ints) -> Ints:
    """Sums of 16-bit words, with the carries added in until none is left."""
    for _ in range(3):  # 48 bits need no more
        sums = (sums & 0xFFFF) + (sums >> 16)
    return sums


def complement(sums: Ints) -> Ints:
    """The checksum of what has these sums."""
    return folded(sums) ^ 0xFFFF


def word_sums(octets: npt.NDArray[np.uint8], cuts: Ints) -> Ints:
    """The sum of the big-endian 16-bit words from each of `cuts` to the next; the last has to the end.

    `cuts` ascend and are even, as is the number of octets.
    """
    words = octets.view(">u2")
    sums: Ints = np.add.reduceat(words, cuts // 2, dtype=np.int64)
    return sums


def pseudo_header_sums(src: Ints, dst: Ints, protocol: Ints, nbytes: Ints) -> Ints:
    """The sums of TCP's and UDP's pseudo headers (RFC 9293, 3.1); `nbytes` is the length of the segment."""
    sums: Ints = (src >> 16) + (src & 0xFFFF) + (dst >> 16) + (dst & 0xFFFF) + protocol + nbytes
    return sums

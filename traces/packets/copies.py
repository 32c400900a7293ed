"""Packets that a file holds twice: several points merged into one file, or a capture on interface `any`."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.packets import UDP, Packets, only_rows

MAX_APART_NS = 1_000_000_000  # longer than a network takes, far less than 65,536 packets to the same host
# Of a datagram, to tell it from another: Linux gives the pieces of one that it cuts up (UDP_SEGMENT)
# numbers that the next datagrams of the socket have too.
BEGINNING_NBYTES = 16
_SAME = (
    "src",
    "dst",
    "sport",
    "dport",
    "ip_id",
    "protocol",
    "flags",
    "seq",
    "ack",
    "payload_nbytes",
)
_MIX = (
    0x9E3779B97F4A7C15  # odd: multiplying by it loses nothing (Knuth, The Art of Computer Programming, 6.4)
)


def without_copies(packets: Packets) -> Packets:
    """Each packet once, as it was first seen; `n_copies` counts what was left out.

    A copy has the IP identification that the packet was sent with, one that TCP sends again has another
    (Linux counts it on per connection).  Where there is none (IPv6, or 0) nothing is left out.
    """
    known = np.flatnonzero((packets.ip_version == 4) & (packets.ip_id != 0) & (packets.protocol != 0))
    if len(known) < 2:
        return packets
    known = known[np.argsort(packets.time_ns[known], kind="stable")]
    beginnings = _beginnings(packets, known)
    hashes = _hashes(packets, known) ^ beginnings
    ordered = np.sort(hashes)
    if not np.any(ordered[1:] == ordered[:-1]):
        return packets
    place = np.argsort(hashes, kind="stable")
    order = known[place]
    first, second = order[:-1], order[1:]
    same = packets.time_ns[second] - packets.time_ns[first] < MAX_APART_NS
    same &= beginnings[place[:-1]] == beginnings[place[1:]]
    for name in _SAME:
        column = getattr(packets, name)
        same &= column[first] == column[second]
    if not same.any():
        return packets
    kept = np.ones(len(packets), bool)
    kept[second[same]] = False
    return replace(only_rows(packets, kept), n_copies=int(np.count_nonzero(same)))


def _hashes(packets: Packets, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    found = np.zeros(len(rows), np.uint64)
    for name in _SAME:
        found = (found ^ getattr(packets, name)[rows].astype(np.uint64)) * np.uint64(_MIX)
        found ^= found >> np.uint64(29)
    return found


def _beginnings(packets: Packets, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash of each datagram's first bytes, as far as the capture has them; 0 for TCP."""
    hashes = np.zeros(len(rows), np.uint64)
    udp = np.flatnonzero(packets.protocol[rows] == UDP)
    at, visible = packets.payload_at[rows[udp]], packets.visible_nbytes[rows[udp]]
    for octet in range(BEGINNING_NBYTES):
        is_visible = visible > octet
        value = packets.data[at[is_visible] + octet].astype(np.uint64) + np.uint64(1)
        hashes[udp[is_visible]] = hashes[udp[is_visible]] * np.uint64(_MIX) + value
    return hashes

"""What became of each injected packet: which packet each one seen at a port is, and when it passed.

From the records of the sender and of the ports.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.emu.inject.figures import NEVER, PacketTimes
from gradwire.emu.inject.preparation import Prepared
from gradwire.emu.inject.timetable import Ints
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import TCP, Packets

EMPTY_NBYTES = 24  # a pcap file's header
Keys = npt.NDArray[np.uint64]
Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Seen:
    """Packets that a port's capture has, in its order: their keys and times."""

    key: Keys
    time_ns: Ints


@dataclass(frozen=True)
class ReadTimes:
    """The times of all packets, in the order of sending.

    `stray` packets came to a host twice, or were not sent to it; `clock_set_ns` is by how much
    somebody set the clock meanwhile.
    """

    times: PacketTimes
    stray: int
    clock_set_ns: int


def read_times(folder: Path, prepared: Prepared, loops: int) -> ReadTimes:
    """Raise BadCapture, OSError."""
    with np.load(folder / "sent.npz") as stored:
        handed = stored["handed_ns"]
        start, offset, clock_set = stored["clocks"].tolist()
    starts = np.arange(loops, dtype=np.int64)[:, None] * prepared.period_ns
    due = (starts + prepared.due_ns).ravel() + (start + offset)
    handed = np.where(handed == NEVER, NEVER, handed + offset)
    source, target = (np.tile(column, loops) for column in (prepared.pieces.src, prepared.pieces.dst))
    fields = Fields(*(getattr(prepared.pieces, name) for name in Fields._fields))
    key = np.tile(keys(prepared.pieces.src, prepared.pieces.dst, fields), loops)
    seen = [_seen(folder, prepared, number) for number in range(len(prepared.hosts))]
    left, arrived = np.full(len(due), NEVER, np.int64), np.full(len(due), NEVER, np.int64)
    stray = 0
    for number, (out, _) in enumerate(seen):
        rows = np.flatnonzero((source == number) & (handed != NEVER))
        place = paired(key[rows], out.key)
        left[rows[place >= 0]] = out.time_ns[place[place >= 0]]
    for number, (_, into) in enumerate(seen):
        rows = np.flatnonzero((target == number) & (left != NEVER))
        rows = rows[np.argsort(left[rows], kind="stable")]
        place = arrivals(Seen(key[rows], left[rows]), into)
        arrived[rows[place >= 0]] = into.time_ns[place[place >= 0]]
        stray += len(into.key) - int(np.count_nonzero(place >= 0))
    return ReadTimes(PacketTimes(due, handed, left, arrived), stray, clock_set)


def _seen(folder: Path, prepared: Prepared, number: int) -> tuple[Seen, Seen]:
    """What left a host's port, and what came to it."""
    path = folder / "captures" / f"{prepared.hosts[number]}.pcap"
    if path.stat().st_size <= EMPTY_NBYTES:  # to the reader a capture without packets is a mistake
        nothing = Seen(np.zeros(0, np.uint64), np.zeros(0, np.int64))
        return nothing, nothing
    packets = read_capture(path)
    number_of = {prepared.fabric.ip(host): number for number, host in enumerate(prepared.hosts)}
    numbers = np.array([number_of.get(address, -1) for address in packets.addresses] or [-1], np.int64)
    key, time_ns, src = seen_packets(packets, numbers)
    out = src == number
    return Seen(key[out], time_ns[out]), Seen(key[~out], time_ns[~out])


class Fields(NamedTuple):
    """Columns of Packets, and of Pieces, that the fabric leaves as they are."""

    protocol: Column
    sport: Column
    dport: Column
    ip_id: Column
    payload_nbytes: Column
    seq: Column
    ack: Column
    flags: Column


def keys(src: Column, dst: Column, fields: Fields) -> Keys:
    """One number for each packet's hosts (by number) and fields.

    Two different packets of some millions have the same number with a probability of 10⁻⁶.
    """
    is_tcp = fields.protocol == TCP
    total = np.zeros(len(src), np.uint64)
    for value in (src, dst, *fields[:5], *(np.where(is_tcp, value, 0) for value in fields[5:])):
        total = _mixed(total, value)
    return total


def _mixed(total: Keys, value: Column) -> Keys:
    """SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)."""
    z = total + value.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def seen_packets(packets: Packets, numbers: Ints) -> tuple[Keys, Ints, Ints]:
    """Keys, times and sources' numbers of the TCP and UDP packets between hosts that have a number.

    `numbers` are those of `packets.addresses`, -1 for none.
    """
    src, dst = (numbers[column.astype(np.int64)] for column in (packets.src, packets.dst))
    rows = np.flatnonzero((packets.protocol != 0) & (src >= 0) & (dst >= 0))
    fields = Fields(*(getattr(packets, name)[rows] for name in Fields._fields))
    return keys(src[rows], dst[rows], fields), packets.time_ns[rows], src[rows]


def paired(sent: Keys, seen: Keys) -> Ints:
    """For each that was sent the position in `seen` of the same packet, -1 if it is not there.

    The n-th of equal packets that was sent is the n-th that was seen.
    """
    order, seen_order = np.argsort(sent, kind="stable"), np.argsort(seen, kind="stable")
    sorted_sent, sorted_seen = sent[order], seen[seen_order]
    nth = np.arange(len(sent)) - np.searchsorted(sorted_sent, sorted_sent)
    place = np.searchsorted(sorted_seen, sorted_sent) + nth
    is_there = place < np.searchsorted(sorted_seen, sorted_sent, "right")
    position = np.full(len(sent), -1, np.int64)
    position[order[is_there]] = seen_order[place[is_there]]
    return position


def arrivals(sent: Seen, seen: Seen) -> Ints:
    """For each that left (in order of time) the position of its arrival in `seen`, -1 if it was lost.

    Where fewer arrived than left of equal packets (a loop sends them again and again), an arrival is the
    latest that can have been under way: one that left before it, each once, in the order in which they left.
    """
    position = paired(sent.key, seen.key)
    missing = np.unique(sent.key[position < 0])
    partly = np.intersect1d(missing, seen.key)
    if not len(partly):
        return position
    left, came = _groups(sent.key, partly), _groups(seen.key, partly)
    for rows, places in zip(left, came, strict=True):
        position[rows] = -1
        before = np.searchsorted(sent.time_ns[rows], seen.time_ns[places], "right") - 1
        steps = np.arange(len(places))
        latest = np.minimum.accumulate((before - steps)[::-1])[::-1] + steps
        can_be = latest >= 0
        position[rows[latest[can_be]]] = places[can_be]
    return position


def _groups(key: Keys, wanted: Keys) -> list[Ints]:
    """The positions of each of the `wanted` keys (ascending) in `key`."""
    rows = np.flatnonzero(np.isin(key, wanted))
    rows = rows[np.argsort(key[rows], kind="stable")]
    return np.split(rows, np.searchsorted(key[rows], wanted)[1:])

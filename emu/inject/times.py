"""What became of each packet, from the sender's and the ports' own records.

An edge module: it reads files.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emu.inject.figures import NEVER, Times
from emu.inject.matching import Fields, Seen, arrivals, keys, paired, seen_packets
from emu.inject.prepare import Prepared
from traces.packets.capture import read_capture

EMPTY_NBYTES = 24  # a pcap file's header


@dataclass(frozen=True)
class Told:
    """The times of all packets, in the order of sending.

    `stray` packets came to a host twice, or were not sent to it; `clock_set_ns` is by how much
    somebody set the clock meanwhile.
    """

    times: Times
    stray: int
    clock_set_ns: int


def read_times(folder: Path, prepared: Prepared, loops: int) -> Told:
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
    return Told(Times(due, handed, left, arrived), stray, clock_set)


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

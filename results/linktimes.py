"""What links carried over time in one repeat, and what waited in their queues, from `links.parquet`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.emu.events import load_events
from gradwire.emu.records import LATER_LINK_COLUMNS
from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.model.wire import wire_nbytes
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import read_table

MOST_WINDOWS = 400  # of a repeat: more than that many readings are taken together
Readings = Mapping[str, npt.NDArray[Any]]  # by column, in the order of time


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """One direction of a cable, a figure for each window: `load` is what it carried over what it can carry.

    `queue_nbytes` is the most that waited at a reading in the window, None where the queue was not read then,
    `dropped` how many packets found no room in it; both empty where it was never read, as that of a host.
    """

    egress: Egress
    load: tuple[float, ...]
    queue_nbytes: tuple[int | None, ...]
    dropped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The windows of one repeat are between `edges_s`, in seconds after the common start."""

    edges_s: tuple[float, ...]
    links: tuple[LinkTimes, ...]


def run_times(
    folder: Path, plan: Plan, repeat: int, time_s: float, links: Sequence[Egress], most: int = MOST_WINDOWS
) -> RunTimes | None:
    """Of those `links` that were read, in at most `most` windows; None if none was, or only once.

    Raise OSError or BadRun for files that cannot be used.
    """
    path = folder / "links.parquet"
    if not path.exists():
        return None
    readings = _readings(path, plan.fabric, repeat, links)
    if not readings:
        return None
    times_ns = next(iter(readings.values()))["time_ns"]
    start_ns = _start_ns(folder, plan, repeat) or int(times_ns[0])
    kept = _kept(times_ns, start_ns, start_ns + round(time_s * 1e9), most)
    if len(kept) < 2:
        return None
    return RunTimes(
        tuple(((times_ns[kept] - start_ns) / 1e9).tolist()),
        tuple(
            _link(plan.fabric, egress, one, kept)
            for egress, one in readings.items()
            if len(one["time_ns"]) == len(times_ns)
        ),
    )


def _kept(times_ns: npt.NDArray[np.int64], start_ns: int, end_ns: int, most: int) -> npt.NDArray[np.int64]:
    """The readings between which windows are: from the last before the start to the first after the end."""
    first = max(0, int(np.searchsorted(times_ns, start_ns, "right")) - 1)
    last = min(len(times_ns) - 1, int(np.searchsorted(times_ns, end_ns)))
    step = max(1, -(-(last - first) // most))
    kept = np.arange(first, last + 1, step)
    return kept if len(kept) and kept[-1] == last else np.append(kept, last)


def _link(fabric: Fabric, egress: Egress, one: Readings, kept: npt.NDArray[np.int64]) -> LinkTimes:
    way = _way(fabric, egress)[1]
    sent = zip(np.diff(one[f"{way}_bytes"][kept]), np.diff(one[f"{way}_packets"][kept]), strict=True)
    seconds = np.diff(one["time_ns"][kept]) / 1e9
    nbytes = np.array([wire_nbytes(int(size), int(packets), fabric.mtu_nbytes) for size, packets in sent])
    load = nbytes * 8 / fabric.rates[egress] / np.maximum(seconds, 1e-9)
    queue: list[int | None] = []
    dropped: list[int] = []
    if way == "tx" and "queue_nbytes" in one:
        waiting, lost = (one[name].astype(float) for name in ("queue_nbytes", "queue_dropped"))
        most = np.fmax.reduceat(waiting[: kept[-1] + 1], kept[:-1])
        queue = [None if np.isnan(each) else int(each) for each in most]
        dropped = np.diff(np.maximum.accumulate(np.nan_to_num(lost))[kept]).astype(int).tolist()
    return LinkTimes(egress, tuple(load.tolist()), tuple(queue), tuple(dropped))


def _way(fabric: Fabric, egress: Egress) -> tuple[str, str]:
    """The interface whose counter shows what a link carries, and which of its counters: a host's own port is
    not read, so what a host sends is what its switch receives.
    """
    if egress.node in fabric.host_set:
        peer = fabric.peers[egress]
        return interface(peer.node, peer.port), "rx"
    return interface(egress.node, egress.port), "tx"


def _readings(path: Path, fabric: Fabric, repeat: int, links: Sequence[Egress]) -> dict[Egress, Readings]:
    """Of those links that were read."""
    needed = ("time_ns", "interface", "tx_bytes", "tx_packets")
    table = read_table(path, needed, repeat, LATER_LINK_COLUMNS).sort_by("time_ns")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    interfaces = columns.pop("interface")
    found: dict[Egress, Readings] = {}
    for egress in links:
        name, way = _way(fabric, egress)
        rows = np.flatnonzero(interfaces == name)
        if len(rows) and f"{way}_bytes" in columns:
            found[egress] = {column: values[rows] for column, values in columns.items()}
    return found


def _start_ns(folder: Path, plan: Plan, repeat: int) -> int | None:
    """The common start of a repeat; None where no rank wrote it."""
    due_ns = load_events(folder, plan, repeat).of("start").due_ns
    return int(due_ns[0]) if len(due_ns) else None

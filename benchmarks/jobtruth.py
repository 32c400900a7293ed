"""What is true of a captured job: by the logs of its ranks, and by the fabric in the capture's manifest.

The iterations with their parts and buckets come from the logs; how long a rank computed is worked out here on
its own, not by `traces.groundtruth`.  A host's rate is the slowest link between it
and those that it exchanges most with, by the manifest.
"""

import json
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gradwire.planning import capturefabric
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.groundtruth import BUCKET_DONE, BUCKET_READY, PULL_DONE, PUSH_BEGINS, RankLog
from gradwire.traces.indexfiles import MANIFEST

LEAST_FULL = 0.65  # of the time in which a rank communicates by its log: else its link bounded nothing
FRAMED = 1514 / 1448  # frames with their headers, over what they carry
LARGE = 0.1  # of what a rank exchanges with its busiest peer: less bounds nothing


@dataclass(frozen=True)
class Part:
    """One rank's iteration by its log, from the end of the one before: `compute_ns` until its last bucket was
    ready, of that `hidden_ns` with a bucket in flight, and after it `wait_ns` while some rank had not begun
    what was in flight.
    """

    time_ns: int
    compute_ns: int
    hidden_ns: int
    wait_ns: int


@dataclass(frozen=True)
class Truth:
    """By rank and iteration; `buckets` are those of each iteration, in the order in which they were ready."""

    parts: dict[tuple[int, int], Part]
    buckets: dict[int, tuple[int, ...]]


def truth_of(logs: Sequence[RankLog]) -> Truth | None:
    """None where no log tells of buckets, pushes or pulls."""
    found = _of_workers(logs) if any(log.role for log in logs) else _of_buckets(logs)
    return found if found.parts else None


def _of_buckets(logs: Sequence[RankLog]) -> Truth:
    ready: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    done: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    buckets: dict[int, tuple[int, ...]] = {}
    for log in logs:
        for event in log.events:
            if event.k == BUCKET_READY:
                ready[log.rank, event.it][event.b] = event.t
            elif event.k == BUCKET_DONE:
                done[log.rank, event.it][event.b] = event.t
        sizes: defaultdict[int, list[int]] = defaultdict(list)
        for event in log.events:
            if event.k == BUCKET_READY:
                sizes[event.it].append(event.n)
        buckets |= {iteration: tuple(some) for iteration, some in sizes.items()}
    latest = {
        (iteration, bucket): max(times[bucket] for (_, it), times in ready.items() if it == iteration)
        for (_, iteration), some in ready.items()
        for bucket in some
    }
    parts = {}
    for (rank, iteration), begun in ready.items():
        ends, before = done[rank, iteration], done.get((rank, iteration - 1))
        if before and ends.keys() == begun.keys():
            parts[rank, iteration] = _part(max(before.values()), begun, ends, latest, iteration)
    return Truth(parts, buckets)


def _part(
    since_ns: int,
    ready: dict[int, int],
    done: dict[int, int],
    latest: dict[tuple[int, int], int],
    iteration: int,
) -> Part:
    until_ns, computed_ns = max(done.values()), max(ready.values())
    cuts = sorted(
        {since_ns, until_ns, *ready.values(), *done.values()}
        | {latest[iteration, bucket] for bucket in ready}
    )
    hidden = wait = 0
    for start_ns, end_ns in pairwise(ns for ns in cuts if since_ns <= ns <= until_ns):
        flying = [bucket for bucket in ready if ready[bucket] <= start_ns and done[bucket] >= end_ns]
        if flying and end_ns <= computed_ns:
            hidden += end_ns - start_ns
        elif flying and all(latest[iteration, bucket] >= end_ns for bucket in flying):
            wait += end_ns - start_ns
    return Part(until_ns - since_ns, computed_ns - since_ns, hidden, wait)


def _of_workers(logs: Sequence[RankLog]) -> Truth:
    """From pulled to pulled; a worker computes until it begins to push."""
    parts = {}
    for log in logs:
        at = {(int(event.k), event.it): event.t for event in log.events if isinstance(event.k, int)}
        for (kind, iteration), time_ns in at.items():
            before, pushes = at.get((PULL_DONE, iteration - 1)), at.get((PUSH_BEGINS, iteration))
            if kind == PULL_DONE and before is not None and pushes is not None:
                parts[log.rank, iteration] = Part(time_ns - before, pushes - before, 0, 0)
    return Truth(parts, {})


def rates_of(folder: Path, analysis: Analysis, truth: Truth | None) -> dict[str, float]:
    """The slowest link between each host and those that it exchanges most with; none for a host
    whose link a ring's bytes of all buckets would fill for less than LEAST_FULL of the time in which it
    communicates.  Jobs without buckets are not judged so.
    """
    path = folder / MANIFEST
    if not path.is_file() or not analysis.addresses:
        return {}
    made = json.loads(path.read_bytes())
    fabric = capturefabric.capture_fabric([folder])
    if fabric is None:
        return {}
    places = {host["rank"]: host["host"] for host in made["hosts"]}
    sent = analysis.matrix_nbytes
    found = {}
    for rank, host in enumerate(analysis.addresses):
        both = {other: sent[rank][other] + sent[other][rank] for other in range(len(sent)) if other != rank}
        large = [other for other, nbytes in both.items() if nbytes >= LARGE * max(both.values())]
        rate_bps = min(_slowest(fabric, places[rank], places[other]) for other in large)
        if _is_full(rank, rate_bps, analysis, truth):
            found[host] = rate_bps
    return found


def _is_full(rank: int, rate_bps: float, analysis: Analysis, truth: Truth | None) -> bool:
    """By the buckets of the logs: a ring sends 2(n-1)/n of them from each rank."""
    n = len(analysis.addresses)
    parts = {} if truth is None else {it: part for (of, it), part in truth.parts.items() if of == rank}
    if truth is None or not truth.buckets or not parts:
        return True
    nbytes = sum(sum(truth.buckets[iteration]) for iteration in parts) * 2 * (n - 1) / n
    busy_ns = sum(part.time_ns - part.compute_ns + part.hidden_ns for part in parts.values())
    return nbytes * FRAMED * 8e9 / rate_bps >= LEAST_FULL * busy_ns


def _slowest(fabric: Fabric, src: str, dst: str) -> float:
    """The slowest link of a shortest path."""
    cables: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for link in fabric.links:
        cables[link.a].append((link.b, link.rate_bps))
        cables[link.b].append((link.a, link.rate_bps))
    least: dict[str, float] = {src: float("inf")}
    todo = deque([src])
    while todo:
        node = todo.popleft()
        for other, rate_bps in cables[node]:
            if other not in least:
                least[other] = min(least[node], rate_bps)
                todo.append(other)
    return least[dst]

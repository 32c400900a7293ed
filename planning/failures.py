"""Cables that fail during a run, by plan: which cable, when it goes down, and when it comes up again.

A switch that fails is all its cables failing at once.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.nodenames import ranges
from gradwire.traces.components import components
from gradwire.traces.units import did_you_mean, show_first

MAX_FAILURES = 1000
MAX_TIME_S = 86_400
_SHOWN = 4
_SHOWN_RANGES = 12  # of nodes
_FAILURE = re.compile(
    r"(?P<a>[\w.]+)(?:(?::(?P<port>\d{1,6}))?[-→](?P<b>[\w.]+))?"
    r"@(?P<down>\d{1,6}(?:\.\d{1,9})?)(?:,(?P<up>\d{1,6}(?:\.\d{1,9})?))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The cable at `port` carries nothing, either way, from `down_ns` to `up_ns` after the common start.

    `up_ns` None: until the repeat is over.
    """

    port: Egress
    down_ns: int
    up_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CableChange:
    """A switch's port that goes down or up `due_ns` after the common start."""

    due_ns: int
    port: Egress
    is_up: bool


def parse_failures(text: str, fabric: Fabric) -> tuple[Failure, ...]:
    """`leaf0-spine1@0.5,1.5`: down after 0.5 s, up after 1.5 s; without the second time it stays down.

    Where several cables join the two nodes, `leaf0:3-spine1` names the one at port 3 of leaf0.
    `spine1@0.5,1.5` is a whole switch, or a host: one failure for each of its cables.
    Raise ValueError for a text that names nothing of the fabric or no time.
    """
    match = _FAILURE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"failure {text!r}: write it like leaf0-spine1@0.5 or leaf0-spine1@0.5,1.5 (seconds), or a whole "
            "switch like spine1@0.5"
        )
    down_ns = _nanoseconds(match["down"])
    up_ns = _nanoseconds(match["up"]) if match["up"] else None
    ports = _ports(fabric, match["a"], match["b"], match["port"])
    failures = tuple(Failure(port, down_ns, up_ns) for port in ports)
    check_failures(fabric, failures)
    return failures


def check_failures(fabric: Fabric, failures: Sequence[Failure]) -> None:
    """Raise ValueError for a failure of a cable that is not there, or at a time that makes no sense."""
    if len(failures) > MAX_FAILURES:
        raise ValueError(f"{len(failures)} failures are too many; a plan holds at most {MAX_FAILURES}")
    for failure in failures:
        if failure.port not in fabric.peers:
            raise ValueError(f"failure: {failure.port.node} has no port {failure.port.port}")
        latest_ns = MAX_TIME_S * 10**9
        if not 0 <= failure.down_ns <= latest_ns:
            raise ValueError(
                f"failure: down at {failure.down_ns / 1e9:g} s; give a time from 0 to {MAX_TIME_S} s"
            )
        if failure.up_ns is not None and not failure.down_ns < failure.up_ns <= latest_ns:
            raise ValueError(
                f"failure: down at {failure.down_ns / 1e9:g} s, up at {failure.up_ns / 1e9:g} s; give the "
                f"later time second, and {MAX_TIME_S} s at most"
            )


def check_reachable(
    fabric: Fabric, placement: Sequence[str], jobs: Sequence[Sequence[int]], failures: Sequence[Failure]
) -> None:
    """Raise ValueError if ranks of a job are cut off from each other for good: a send would never arrive.

    `jobs` are the ranks that exchange anything, directly or through others, so some send would have to
    pass any cut between them.  Cables that come up again do not count: TCP waits for them.
    """
    lasting = [failure for failure in failures if failure.up_ns is None]
    cut = {end for failure in lasting for end in (failure.port, fabric.peers[failure.port])}
    islands = _islands(fabric, cut) if cut else []
    for ranks in jobs:
        parted = [
            (len(there), len(island), there[0], island)
            for island in islands
            if (there := [rank for rank in ranks if placement[rank] in island])
        ]
        if len(parted) > 1:
            _, _, rank, island = min(parted, key=lambda part: part[:3])
            cable = next(failure.port for failure in lasting if _is_shore(fabric, island, failure.port))
            name = cable_name(fabric, cable)
            raise ValueError(
                f"failure: rank {rank} on {placement[rank]} is cut off for good; say when {name} comes up "
                f"again, like {name}@0.5,1.5"
            )


def _islands(fabric: Fabric, cut: Collection[Egress]) -> list[frozenset[str]]:
    """The nodes that cables join of which no end is in `cut`."""
    cables = ((end.node, peer.node) for end, peer in fabric.peers.items() if end not in cut)
    return [*map(frozenset, components(fabric.ports, cables))]


def _is_shore(fabric: Fabric, island: Collection[str], port: Egress) -> bool:
    """Whether a cable leads from an island to elsewhere."""
    return (port.node in island) != (fabric.peers[port].node in island)


def changes(fabric: Fabric, failures: Sequence[Failure]) -> tuple[CableChange, ...]:
    """When cables go down and up, in the order of time.

    A cable is up again when the last of its failures is over, so failures that overlap make one outage.
    """
    steps: list[tuple[int, int, Egress]] = []
    for failure in failures:
        port = switch_port(fabric, failure.port)
        steps.append((failure.down_ns, 1, port))
        if failure.up_ns is not None:
            steps.append((failure.up_ns, -1, port))
    failed: Counter[Egress] = Counter()
    cable_changes: list[CableChange] = []
    for due_ns, step, port in sorted(steps, key=lambda step: (step[0], -step[1])):
        failed[port] += step
        if failed[port] == (1 if step == 1 else 0):
            cable_changes.append(CableChange(due_ns, port, is_up=step == -1))
    return tuple(cable_changes)


def outages(fabric: Fabric, failures: Sequence[Failure]) -> Iterator[tuple[int, tuple[Egress, ...]]]:
    """The switches' ports that are down, after each time (ns) at which any goes down or up."""
    down: dict[Egress, None] = {}
    for due_ns, together in groupby(changes(fabric, failures), key=lambda change: change.due_ns):
        for change in together:
            if change.is_up:
                del down[change.port]
            else:
                down[change.port] = None
        yield due_ns, tuple(down)


def switch_port(fabric: Fabric, port: Egress) -> Egress:
    """The end of a cable that goes down when it fails: of a host's cable its switch's.

    A host that loses only its carrier keeps addresses and neighbours, as if the cable had been cut.
    """
    return fabric.peers[port] if port.node in fabric.hosts else port


def outage_s(failures: Sequence[Failure]) -> float:
    """The longest time for which failures can hold up a flow that has no other way.

    TCP tries again at intervals that double, so it may notice only after as long again that its cable is
    up; and outages of cables on one path may follow each other.  What is down at once counts once.
    """
    total_ns = until_ns = 0
    for down_ns, up_ns in sorted((f.down_ns, f.up_ns) for f in failures if f.up_ns is not None):
        total_ns += max(0, up_ns - max(down_ns, until_ns))
        until_ns = max(until_ns, up_ns)
    return 2 * total_ns / 1e9


def show_failures(fabric: Fabric, failures: Sequence[Failure]) -> str:
    """`leaf0-spine1 down from 0.5 s to 1.5 s`, and so on: the first few of them."""
    return show_first([_show_failure(fabric, failure) for failure in failures], _SHOWN, "; ")


def _show_failure(fabric: Fabric, failure: Failure) -> str:
    up_s = None if failure.up_ns is None else failure.up_ns / 1e9
    return f"{cable_name(fabric, failure.port)} {show_outage(failure.down_ns / 1e9, up_s)}"


def show_outage(down_s: float, up_s: float | None) -> str:
    """`down from 0.5 s to 1.5 s`, or `down from 0.5 s on` without `up_s`; seconds after the start."""
    return f"down from {down_s:g} s {'on' if up_s is None else f'to {up_s:g} s'}"


def cable_name(fabric: Fabric, port: Egress) -> str:
    """A cable as `--fail` names it: `leaf0-spine1`, by its port where several join the two."""
    peer = fabric.peers[port].node
    several = list(fabric.neighbours[port.node].values()).count(peer) > 1
    return f"{port.node}{f':{port.port}' if several else ''}-{peer}"


def _ports(fabric: Fabric, a: str, b: str | None, port: str | None) -> list[Egress]:
    for node in (a, b):
        if node is not None and node not in fabric.ports:
            meant, switches = did_you_mean(node, [*fabric.ports]), ranges(fabric.switches)
            raise ValueError(
                f"failure: {fabric.spec} has no node {node!r}{meant}; its switches are "
                f"{show_first(switches, _SHOWN_RANGES)}"
            )
    if b is None:
        return [Egress(a, number) for number in fabric.neighbours[a]]
    numbers = [number for number, peer in fabric.neighbours[a].items() if peer == b]
    if port is not None:
        numbers = [number for number in numbers if number == int(port)]
    if not numbers:
        raise ValueError(f"failure: no cable joins {a}{f':{port}' if port else ''} and {b}")
    if len(numbers) > 1:
        raise ValueError(
            f"failure: {len(numbers)} cables join {a} and {b};"
            f" name one by its port, like {a}:{numbers[0]}-{b}"
        )
    return [Egress(a, numbers[0])]


def _nanoseconds(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0") or 0)

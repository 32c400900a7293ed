"""Cables that fail during a run, by plan: which one, when it goes down, when it comes up again."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.fabric import Egress, Fabric

if TYPE_CHECKING:  # a plan holds failures
    from emu.plan import Plan

MAX_FAILURES = 1000
MAX_TIME_S = 86_400
_FAILURE = re.compile(
    r"(?P<a>[\w.]+)(?::(?P<port>\d{1,6}))?[-→](?P<b>[\w.]+)"
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
class Change:
    """A switch's port that goes down or up `due_ns` after the common start."""

    due_ns: int
    port: Egress
    is_up: bool


def parse_failure(text: str, fabric: Fabric) -> Failure:
    """`leaf0-spine1@0.5,1.5`: down after 0.5 s, up after 1.5 s; without the second time it stays down.

    Where several cables join the two nodes, `leaf0:3-spine1` names the one at port 3 of leaf0.
    Raise ValueError for a text that names no cable of the fabric or no time.
    """
    match = _FAILURE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"failure {text!r}: write it like leaf0-spine1@0.5 or leaf0-spine1@0.5,1.5 (seconds)"
        )
    failure = Failure(
        _port(fabric, match["a"], match["b"], match["port"]),
        _nanoseconds(match["down"]),
        _nanoseconds(match["up"]) if match["up"] else None,
    )
    check_failures(fabric, (failure,))
    return failure


def check_failures(fabric: Fabric, failures: Sequence[Failure]) -> None:
    """Raise ValueError for a failure of a cable that is not there, or at a time that makes no sense."""
    if len(failures) > MAX_FAILURES:
        raise ValueError(f"{len(failures)} failures; a plan holds at most {MAX_FAILURES}")
    for failure in failures:
        if failure.port not in fabric.peers:
            raise ValueError(f"failure: {failure.port.node} has no port {failure.port.port}")
        latest_ns = MAX_TIME_S * 10**9
        if not 0 <= failure.down_ns <= latest_ns:
            raise ValueError(f"failure: down at {failure.down_ns} ns; it is 0 to {MAX_TIME_S} s")
        if failure.up_ns is not None and not failure.down_ns < failure.up_ns <= latest_ns:
            raise ValueError(f"failure: up at {failure.up_ns} ns, down at {failure.down_ns} ns")


def check_reachable(plan: "Plan") -> None:
    """Raise ValueError if a rank is cut off for good: its sends would never arrive."""
    for rank, host in enumerate(plan.placement):
        port = Egress(host, plan.fabric.ports[host][0])
        if any(f.up_ns is None and port in (f.port, plan.fabric.peers[f.port]) for f in plan.failures):
            raise ValueError(
                f"failure: rank {rank} on {host} is cut off for good; say when its cable comes up again, "
                f"like {cable_name(plan.fabric, port)}@0.5,1.5"
            )


def changes(fabric: Fabric, failures: Sequence[Failure]) -> tuple[Change, ...]:
    """All of them in the order of time; a cable is up again when the last of its failures is over."""
    steps: list[tuple[int, int, Egress]] = []
    for failure in failures:
        port = switch_port(fabric, failure.port)
        steps.append((failure.down_ns, 1, port))
        if failure.up_ns is not None:
            steps.append((failure.up_ns, -1, port))
    failed: Counter[Egress] = Counter()
    made: list[Change] = []
    for due_ns, step, port in sorted(steps, key=lambda step: (step[0], -step[1])):
        failed[port] += step
        if failed[port] == (1 if step == 1 else 0):
            made.append(Change(due_ns, port, is_up=step == -1))
    return tuple(made)


def switch_port(fabric: Fabric, port: Egress) -> Egress:
    """The end of a cable that goes down when it fails: of a host's cable its switch's.

    A host that loses only its carrier keeps addresses and neighbours, as if the cable had been cut.
    """
    return fabric.peers[port] if port.node in fabric.hosts else port


def outage_s(failures: Sequence[Failure]) -> float:
    """The longest time for which failures can hold up a flow that has no other way.

    TCP tries again at intervals that double, so it may notice only after as long again that its cable is
    up; and outages of cables on one path may follow each other.
    """
    return 2 * sum(f.up_ns - f.down_ns for f in failures if f.up_ns is not None) / 1e9


def cable_name(fabric: Fabric, port: Egress) -> str:
    """A cable as `--fail` names it: `leaf0-spine1`, by its port where several join the two."""
    peer = fabric.peers[port].node
    several = list(fabric.neighbours[port.node].values()).count(peer) > 1
    return f"{port.node}{f':{port.port}' if several else ''}-{peer}"


def _port(fabric: Fabric, a: str, b: str, port: str | None) -> Egress:
    for node in (a, b):
        if node not in fabric.ports:
            raise ValueError(f"failure: {fabric.spec} has no node {node!r}")
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
    return Egress(a, numbers[0])


def _nanoseconds(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0") or 0)

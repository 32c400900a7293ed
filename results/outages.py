"""The failures of a run, from its files: when a cable went down or up, and what the controller did.

How long the controller went on moving flows of adaptive routes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from gradwire.emu.events import load_events
from gradwire.emu.records import CONTROL_FILE, FAILURES_FILE, Repeat
from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.plan import ADAPTIVE, Plan
from gradwire.planning.runfiles import BadRun, read_json, read_lines
from gradwire.results.row import Spread


@dataclass(frozen=True, slots=True)
class Outage:
    """A cable that went down or up `at_s` after the common start; the others are seconds after that.

    `heard_s`: the controller had the switch's word; `rerouted_s`: the switches had the rules of the new
    paths, of `n_flows` flows.  None where there was no such thing, as without re-planning.
    """

    cable: str
    event: Literal["down", "up"]
    at_s: float
    heard_s: float | None = None
    rerouted_s: float | None = None
    n_flows: int | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    repeat: int
    cable: str
    switch: str
    port: int
    event: Literal["down", "up"]
    start_ns: int
    due_ns: int
    done_ns: int


@dataclass(frozen=True, slots=True)
class _Line:
    """Of control.jsonl, as far as it is about failures."""

    time_ns: int
    event: str
    switch: str = ""
    port: int = 0
    flows: int = 0


_CHANGES = TypeAdapter(list[_Change])
_LINE = TypeAdapter(_Line)


def outages(folder: Path, fabric: Fabric, repeat: int) -> tuple[Outage, ...]:
    """What happened to cables in one repeat, in the order of time; nothing if no cable failed.

    Raise BadRun, or OSError, for a wrong file.
    """
    path = folder / FAILURES_FILE
    if not path.exists():
        return ()
    changes = [
        change
        for change in read_json(path, _CHANGES)
        if change.repeat == repeat and _is_known(path, fabric, change)
    ]
    lines = list(control_lines(folder / CONTROL_FILE))
    return tuple(_outage(fabric, change, lines) for change in changes)


def _is_known(path: Path, fabric: Fabric, change: _Change) -> bool:
    if Egress(change.switch, change.port) not in fabric.peers:
        raise BadRun(path, f"{change.switch} has no port {change.port} in {fabric.spec}")
    return True


def control_lines(path: Path) -> Iterator[_Line]:
    """The lines of control.jsonl; none without the file.  Raise BadRun, or OSError."""
    if path.exists():
        for _, line in read_lines(path, _LINE):
            yield line


def _outage(fabric: Fabric, change: _Change, lines: Sequence[_Line]) -> Outage:
    """The controller's first line about this cable is its word of this change.

    What it did follows, before it hears of another.
    """
    at_s = (change.done_ns - change.start_ns) / 1e9
    near = Egress(change.switch, change.port)
    ends = (near, fabric.peers[near])
    after = [line for line in lines if line.time_ns >= change.due_ns]
    about = (number for number, line in enumerate(after) if Egress(line.switch, line.port) in ends)
    first = next(about, None)
    if first is None or after[first].event != f"port_{change.event}":
        return Outage(change.cable, change.event, at_s)
    heard_s = max(0, after[first].time_ns - change.done_ns) / 1e9
    for line in after[first + 1 :]:
        if line.event == "rerouted":
            rerouted_s = max(0, line.time_ns - change.done_ns) / 1e9
            return Outage(change.cable, change.event, at_s, heard_s, rerouted_s, line.flows)
        if line.event != after[first].event:
            break
    return Outage(change.cable, change.event, at_s, heard_s)


def settled(folder: Path, plan: Plan, repeats: Sequence[Repeat]) -> Spread | None:
    """When flows had moved for the last time, in seconds after the start: over the repeats that the machine
    did not disturb (all, if it disturbed all); 0 where none moved, None without adaptive
    routes or events.

    Raise BadRun, or OSError, for a wrong file.
    """
    if plan.routes != ADAPTIVE:
        return None
    starts = [load_events(folder, plan, number).of("start").due_ns for number in range(len(repeats))]
    starts_ns = {number: int(due_ns[0]) for number, due_ns in enumerate(starts) if len(due_ns)}
    moved_ns = [line.time_ns for line in control_lines(folder / CONTROL_FILE) if line.event == "rebalanced"]
    good = [number for number, repeat in enumerate(repeats) if repeat.counts]
    counted = [number for number in good or range(len(repeats)) if number in starts_ns]
    if not counted:
        return None
    return Spread.of([_last_s(moved_ns, starts_ns[number], repeats[number].time_s) for number in counted])


def _last_s(moved_ns: Sequence[int], start_ns: int, time_s: float) -> float:
    """The last move between the start and the end of a repeat; 0 if there is none."""
    after_s = [(ns - start_ns) / 1e9 for ns in moved_ns]
    return max((one for one in after_s if 0 <= one <= time_s), default=0.0)

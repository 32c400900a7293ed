"""How long the controller went on moving flows of adaptive routes, from a run's files."""

from collections.abc import Sequence
from pathlib import Path

from gradwire.emu.events import load_events
from gradwire.emu.records import CONTROL_FILE, Repeat
from gradwire.planning.plan import ADAPTIVE, Plan
from gradwire.results.outages import control_lines
from gradwire.results.row import Spread


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

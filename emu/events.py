"""The events of a run's ranks: when each send, sum and computation began and ended.  A file for each rank."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gradwire.emu.replay.outcome import Outcome
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import BadRun, one_run, read_lines

OF_A_SEND = ("queued", "handed", "arrived")
OF_AN_AGGREGATION = ("aggregation_begun", "aggregated")
OF_COMPUTING = ("computing", "computed")


@dataclass(frozen=True, slots=True)
class RankEvent:
    """A line of a rank's events; `send` is the number of one, of those that are about a send, `op` the
    operation of those about a send, an aggregation or computing.
    """

    repeat: int
    event: str
    t_ns: int
    send: int = -1
    op: int = -1
    due_ns: int = 0
    rank: int = -1


def load_events(folder: Path, plan: Plan) -> Iterator[RankEvent]:
    """Those of all ranks of the plan, each rank's in the order of time.  Raise BadRun, or OSError."""
    for rank in range(plan.n_ranks):
        path = folder / "events" / f"rank-{rank}.jsonl"
        if not path.exists():
            continue
        for number, event in read_lines(path, _event_reader()):
            if event.event in OF_A_SEND and not 0 <= event.send < len(plan.schedule.sends):
                raise BadRun(path, f"line {number}: send {event.send} is not in the plan")
            if event.event in (*OF_AN_AGGREGATION, *OF_COMPUTING) and not 0 <= event.op < len(
                plan.schedule.ops
            ):
                raise BadRun(path, f"line {number}: operation {event.op} is not in the plan")
            yield replace(event, rank=rank)


@cache
def _event_reader() -> TypeAdapter[RankEvent]:
    """Made when it is needed: what writes the events need not wait for it."""
    return TypeAdapter(RankEvent)


def load_arrivals(folder: Path, plan: Plan, repeats: int) -> list[tuple[list[int], int]]:
    """Of each repeat: when each send arrived, and the common start.  Raise BadRun, or OSError."""
    arrived = [[0] * len(plan.schedule.sends) for _ in range(repeats)]
    start_ns = [0] * repeats
    with one_run(folder):
        for event in load_events(folder, plan):
            if event.event == "arrived":
                arrived[event.repeat][event.send] = event.t_ns
            elif event.event == "start":
                start_ns[event.repeat] = event.due_ns
    return list(zip(arrived, start_ns, strict=True))


def events_of(plan: Plan, repeat: int, outcome: Outcome) -> list[dict[str, Any]]:
    """Of one rank in one repeat, in the order of time; all times are CLOCK_MONOTONIC in ns."""
    times = outcome.times
    sends = plan.schedule.sends
    columns: dict[str, Any] = {"op": sends.op, "src": sends.src, "dst": sends.dst, "nbytes": sends.nbytes}
    events: list[dict[str, Any]] = [{"event": "start", "t_ns": times.began_ns, "due_ns": times.start_ns}]
    for event, moments in zip(OF_A_SEND, (times.queued_ns, times.handed_ns, times.arrived_ns), strict=True):
        for number, t_ns in moments.items():
            what = {name: int(column[number]) for name, column in columns.items()}
            events.append({"event": event, "t_ns": t_ns, "send": number, **what})
    for event, moments in zip(OF_AN_AGGREGATION, (times.begun_ns, times.aggregated_ns), strict=True):
        for number, t_ns in moments.items():
            op = plan.schedule.aggregations[number].op
            events.append({"event": event, "t_ns": t_ns, "op": op, "nbytes": plan.schedule.ops[op].nbytes})
    for event, moments in zip(OF_COMPUTING, (times.computing_ns, times.computed_ns), strict=True):
        events += ({"event": event, "t_ns": t_ns, "op": op} for op, t_ns in moments.items())
    events.append({"event": "done", "t_ns": times.done_ns})
    events.sort(key=lambda event: event["t_ns"])
    return [{"repeat": repeat, **event} for event in events]

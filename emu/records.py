"""What a run records: the events of each rank, port counters over time, a summary of each repeat.

Each repeat is on disk before the next begins.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, TypeAdapter

from gradwire.emu.aggregation.figures import RankFigures
from gradwire.emu.disturbance import (
    HOLE,
    Reason,
    disturbances,
    lateness,
    on_machine,
    taken_away,
)
from gradwire.emu.events import write_events
from gradwire.emu.network.cables import Done
from gradwire.emu.otherprograms import Use
from gradwire.emu.replay.outcome import Outcome
from gradwire.emu.sampler import LinkRow
from gradwire.planning.failures import cable_name
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import BadRun, read_json
from gradwire.traces.files import write_whole
from gradwire.traces.schedules.periods import periods
from gradwire.traces.schedules.schedule import Schedule

MAX_LEFT_OUT = 3  # disturbed repeats of a run that are measured once more
FAILURES_FILE = "failures.json"  # only of a plan with failures
CONTROL_FILE = "control.jsonl"
CAPTURES = "captures"  # the folder of a run that was captured: a pcap file of each rank's host
EARLY_LINK_COLUMNS = ("repeat", "time_ns", "interface", "tx_bytes", "tx_packets", "tx_dropped")
LATER_LINK_COLUMNS = ("rx_bytes", "rx_packets", "queue_nbytes", "queue_dropped")  # older runs lack them
LINK_COLUMNS = (*EARLY_LINK_COLUMNS, *LATER_LINK_COLUMNS)


@dataclass(frozen=True, slots=True)
class RepeatCounts:
    """What one machine counted around one repeat; `machine` is its name if there are several.

    `stall_s`, `cpu_lost_s` and `stopped_s` are those of a `Repeat`, the last by rank, of the ranks that are
    here; `cpu_lost_s` is None if no timers ran, and empty if they were refused.  `clock_s` is how far the
    machine's clock may be from the one that all times are by.
    """

    cpu_idle: float
    cpu_stolen: float
    softnet_dropped: int
    queue_dropped: dict[str, int]
    stall_s: float = 0.0
    cpu_lost_s: tuple[float, ...] | None = None
    stopped_s: dict[int, float] = field(default_factory=dict)
    link_rows: tuple[LinkRow, ...] = ()
    changes: tuple[Done, ...] = ()
    others: tuple[Use, ...] = ()
    machine: str = ""
    clock_s: float = 0.0


def _reason(value: object) -> object:
    """Files from before 0.1.0 have whole sentences."""
    return Reason(value.replace(HOLE, "")) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Repeat:
    """One repeat, summed up.  `time_s` is from the common start to the last rank's end.

    `stall_s` is the longest time for which a timer on this machine was late, `cpu_lost_s` what each processor
    gave to real-time programs, interrupts and other guests, `run_delay_s` how long each rank was ready to run
    and did not, `cpu_s` how long it ran, `stopped_s` how long it was stopped; `disturbed` says why the repeat
    cannot be believed.
    `iteration_s` and `exposed_s` have an entry for each iteration that lasts from start to start
    (traces.schedules.periods).  `sent_nbytes` and `retransmits` are TCP's; `aggregated` is what each rank did
    for sums that switches made, empty if the plan has no trees.  `idle_of` is `cpu_idle` by machine, empty if
    there is only one; `clock_s` is how far their clocks may be apart.
    """

    time_s: float
    rank_time_s: tuple[float, ...]
    start_skew_s: float
    gap_lateness_s: float
    wrong: int
    sent_nbytes: tuple[int, ...]
    retransmits: tuple[int, ...]
    cpu_idle: float
    cpu_stolen: float
    stall_s: float
    softnet_dropped: int
    queue_dropped: dict[str, int]
    disturbed: tuple[Annotated[Reason, BeforeValidator(_reason)], ...] = ()
    aggregated: tuple[RankFigures, ...] = ()
    iteration_s: tuple[float, ...] = ()
    exposed_s: tuple[float, ...] = ()
    cpu_lost_s: tuple[float, ...] = ()
    run_delay_s: tuple[float, ...] = ()
    cpu_s: tuple[float, ...] = ()
    stopped_s: tuple[float, ...] = ()
    is_warmup: bool = False
    idle_of: dict[str, float] = field(default_factory=dict)
    clock_s: float = 0.0

    @property
    def counts(self) -> bool:
        """Whether it is one of those that were asked for, and can be believed."""
        return not (self.is_warmup or self.disturbed)

    @property
    def dropped(self) -> int:
        return sum(self.queue_dropped.values())


def summary(outcomes: list[Outcome], counted: Sequence[RepeatCounts]) -> Repeat:
    """Of the outcomes of all ranks, and what each machine counted."""
    times = [outcome.times for outcome in outcomes]
    start_ns, done_ns = times[0].start_ns, max(t.done_ns for t in times)
    stopped_s = {rank: each_s for each in counted for rank, each_s in each.stopped_s.items()}
    made = Repeat(
        time_s=(done_ns - start_ns) / 1e9,
        rank_time_s=tuple((t.done_ns - start_ns) / 1e9 for t in times),
        start_skew_s=max(t.began_ns - start_ns for t in times) / 1e9,
        gap_lateness_s=max(t.late_gap_ns for t in times) / 1e9,
        wrong=sum(outcome.wrong for outcome in outcomes),
        sent_nbytes=tuple(outcome.sent_nbytes for outcome in outcomes),
        retransmits=tuple(outcome.retransmits for outcome in outcomes),
        cpu_idle=min(each.cpu_idle for each in counted),
        cpu_stolen=max(each.cpu_stolen for each in counted),
        stall_s=max(each.stall_s for each in counted),
        softnet_dropped=sum(each.softnet_dropped for each in counted),
        queue_dropped={name: count for each in counted for name, count in each.queue_dropped.items()},
        aggregated=tuple(each.aggregated for each in outcomes if each.aggregated is not None),
        cpu_lost_s=tuple(lost_s for each in counted for lost_s in each.cpu_lost_s or ()),
        run_delay_s=tuple(t.run_delay_ns / 1e9 for t in times),
        cpu_s=tuple(t.cpu_ns / 1e9 for t in times),
        stopped_s=tuple(stopped_s[rank] for rank in sorted(stopped_s)),
        clock_s=max(each.clock_s for each in counted),
        idle_of={each.machine: each.cpu_idle for each in counted if each.machine},
    )
    reasons = [*lateness(made.time_s, made.start_skew_s, made.gap_lateness_s, made.clock_s)]
    for each in counted:
        found = _machines_reasons(made, each)
        reasons += (on_machine(each.machine, reason) for reason in found) if each.machine else found
    return replace(made, disturbed=tuple(reasons))


def _machines_reasons(repeat: Repeat, counted: RepeatCounts) -> tuple[Reason, ...]:
    """Why the repeat cannot be believed, by what one machine counted."""
    reasons = disturbances(
        time_s=repeat.time_s,
        cpu_idle=counted.cpu_idle,
        cpu_stolen=counted.cpu_stolen,
        stall_s=counted.stall_s,
        softnet_dropped=counted.softnet_dropped,
        others=counted.others,
    )
    if counted.cpu_lost_s is None:
        return reasons
    ranks = sorted(counted.stopped_s)
    return reasons + taken_away(
        repeat.time_s,
        counted.cpu_lost_s,
        {rank: repeat.run_delay_s[rank] for rank in ranks},
        {rank: repeat.cpu_s[rank] for rank in ranks},
        counted.stopped_s,
        counted.others,
    )


def begun_and_ended(
    schedule: Schedule, outcomes: Sequence[Outcome]
) -> dict[tuple[int, int], tuple[int, int]]:
    """By operation and rank when the first of its data left, or when it was computed, by the agents."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, outcome in enumerate(outcomes):
        times = outcome.times
        begun = [(int(schedule.sends.op[number]), ns) for number, ns in times.queued_ns.items()]
        begun += [(schedule.aggregations[number].op, ns) for number, ns in times.begun_ns.items()]
        for op, ns in begun:
            found[op, rank] = min(found.get((op, rank), (ns, ns)), (ns, ns))
        for op, ns in times.computed_ns.items():
            found[op, rank] = (times.computing_ns[op], ns)
    return found


def load_repeats(folder: Path, plan: Plan | None = None) -> list[Repeat]:
    """At least one, with the ranks of the plan.  Raise BadRun, or OSError."""
    path = folder / "repeats.json"
    repeats = read_json(path, TypeAdapter(list[Repeat]))
    if not repeats:
        raise BadRun(path, "no repeat finished")
    for number, repeat in enumerate(repeats):
        if not 0 < repeat.time_s < math.inf:
            raise BadRun(path, f"repeat {number}: time_s is {repeat.time_s}, not a time above 0")
        times_s = (*repeat.iteration_s, *repeat.exposed_s)
        if len(repeat.iteration_s) != len(repeat.exposed_s) or not all(0 <= s < math.inf for s in times_s):
            raise BadRun(
                path, f"repeat {number}: iteration_s and exposed_s must hold times of the same iterations"
            )
        for name in ("rank_time_s", "sent_nbytes", "retransmits"):
            if plan is not None and (got := len(getattr(repeat, name))) != plan.n_ranks:
                raise BadRun(path, f"repeat {number}: {name} has {got} values for {plan.n_ranks} ranks")
        due = plan.n_ranks if plan is not None and plan.trees else 0
        if plan is not None and (got := len(repeat.aggregated)) != due:
            raise BadRun(path, f"repeat {number}: aggregated has {got} values, the plan asks for {due}")
    return repeats


class RunRecords:
    """Writes into a run's folder; leaving it without an error completes the files."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._repeats: list[Repeat] = []
        self._links: list[tuple[Any, ...]] = []
        self._changes: list[dict[str, Any]] = []
        (folder / "events").mkdir()

    def __enter__(self) -> Self:
        return self

    @property
    def n_counted(self) -> int:
        return sum(repeat.counts for repeat in self._repeats)

    def repeat(
        self,
        number: int,
        outcomes: list[Outcome],
        counted: Sequence[RepeatCounts],
        *,
        is_warmup: bool = False,
    ) -> None:
        """`counted` has an entry for each machine."""
        found = periods(self._plan.schedule, begun_and_ended(self._plan.schedule, outcomes))
        made = replace(
            summary(outcomes, counted),
            iteration_s=tuple(one.time_s for one in found),
            exposed_s=tuple(one.exposed_s for one in found),
            is_warmup=is_warmup,
        )
        self._repeats.append(made)
        for each in counted:
            self._links += ((number, *row) for row in each.link_rows)
            self._changes += _changes(self._plan, number, each.changes)
        write_events(self._folder, self._plan, number, outcomes)
        (self._folder / "repeats.json").write_text(json.dumps([asdict(r) for r in self._repeats]) + "\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write_links()
            if self._plan.failures:
                write_whole(self._folder / FAILURES_FILE, json.dumps(self._changes, indent=1) + "\n")

    def _write_links(self) -> None:
        import pyarrow as pa  # here, because it takes 0.2 s, which a network on its way up would wait for
        import pyarrow.parquet as pq

        columns = zip(*self._links, strict=True) if self._links else [()] * len(LINK_COLUMNS)
        types = [pa.string() if name == "interface" else pa.int64() for name in LINK_COLUMNS]
        table = pa.table(list(map(list, columns)), schema=pa.schema(zip(LINK_COLUMNS, types, strict=True)))
        pq.write_table(table, self._folder / "links.parquet")


def _changes(plan: Plan, repeat: int, changes: Sequence[Done]) -> Iterator[dict[str, Any]]:
    """Cables that went down or came up in a repeat; times are CLOCK_MONOTONIC in ns."""
    for done in changes:
        yield {
            "repeat": repeat,
            "cable": cable_name(plan.fabric, done.change.port),
            "switch": done.change.port.node,
            "port": done.change.port.port,
            "event": "up" if done.change.is_up else "down",
            "start_ns": done.due_ns - done.change.due_ns,
            "due_ns": done.due_ns,
            "done_ns": done.done_ns,
        }

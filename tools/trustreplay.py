"""A capture's replay on a fabric where the job was trained too: what is sent there, and how it compares.

Switches spread flows by a hash of their port numbers, and a live job draws its ports at random.  Nobody can
foresee that draw, and it can double the load of a link.  So a replay that is to be compared with a live
job takes the paths that this job's connections took; other routes than `ecmp` know no chance and stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from controller.resolve import on_paths
from controller.routing.ecmp import ecmp
from controller.routing.shortest import Path as Route
from controller.tables.hostrules import SEED
from emu.fabrics.fabric import Fabric
from emu.plan import Flow, Plan
from emu.records import load_repeats
from emu.replayedmessages import likeness, replayed_messages
from emu.result import Row
from tools.experiment import Cell, plan_of
from tools.experiment import Job as Carried
from tools.trustresult import ERROR_BAR, TrustRow
from traces.fidelity import SentMessage, message_starts
from traces.groundtruth import read_logs
from traces.iterationtimes import (
    FIRST_WARM,
    MIN_ITERATIONS,
    IterationTime,
    iteration_times_s,
    logged_starts,
    together,
)
from traces.schedules.expand import AS_CAPTURED
from traces.schedules.schedule import Schedule
from traces.trace import Trace
from traces.workload import Workload

ECMP = "ecmp"
Pair = tuple[str, str]  # addresses of source and destination


def routes_taken(trace: Trace, fabric: Fabric) -> dict[Pair, Route]:
    """How the hash of the fabric's switches led what each of the job's hosts sent each other there.

    Of several connections between two hosts that counts which carried the most.
    """
    places = {fabric.ip(host): place for place, host in enumerate(fabric.hosts)}
    largest: dict[Pair, tuple[int, int, int]] = {}
    for choice in trace.choices:
        for stream in choice.connection.streams:
            src, sport, dst, dport = stream.direction[:4]
            if src in places and dst in places:
                found = (stream.nbytes, sport, dport)
                largest[src, dst] = max(largest.get((src, dst), found), found)
    flows = [
        Flow(places[src], places[dst], src, dst, sport, dport)
        for (src, dst), (_, sport, dport) in largest.items()
    ]
    nothing = Schedule(0, (), ())
    return dict(zip(largest, ecmp(fabric, fabric.hosts, flows, nothing, SEED), strict=True))


def plan_for(
    workloads: Sequence[Workload], fabric: Fabric, source: str, policy: str, taken: Mapping[Pair, Route]
) -> Plan:
    """The jobs side by side without their warm-up, hosts in order.  Raise ValueError, Refused."""
    warm = [[number for number in each.iterations if number >= FIRST_WARM] for each in workloads]
    fewest = min(map(len, warm))
    if fewest < MIN_ITERATIONS - FIRST_WARM:
        raise ValueError(f"{fewest} iterations besides the warm-up were read in the capture, too few")
    carried = Carried(
        workloads[0],
        source,
        iterations=tuple(sorted({number for numbers in warm for number in numbers})),
        beside=tuple(workloads[1:]),
    )
    plan = plan_of(Cell(fabric, AS_CAPTURED, "linear", policy), carried)
    return on_paths(plan, taken) if policy == ECMP else plan


@dataclass(frozen=True, slots=True)
class Replayed:
    """A job of a plan and the live one on the same fabric: its first rank in the plan, where the live job's
    logs are, and its time.

    `captured` are the capture's messages, empty if it is of another fabric; `unread` says why the capture
    cannot be relied on.
    """

    first_rank: int
    logs: Path
    live: IterationTime
    captured: Sequence[SentMessage] = ()
    unread: str | None = None


def compared(row: Row, plan: Plan, jobs: Sequence[Replayed], captured_on: str) -> list[TrustRow]:
    """A row for each job of the plan: iteration by iteration, over the repeats that count; with its
    `captured`, message by message too.  Raise ValueError, BadLog, BadRun, OSError.
    """
    assert row.folder
    work = Path(row.folder)
    repeats = load_repeats(work, plan)
    counted = [number for number, repeat in enumerate(repeats) if not repeat.disturbed] or range(len(repeats))
    messages = replayed_messages(work, plan, len(repeats))
    logged = [logged_starts(read_logs(job.logs)) for job in jobs]
    ends = [*(job.first_rank for job in jobs[1:]), plan.n_ranks]
    replayed = [
        [_of_job(messages[number], job.first_rank, end) for job, end in zip(jobs, ends, strict=True)]
        for number in counted
    ]
    times_s = [
        [
            iteration_times_s(starts, FIRST_WARM)
            for starts in together([message_starts(*each) for each in zip(of_jobs, logged, strict=True)])
        ]
        for of_jobs in replayed
    ]
    return [
        _row(
            row,
            plan,
            number,
            job,
            captured_on,
            [each[number] for each in times_s],
            [each[number] for each in replayed],
        )
        for number, job in enumerate(jobs)
    ]


def _of_job(messages: Sequence[SentMessage], first: int, end: int) -> list[SentMessage]:
    """Those of the ranks from `first` on before `end`, which the job itself counts from 0."""
    return [
        replace(message, src=message.src - first, dst=message.dst - first)
        for message in messages
        if first <= message.src < end
    ]


def _row(
    row: Row,
    plan: Plan,
    number: int,
    job: Replayed,
    captured_on: str,
    by_repeat: Sequence[Sequence[float]],
    replayed: Sequence[Sequence[SentMessage]],
) -> TrustRow:
    if not all(by_repeat):
        raise ValueError("no rank whose log gives iterations sends anything in the replay")
    replay = IterationTime.of([time_s for times_s in by_repeat for time_s in times_s])
    iterations = {op.iteration for op in plan.schedule.ops}
    alone = len(plan.schedule.jobs) == 1
    predicted_s = row.predicted_s / len(iterations) if row.predicted_s and alone else None
    unread = (job.unread,) if job.unread else ()
    return TrustRow(
        captured_on=captured_on,
        replayed_on=plan.fabric.spec,
        verdict="not valid" if unread else row.verdict,
        job=number,
        live=job.live,
        replay=replay,
        predicted_s=predicted_s,
        error=replay.median / job.live.median - 1,
        predicted_error=predicted_s / job.live.median - 1 if predicted_s else None,
        fidelity=likeness(plan, job.captured, replayed),
        error_bar=min(ERROR_BAR, row.prediction_error or ERROR_BAR),
        repeats=row.repeats,
        repeat_s=tuple(median(times_s) for times_s in by_repeat),
        reasons=(*unread, *row.reasons),
        warnings=row.warnings,
    )

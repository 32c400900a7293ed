"""Replays captures on a fabric where the jobs were trained too: what it sends, and how it compares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from gradwire.emu.records import load_repeats
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.plan import Plan
from gradwire.results.replayedmessages import likeness, replayed_messages
from gradwire.results.row import Row
from gradwire.results.trustresult import ERROR_BAR, TrustRow
from gradwire.traces.fidelity import SentMessage, message_starts
from gradwire.traces.groundtruth import read_logs
from gradwire.traces.iterationtimes import (
    FIRST_WARM,
    MIN_ITERATIONS,
    IterationTime,
    iteration_times_s,
    logged_starts,
    together,
)
from gradwire.traces.schedules.names import AS_CAPTURED
from gradwire.traces.workload import Workload


def plan_for(
    workloads: Sequence[Workload], fabric: Fabric, source: str, policy: str, captured_on: Fabric
) -> Plan:
    """The jobs side by side, hosts in order.  Raise ValueError, Refused.

    With their warm-up: as a job began, so it may go on.  Ranks that began late, or in an order of their own,
    may keep a rhythm that another beginning would not have.
    """
    fewest = min(sum(number >= FIRST_WARM for number in each.iterations) for each in workloads)
    if fewest < MIN_ITERATIONS - FIRST_WARM:
        least = MIN_ITERATIONS - FIRST_WARM
        raise ValueError(
            f"{source}: the capture shows {fewest} iterations after the warm-up, and {least} are needed: "
            f"train for {MIN_ITERATIONS} or more"
        )
    carried = Experiment(workloads[0], source, captured_on=captured_on, beside=tuple(workloads[1:]))
    return plan_of(Cell(fabric, AS_CAPTURED, "linear", policy), carried)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A job of a plan and the live one on the same fabric: its first rank in the plan, where the live job's
    logs are, and its time.

    `captured` are the capture's messages, empty if it is of another fabric; `doubts` say why the capture or
    the live job cannot be relied on.
    """

    first_rank: int
    logs: Path
    live: IterationTime
    captured: Sequence[SentMessage] = ()
    doubts: tuple[str, ...] = ()


def compared(row: Row, plan: Plan, jobs: Sequence[Replayed], captured_on: str) -> list[TrustRow]:
    """A row for each job of the plan: iteration by iteration, over the repeats that count; with its
    `captured`, message by message too.  Raise ValueError, BadLog, BadRun, OSError.
    """
    assert row.folder
    work = Path(row.folder)
    repeats = load_repeats(work, plan)
    counted = [number for number, repeat in enumerate(repeats) if repeat.counts] or range(len(repeats))
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
        raise ValueError("no rank whose log has iterations sends anything in the replay")
    replay = IterationTime.of([time_s for times_s in by_repeat for time_s in times_s])
    alone = len(plan.schedule.jobs) == 1
    bar = row.predicted_iteration if alone else None
    predicted_s = bar.predicted_s if bar else None
    error_bar = bar.error if bar is not None and bar.error is not None else row.prediction_error
    return TrustRow(
        captured_on=captured_on,
        replayed_on=plan.fabric.spec,
        verdict="not valid" if job.doubts else row.verdict,
        job=number,
        live=job.live,
        replay=replay,
        predicted_s=predicted_s,
        error=replay.median / job.live.median - 1,
        predicted_error=predicted_s / job.live.median - 1 if predicted_s else None,
        fidelity=likeness(plan, job.captured, replayed),
        error_bar=min(ERROR_BAR, error_bar or ERROR_BAR),
        repeats=row.repeats,
        repeat_s=tuple(median(times_s) for times_s in by_repeat),
        reasons=(*job.doubts, *row.reasons),
        warnings=row.warnings,
        machine=row.machine,
    )

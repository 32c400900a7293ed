"""The result of a run as one row, with the names that `--json` prints (docs/schemas.md, "rows")."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from gradwire.emu.aggregation.figures import AggregationRow
from gradwire.emu.records import Repeat
from gradwire.planning.failures import cable_name, show_outage
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.errorbar import Bar, Expected
from gradwire.planning.plan import ADAPTIVE, Plan
from gradwire.results.limits import Limit
from gradwire.results.planfigures import PlanFigures
from gradwire.results.rowchoices import Choices, cell_name, planned_choices
from gradwire.results.schedulesizes import asked_nbytes, busbw_nbytes, collective_of, replaced_pushes
from gradwire.results.verdict import Verdict, counted
from gradwire.traces.files import write_whole
from gradwire.traces.iterationtimes import IterationTime
from gradwire.traces.schedules.dtypes import FLOAT32, DType
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import Pace
from gradwire.traces.schedules.outbox import FIFO, Order

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a figure over the repeats that count: its median, its least and its largest value."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class FailedCable:
    """A cable that failed in every repeat, in seconds after the start; `up_s` None: until the end."""

    cable: str
    down_s: float
    up_s: float | None

    def __str__(self) -> str:
        return f"{self.cable} {show_outage(self.down_s, self.up_s)}"


@dataclass(frozen=True, slots=True)
class JobTime:
    """When a job of several beside each other is over, and its ranks."""

    ranks: tuple[int, ...]
    time_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of a matrix; a refused cell has no figures.

    `bytes` is the sum of the operations' sizes in the type in which they are sent: of collectives what each
    rank holds.  `collective` is what all operations are, None where they differ or are messages.  `dtype` is
    the type of what is added up; each send left `send_delay_s` after it might.  `pace` is None where the
    algorithm went on as it does by itself.  `hosts`, `host_rates_bps` and `inner_rates_bps` (of the hosts'
    cables, and of those between switches, ascending) are the fabric's.

    `ratio` is the median time over `bound_s` (alpha 0, nominal rate times payload efficiency),
    `ratio_predicted` that over `predicted_s` (the model of the plan's own paths, calibrated host times
    and goodput).  That is known to within `prediction_error`, a share of it: a time outside
    `predicted_low_s` to `predicted_high_s` is not accounted for.  `machine_share` of it is the machine's
    own time per step.  These four are None where the model does not know all that happens (see
    planning.model.expected).  `predicted_iteration` and `predicted_exposed` are the same of `iteration_s`
    and `exposed_s`.
    `machine`, `capture` and `model` are the `reasons` by what they are about, empty in a refused cell.
    `wrong` counts wrong elements over all repeats.  Every other figure is of the `repeats` that the machine
    did not disturb; `left_out` of them it did.  `why` says why the worst link is
    one, if it holds the job up.  `predicted_s`, `worst_link` and `why` are of the paths as planned, and know
    nothing of `failures` and of what adaptive routes moved.

    What switches add up needs less of the hosts' links than 2(p-1)/p of a buffer, so there `bound_s` is what
    their share needs: the buffer once out of each giver and once into each taker, in the tree's frames, and
    what is sent besides.  `busbw_Bps` stays NCCL's, of 2(p-1)/p, and can be more than a link carries.
    `iteration_s` is an iteration from start to start, over those of all counted repeats, and `exposed_s` what
    of it no computing hides, the waiting for slower ranks included (traces.schedules.periods); None where no
    iteration follows another, and none is closed by computing.
    `settled_s` is when adaptive routes moved flows for the last time, after the start of a repeat.
    `closed_form` and `closed_s` are those of what was run, with `alpha_s` and `beta_s_per_byte` of the
    fabric's calibration (`alpha_from` says of what); None, with `no_closed_form` as the reason, where there
    is none (planning.model.closedform).  With `closed_is_bound` it is at most that, and there is no ratio.
    `fabric_bound_s` is the least time on this fabric if every phase waits for the one before, whatever the
    routes.  `jobs` has the median time of each job of several.
    `limit` is what holds the run up (results.limits).
    `idle_of` is `cpu_idle` by machine, empty if one machine carried the fabric.
    `tier_nbytes` are bytes on the wire in a repeat by tier and direction, `host_side` says why what switches
    were to add up is done by hosts.
    """

    fabric: str
    algorithm: str
    placement: str
    routes: str
    ranks: int
    bytes: int
    verdict: str
    seed: int = 0
    collective: CollectiveKind | None = None
    dtype: DType = FLOAT32
    send_delay_s: float = 0.0
    order: Order = FIFO
    pace: Pace | None = None
    hosts: int = 0
    host_rates_bps: tuple[int, ...] = ()
    inner_rates_bps: tuple[int, ...] = ()
    time_s: Spread | None = None
    algbw_Bps: float | None = None
    busbw_Bps: float | None = None
    wrong: int | None = None
    bound_s: float | None = None
    ratio: float | None = None
    predicted_s: float | None = None
    ratio_predicted: float | None = None
    predicted_low_s: float | None = None
    predicted_high_s: float | None = None
    prediction_error: float | None = None
    predicted_iteration: Bar | None = None
    predicted_exposed: Bar | None = None
    machine_share: float | None = None
    worst_link: str | None = None
    worst_link_flows: int | None = None
    why: str | None = None
    retransmits: int | None = None
    dropped: int | None = None
    cpu_idle: float | None = None
    reasons: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    capture: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    repeats: int = 0
    left_out: int = 0
    folder: str | None = None
    failures: tuple[FailedCable, ...] = ()
    idle_of: Mapping[str, float] = field(default_factory=dict)
    tier_nbytes: Mapping[str, int] = field(default_factory=dict)
    aggregation: AggregationRow | None = None
    host_side: tuple[str, ...] = ()
    iteration_s: IterationTime | None = None
    exposed_s: float | None = None
    fidelity: float | None = None
    settled_s: Spread | None = None
    closed_form: str | None = None
    closed_s: float | None = None
    ratio_closed: float | None = None
    no_closed_form: str | None = None
    closed_is_bound: bool = False
    alpha_s: float | None = None
    beta_s_per_byte: float | None = None
    alpha_from: str | None = None
    fabric_bound_s: float | None = None
    limit: Limit | None = None
    jobs: tuple[JobTime, ...] = ()

    def is_late(self, failure: FailedCable) -> bool:
        """Whether every counted repeat was over before the cable would have failed."""
        return self.time_s is not None and self.time_s.max <= failure.down_s

    def failure_lines(self) -> tuple[str, ...]:
        """The failures, a line each for a person."""
        late = ", after the run was over"
        return tuple(f"{failure}{late if self.is_late(failure) else ''}" for failure in self.failures)

    def reason_lines(self) -> tuple[tuple[str, str], ...]:
        """The reasons, each after the verdict and the part of the run that it is about, for a person."""
        parts = (("machine", self.machine), ("capture", self.capture), ("model", self.model))
        about = {reason: f"{self.verdict} (the {part})" for part, some in parts for reason in some}
        return tuple((about.get(reason, self.verdict), reason) for reason in self.reasons)

    @property
    def name(self) -> str:
        return cell_name(self.fabric, self.algorithm, self.placement, self.routes)

    @property
    def choices(self) -> Choices:
        return Choices(
            seed=self.seed,
            dtype=self.dtype,
            send_delay_s=self.send_delay_s,
            order=self.order,
            pace=self.pace,
        )

    @property
    def valid(self) -> bool:
        return self.verdict == "valid"

    @property
    def flows_may_move(self) -> bool:
        """Whether `predicted_s`, `worst_link` and `why` are only of the paths that the run began with."""
        return bool(self.failures) or self.routes == ADAPTIVE

    @property
    def is_unaccounted(self) -> bool:
        """Whether the median time, iteration or exposed time is outside the error bar of its prediction."""
        whole = Bar(self.predicted_s or 0.0, self.predicted_low_s, self.predicted_high_s)
        iteration_s = self.iteration_s.median if self.iteration_s else None
        pairs = (
            (self.time_s.median if self.time_s else None, whole),
            (iteration_s, self.predicted_iteration),
            (self.exposed_s, self.predicted_exposed),
        )
        return any(time_s is not None and bar and not bar.holds(time_s) for time_s, bar in pairs)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def row(
    plan: Plan,
    repeats: Sequence[Repeat],
    verdict: Verdict,
    *,
    expected: Expected,
    figures: PlanFigures,
    folder: Path,
    why: str | None = None,
) -> Row:
    """The row of a run, without `tier_nbytes` and `aggregation`, which need the switches' counters.

    `expected` is the prediction with its error bars; `figures` are the plan's, and `why` says why its worst
    link holds the job up, if it does.  `folder` is where the run will be.
    """
    good = counted(repeats)
    times = Spread.of([repeat.time_s for repeat in good])
    nbytes = asked_nbytes(plan.schedule)
    bus_nbytes = max(busbw_nbytes(plan.schedule, ranks) for ranks in plan.schedule.jobs)
    pushed = replaced_pushes(plan.schedule)
    collective = not pushed and all(op.kind != "message" for op in plan.schedule.ops)
    return Row(
        fabric=plan.fabric.spec,
        algorithm=plan.algorithm,
        placement=plan.placement_name,
        routes=plan.routes,
        ranks=plan.n_ranks,
        bytes=nbytes,
        verdict="valid" if verdict.valid else "not valid",
        **planned_choices(plan),
        collective=collective_of(plan.schedule),
        hosts=len(plan.fabric.hosts),
        host_rates_bps=plan.fabric.host_rates_bps,
        inner_rates_bps=plan.fabric.inner_rates_bps,
        time_s=times,
        algbw_Bps=nbytes / times.median if collective and len(plan.schedule.jobs) == 1 else None,
        busbw_Bps=bus_nbytes / times.median,
        wrong=sum(repeat.wrong for repeat in repeats),
        bound_s=plan.prediction.bound_s,
        ratio=_ratio(times.median, plan.prediction.bound_s),
        predicted_s=expected.predicted_s,
        ratio_predicted=_ratio(times.median, expected.predicted_s),
        predicted_low_s=expected.low_s,
        predicted_high_s=expected.high_s,
        prediction_error=expected.error,
        predicted_iteration=expected.iteration,
        predicted_exposed=expected.exposed,
        machine_share=expected.machine_share,
        **figures,
        why=why,
        retransmits=sum(sum(repeat.retransmits) for repeat in good),
        dropped=sum(repeat.dropped for repeat in good),
        cpu_idle=min(repeat.cpu_idle for repeat in good),
        idle_of={
            machine: min(repeat.idle_of.get(machine, 0.0) for repeat in good) for machine in good[0].idle_of
        },
        reasons=verdict.reasons,
        machine=verdict.machine,
        capture=verdict.capture,
        model=verdict.model,
        warnings=verdict.warnings,
        repeats=len(good),
        left_out=sum(not repeat.is_warmup for repeat in repeats) - len(good),
        folder=str(folder),
        failures=tuple(
            FailedCable(
                cable_name(plan.fabric, failure.port),
                failure.down_ns / 1e9,
                None if failure.up_ns is None else failure.up_ns / 1e9,
            )
            for failure in plan.failures
        ),
        host_side=plan.host_side,
        iteration_s=iteration_of(good),
        exposed_s=exposed_s_of(good),
        jobs=_jobs(plan, good),
    )


def _jobs(plan: Plan, repeats: Sequence[Repeat]) -> tuple[JobTime, ...]:
    """The median over the repeats of when the last rank of each job was done; empty for one job."""
    jobs = plan.schedule.jobs if len(plan.schedule.jobs) > 1 else ()
    return tuple(
        JobTime(ranks, median(max(repeat.rank_time_s[rank] for rank in ranks) for repeat in repeats))
        for ranks in jobs
    )


def iteration_of(repeats: Sequence[Repeat]) -> IterationTime | None:
    """The iteration time over all iterations of these repeats; None if they have none."""
    times_s = [time_s for repeat in repeats for time_s in repeat.iteration_s]
    return IterationTime.of(times_s) if times_s else None


def exposed_s_of(repeats: Sequence[Repeat]) -> float | None:
    """The median over all iterations of what no computing hides of one; None if there are none."""
    exposed_s = [time_s for repeat in repeats for time_s in repeat.exposed_s]
    return median(exposed_s) if exposed_s else None


def _ratio(time_s: float, ideal_s: float) -> float | None:
    """None when nothing but empty messages was sent."""
    return time_s / ideal_s if ideal_s else None


def save(folder: Path, result: Row, verdict: Verdict, calibration: Calibration | None) -> None:
    """`result.json` and `verdict.json`, the last files a run writes."""
    measured = asdict(calibration) if calibration else None
    judged = {**asdict(verdict), "calibration": measured}
    write_whole(folder / "verdict.json", json.dumps(judged, indent=1) + "\n")
    write_whole(folder / "result.json", json.dumps(result.to_json(), indent=1) + "\n")

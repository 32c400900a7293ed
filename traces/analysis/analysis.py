"""What captures say about a job and its network, as values: what `inspect` prints and writes."""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Literal, cast

from gradwire.traces.analysis.aggregations import AggregationJob, aggregations
from gradwire.traces.analysis.bottleneck import HostBound, JobBound, host_bounds, job_bound
from gradwire.traces.analysis.bounds import Bound, held_bounds
from gradwire.traces.analysis.bursts import Burstiness, Series, WindowRates, burstiness, host_series, rates
from gradwire.traces.analysis.exposure import Exposure, Span, Straggler, exposure, stragglers
from gradwire.traces.analysis.flows import FlowFigures, flows, origin
from gradwire.traces.analysis.incast import Incast, incasts
from gradwire.traces.analysis.linerate import (
    FabricRates,
    LineRate,
    acknowledged,
    line_rate,
    of_hosts,
    own_hosts,
)
from gradwire.traces.analysis.shares import Shares, refusals, shares
from gradwire.traces.analysis.traffic import Traffic, traffic
from gradwire.traces.analysis.transfers import (
    AlgorithmUse,
    Iteration,
    Transfer,
    algorithm_uses,
    iterations,
    matrix,
    transfers,
)
from gradwire.traces.packets.clocks import HostClock
from gradwire.traces.recognition.ranks import BadTrace, NoTraining
from gradwire.traces.recognition.recognise import Job, find_job
from gradwire.traces.recognition.shape import JobShape
from gradwire.traces.trace import CaptureFile, Losses, Trace

SCHEMA: Literal["gradwire.inspect/2"] = "gradwire.inspect/2"
PLOT_WINDOWS_NS = (10**6, 10**7, 10**8, 10**9, 10**10, 10**11)
MAX_PLOT_WINDOWS = 4000  # as many as a wide screen has columns
# Of the bytes of some hosts: with 2 % their iterations were found all the same, with 8 and 10 % others were.
MAX_UNREAD_ALONE = 0.05


@dataclass(frozen=True)
class Analysis:
    """Times count from `origin_ns` (since 1970): the first training byte, or the first packet.

    `matrix_nbytes[src][dst]` is the payload that one rank sent to another, each byte once.  `seen_from` are
    the ranks whose part alone the captures show; empty if they show all.  Of captures without training
    `framing` is "", `shape` None, and all that follows from ranks is empty:  `missing` says why.
    `shares_refused` says why the parts of `shares` cannot be believed.  `incomparable` says why times of
    different hosts mean nothing beside each other: then there are no transfers, iterations, spans,
    exposures, shares, stragglers and incasts; empty if they can be compared, then to `clock_error_ns`.
    """

    name: str
    framing: str
    addresses: tuple[str, ...]
    seen_from: tuple[int, ...]
    origin_ns: int
    duration_ns: int
    missing: str
    shape: JobShape | None
    line_rate: LineRate | None
    bounds: tuple[Bound, ...]
    host_bounds: tuple[HostBound, ...]
    job_bound: JobBound
    files: tuple[CaptureFile, ...]
    matrix_nbytes: tuple[tuple[int, ...], ...]
    transfers: tuple[Transfer, ...]
    algorithms: tuple[AlgorithmUse, ...]
    iterations: tuple[Iteration, ...]
    spans: tuple[Span, ...]
    exposures: tuple[Exposure, ...]
    shares: Shares | None
    shares_refused: tuple[str, ...]
    stragglers: tuple[Straggler, ...]
    flows: tuple[FlowFigures, ...]
    burstiness: tuple[Burstiness, ...]
    rates: tuple[WindowRates, ...]
    incasts: tuple[Incast, ...]
    aggregations: tuple[AggregationJob, ...]
    traffic: tuple[Traffic, ...]
    losses: Losses
    rendezvous_packets: int
    notes: tuple[str, ...]
    clocks: tuple[HostClock, ...] = ()
    clock_error_ns: int = 0
    incomparable: str = ""


def analyse(job: Job, line_rate_bps: int | None = None, fabric_rates: FabricRates | None = None) -> Analysis:
    """All of it; `line_rate_bps` if somebody knows it, `fabric_rates` if the capture's fabric is known."""
    return _analysis(job.trace, job, "", line_rate_bps, fabric_rates)


def analyse_flows(
    trace: Trace,
    missing: str,
    line_rate_bps: int | None = None,
    fabric_rates: FabricRates | None = None,
) -> Analysis:
    """What can be said without a job; `missing` is why there is none."""
    return _analysis(trace, None, missing, line_rate_bps, fabric_rates)


def analyse_trace(
    trace: Trace, line_rate_bps: int | None = None, fabric_rates: FabricRates | None = None
) -> tuple[Analysis, Job | None]:
    """All that can be said, and the training job; without a whole one, what is on the wire, and None."""
    try:
        job = find_job(trace) if len(trace.messages) else trace.no_training
    except NoTraining as error:
        job = error.why
    except BadTrace as error:
        job = str(error)
    if isinstance(job, Job):
        return analyse(job, line_rate_bps, fabric_rates), job
    return analyse_flows(trace, job, line_rate_bps, fabric_rates), None


def _analysis(
    trace: Trace,
    job: Job | None,
    missing: str,
    line_rate_bps: int | None,
    fabric_rates: FabricRates | None,
) -> Analysis:
    series = host_series(trace)
    known_bps = fabric_rates.all_bps if fabric_rates and line_rate_bps is None else ()
    hosts_bps = line_rate_bps or (fabric_rates.hosts_bps if fabric_rates else inf)
    n_hosts = fabric_rates.n_hosts if fabric_rates else 1
    own = of_hosts(series, own_hosts(trace))
    held = held_bounds(own, known_bps, hosts_bps, acknowledged(trace))
    bounds = tuple(one.bound for one in held)
    of_job = job_bound(held, known_bps, n_hosts)
    rate = line_rate(line_rate_bps, fabric_rates, bounds, of_job)
    origin_ns = origin(trace)
    timed = job if trace.clocks.comparable else None
    moved = transfers(timed, origin_ns, rate) if timed else ()
    spans, exposures = exposure(timed) if timed else ((), ())
    of_time = shares(exposures, timed.labels.warm_up) if timed and not _is_part(trace) else None
    files = trace.files
    duration_ns = max(file.last_ns for file in files) - min(file.first_ns for file in files)
    return Analysis(
        name=trace.name,
        framing=trace.framing if job else "",
        addresses=trace.addresses if job else (),
        seen_from=trace.seen_from if job else (),
        origin_ns=origin_ns,
        duration_ns=duration_ns,
        missing=missing,
        shape=job.shape if job else None,
        line_rate=rate,
        bounds=bounds,
        host_bounds=host_bounds(bounds),
        job_bound=of_job,
        files=files,
        clocks=trace.clocks.hosts,
        clock_error_ns=trace.clocks.error_ns,
        incomparable=trace.clocks.why_not if job else "",
        matrix_nbytes=matrix(job) if job else (),
        transfers=moved,
        algorithms=algorithm_uses(job) if job else (),
        iterations=iterations(timed, moved, exposures) if timed else (),
        spans=spans,
        exposures=exposures,
        shares=of_time,
        shares_refused=_refusals(timed, series, spans, exposures) if timed else (),
        stragglers=stragglers(timed, of_time.long if of_time else ()) if timed else (),
        flows=flows(trace),
        burstiness=burstiness(series),
        rates=rates(series, window_ns(duration_ns)),
        incasts=incasts(trace) if trace.clocks.comparable else (),
        aggregations=aggregations(trace.captures, origin_ns),
        traffic=traffic(trace),
        losses=trace.losses,
        rendezvous_packets=trace.rendezvous_packets,
        notes=job.notes if job else trace.notes,
    )


def _is_part(trace: Trace) -> bool:
    """Some hosts' messages with gaps: what is left of a rank's iterations may be taken for all of them."""
    return bool(trace.seen_from) and trace.losses.unread > MAX_UNREAD_ALONE


def _refusals(
    job: Job, series: Sequence[Series], spans: Sequence[Span], exposures: Sequence[Exposure]
) -> tuple[str, ...]:
    iterations_ = [
        iteration
        for one, iteration in zip(job.operations, job.labels.iterations, strict=True)
        if one.kind == "allreduce" and iteration >= job.labels.warm_up
    ]
    n_buckets = max(Counter(iterations_).values(), default=1)
    return refusals(job.trace, series, spans, exposures, job.labels.warm_up, n_buckets)


def window_ns(duration_ns: int) -> int:
    """The finest window of which a plot over `duration_ns` has not too many."""
    return next((w for w in PLOT_WINDOWS_NS if duration_ns // w < MAX_PLOT_WINDOWS), PLOT_WINDOWS_NS[-1])


def to_json(analysis: Analysis, **more: object) -> str:
    """The text that `inspect --json` prints (docs/schemas.md); `more` are members that follow the analysis'.

    Dataclasses become objects while they are written: of tens of thousands of flows copies cost a second.
    """
    whole = {"schema": SCHEMA, **_members(analysis), **more}
    return json.dumps(whole, default=_written, check_circular=False)


def _written(value: object) -> Any:
    return str(value) if isinstance(value, Path) else _members(value)


def _members(value: object) -> dict[str, Any]:
    names = _field_names(cast(Hashable, type(value)))
    known = vars(value)  # in the fields' order, perhaps with cached properties
    return known if len(known) == len(names) else {name: known[name] for name in names}


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """Raise TypeError if it is not a dataclass."""
    return tuple(field.name for field in fields(kind))

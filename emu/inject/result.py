"""The result of an injection: its figures, and whether they can be believed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gradwire.emu.inject.counts import InjectionCounts
from gradwire.emu.inject.figures import (
    LATENESS_EDGES_S,
    NEVER,
    FlowFigures,
    TimePercentiles,
    drift_ppm,
    flow_figures,
    flow_numbers,
    lateness_histogram,
    percentiles,
)
from gradwire.emu.inject.options import PPS, RATE, RECORDED, TOPSPEED, InjectOptions, Pace
from gradwire.emu.inject.preparation import Prepared
from gradwire.emu.inject.times import ReadTimes
from gradwire.emu.inject.timetable import Ints
from gradwire.traces.units import show_bps, show_count

SCHEMA = "gradwire.injection/1"
VALID, NOT_VALID = "valid", "not valid"
LATE_S = 1e-3  # the 99th percentile of handing packets over
BUSY_IDLE, WARN_IDLE = 0.03, 0.10  # the sender alone keeps one processor busy
DRIFT_PPM = 1000.0
_CLOCK_SET_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class InjectedFlow:
    """One direction of a connection, as mapped; `reordered` and `max_extent` as in RFC 4737."""

    protocol: str
    src: str
    sport: int
    dst: str
    dport: int
    sent: int
    nbytes: int
    lost: int
    delay_s: TimePercentiles | None
    reordered: int
    max_extent: int


@dataclass(frozen=True, slots=True)
class Injection:
    """The fields are those of `result.json` (docs/schemas.md)."""

    schema: str
    source: str
    fabric: str
    routes: str
    switch: str
    pace: str
    loops: int
    exact_mtu: bool
    hosts: Mapping[str, str]
    packets: int
    bytes: int
    planned_s: float
    took_s: float
    sent: int
    lost: int
    refused: int
    arrived: int
    stray: int
    delay_s: TimePercentiles | None
    reordered: int
    max_extent: int
    lateness_s: TimePercentiles | None
    lateness_histogram: Mapping[str, int]
    handed_lateness_s: TimePercentiles | None
    drift_ppm: float | None
    queue_dropped: Mapping[str, int]
    cpu_idle: float
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    verdict: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    flows: tuple[InjectedFlow, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def result(
    source: str, options: InjectOptions, prepared: Prepared, observed: ReadTimes, counted: InjectionCounts
) -> Injection:
    """The figures of all loops' packets together."""
    times, parts = observed.times, prepared.pieces
    late = times.left_ns[times.left_ns != NEVER] - times.due_ns[times.left_ns != NEVER]
    was_handed = times.handed_ns != NEVER
    handed_late = (times.handed_ns - times.due_ns)[was_handed]
    has_deadlines = options.pace.kind != TOPSPEED
    drift = drift_ppm(times.due_ns[was_handed], handed_late) if has_deadlines else None
    nbytes = np.tile(parts.wire_nbytes, options.loops)
    flows = _flows(prepared, options.loops, nbytes, observed)
    arrived = int(np.count_nonzero(times.arrived_ns != NEVER))
    handed = percentiles(handed_late) if has_deadlines else None
    reasons, warnings = judge(handed, drift, observed, counted)
    ends = times.handed_ns[was_handed]
    return Injection(
        schema=SCHEMA,
        source=source,
        fabric=prepared.fabric.spec,
        routes=options.routes,
        switch=options.switch,
        pace=show_pace(options.pace),
        loops=options.loops,
        exact_mtu=options.exact_mtu,
        hosts=prepared.host_of,
        packets=len(times.due_ns),
        bytes=int(nbytes.sum()),
        planned_s=float(times.due_ns[-1] - times.due_ns[0]) / 1e9,
        took_s=float(ends[-1] - ends[0]) / 1e9 if len(ends) else 0.0,
        sent=int(np.count_nonzero(times.left_ns != NEVER)),
        lost=len(times.due_ns) - arrived,
        refused=int(np.count_nonzero(~was_handed)),
        arrived=arrived,
        stray=observed.stray,
        delay_s=percentiles(times.delay_ns),
        reordered=sum(flow.reordered for flow in flows),
        max_extent=max((flow.max_extent for flow in flows), default=0),
        lateness_s=percentiles(late) if has_deadlines else None,
        lateness_histogram=_histogram(late) if has_deadlines else {},
        handed_lateness_s=handed,
        drift_ppm=drift,
        queue_dropped=counted.queue_dropped,
        cpu_idle=counted.cpu_idle,
        left_out=prepared.left_out,
        notes=prepared.notes,
        verdict=NOT_VALID if reasons else VALID,
        reasons=reasons,
        warnings=warnings,
        flows=flows,
    )


def judge(
    handed: TimePercentiles | None, drift: float | None, observed: ReadTimes, counted: InjectionCounts
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reasons that make the injection not valid, and warnings that do not.

    `handed` is how late packets were handed to their ports, None of packets without deadlines.
    """
    reasons, warnings = [], []
    if handed and handed.p99 > LATE_S:
        reasons.append(f"1 % of the packets were handed over {handed.p99 * 1e3:.3g} ms late or more")
    if drift is not None and abs(drift) > DRIFT_PPM and handed and handed.p99 > LATE_S:
        reasons.append(f"the end drifts: {drift / 1e4:.3g} % slower than wanted")
    if counted.capture_dropped:
        count = show_count(sum(counted.capture_dropped.values()), "packet")
        reasons.append(f"the captures lost {count}, so loss and delays are not known")
    if counted.softnet_dropped:
        reasons.append(f"the kernel's receive queues dropped {show_count(counted.softnet_dropped, 'packet')}")
    if abs(observed.clock_set_ns) > _CLOCK_SET_NS:
        reasons.append(f"the clock was set by {observed.clock_set_ns / 1e6:.3g} ms meanwhile")
    lost = int(np.count_nonzero(observed.times.arrived_ns == NEVER))
    vanished = lost - sum(counted.queue_dropped.values())
    if vanished > 0 and not counted.capture_dropped:
        reasons.append(f"packets lost outside the fabric's queues: {vanished:,}")
    if counted.cpu_idle < BUSY_IDLE and handed:
        reasons.append(f"CPU idle {counted.cpu_idle:.0%}")
    elif counted.cpu_idle < WARN_IDLE:
        warnings.append(f"CPU idle {counted.cpu_idle:.0%}")
    if observed.stray:
        warnings.append(f"packets that came twice, or to where they were not sent: {observed.stray:,}")
    return tuple(reasons), tuple(warnings)


def show_pace(pace: Pace) -> str:
    """For a person: `recorded ×2`, `5,000 packets/s`, `100 Mb/s`."""
    value = float(pace.value)
    return {
        RECORDED: "as recorded" if value == 1 else f"recorded ×{value:g}",
        PPS: f"{value:,.0f} packets/s",
        RATE: show_bps(value),
        TOPSPEED: "top speed",
    }[pace.kind]


def _histogram(late_ns: Ints) -> dict[str, int]:
    names = [f"<={edge:g}" for edge in LATENESS_EDGES_S] + [f">{LATENESS_EDGES_S[-1]:g}"]
    return dict(zip(names, lateness_histogram(late_ns), strict=True))


def _flows(prepared: Prepared, loops: int, nbytes: Ints, observed: ReadTimes) -> tuple[InjectedFlow, ...]:
    """In the order of their first packets."""
    parts = prepared.pieces
    number, first = flow_numbers([parts.protocol, parts.src, parts.sport, parts.dst, parts.dport])
    figures = flow_figures(np.tile(number, loops), nbytes, observed.times)
    return tuple(_flow(prepared, int(first[figure.flow]), figure) for figure in figures)


def _flow(prepared: Prepared, row: int, figure: FlowFigures) -> InjectedFlow:
    parts, hosts = prepared.pieces, prepared.hosts
    return InjectedFlow(
        protocol={6: "tcp", 17: "udp"}[int(parts.protocol[row])],
        src=hosts[parts.src[row]],
        sport=int(parts.sport[row]),
        dst=hosts[parts.dst[row]],
        dport=int(parts.dport[row]),
        sent=figure.sent,
        nbytes=figure.nbytes,
        lost=figure.lost,
        delay_s=figure.delay,
        reordered=figure.reordering.reordered,
        max_extent=figure.reordering.max_extent,
    )

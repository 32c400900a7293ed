"""The links of a run, from its folder: bytes, flows, and the share of the time that each was busy.

Where nothing was counted, the plan's own figures are used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from gradwire.controller import counters as switches
from gradwire.emu.records import Repeat, load_repeats
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import Egress, interface, link_name
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.loads import LinkLoad, PlanLoad, is_host_link, plan_load
from gradwire.planning.model.wire import wire_nbytes
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check_path
from gradwire.planning.runfiles import check_finished, one_run, read_json, read_table
from gradwire.planning.transport import payload_efficiency
from gradwire.results.audit.runaudit import RunAudit, audit_run, middle
from gradwire.results.linktimes import MOST_WINDOWS, RunTimes, run_times
from gradwire.results.outages import Outage, outages

MOST_TIMES, MOST_INNER_TIMES = 10, 6  # links over time, and of them between switches

Origin = Literal["port", "switch", "plan"]
"""`port`: the sending port's counter over one repeat; `switch`: the OpenFlow counter of the switch that
received, mean of all repeats; `plan`: what the plan puts there."""


@dataclass(frozen=True, slots=True)
class LinkBytes:
    """Bytes of whole frames that passed a link in one repeat, and where the figure is from."""

    nbytes: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class LinkUse:
    """One direction of a cable in one repeat.  `nbytes` are whole frames, retransmissions included.

    `n_flows` use it in all, up to `together` of them at once, by the plan: acknowledgements are not a flow.
    `worst_share` is `LinkLoad.worst_share`: 2.0 if in some phase it needs twice the busiest host link's time.
    `busy` is the time that its bytes need at its rate, as a share of the repeat's, so at most 1.
    """

    egress: Egress
    name: str
    rate_bps: int
    nbytes: float
    n_flows: int
    together: int
    worst_share: float
    busy: float
    origin: Origin


@dataclass(frozen=True)
class RunView:
    """One run; `repeat` is the one with the middle time, and `links` are of it, the busiest first.

    `counted` holds the switches' counters against the plan, `times` what some links carried over
    time, if there are any.
    """

    plan: Plan
    load: PlanLoad
    repeat_number: int
    repeat: Repeat
    links: tuple[LinkUse, ...]
    calibration: Calibration | None
    manifest: Mapping[str, Any]
    counted: RunAudit | None = None
    outages: tuple[Outage, ...] = ()
    times: RunTimes | None = None


def load_run(folder: Path, windows: int = MOST_WINDOWS) -> RunView:
    """The run in a folder, its links over time in at most this many `windows`.

    Only its plan and its repeats are needed; what else is there adds to the view.

    Raise OSError, BadRun or BadPlan, with the path, for a folder whose run cannot be used.
    """
    check_finished(folder)
    plan = plans.load(folder / "plan.json")
    with one_run(folder):
        for flow in plan.flows:
            check_path(plan.fabric, plan.placement[flow.src], plan.placement[flow.dst], flow.path)
        repeats = load_repeats(folder, plan)
        number = middle(repeats)
        load = plan_load(plan)
        counts = _counts(folder, plan, number, len(repeats))
        uses = link_uses(plan, load.loads, repeats[number].time_s, counts)
        return RunView(
            plan=plan,
            load=load,
            repeat_number=number,
            repeat=repeats[number],
            links=uses,
            calibration=_optional(folder / "verdict.json", _JUDGED, _Judged()).calibration,
            manifest=_optional(folder / "manifest.json", _MANIFEST, {}),
            counted=audit_run(folder, plan, repeats, number),
            outages=outages(folder, plan.fabric, number),
            times=run_times(
                folder, plan, number, repeats[number].time_s, links_over_time(plan, load, uses), windows
            ),
        )


def links_over_time(plan: Plan, load: PlanLoad, uses: Sequence[LinkUse]) -> list[Egress]:
    """The links to look at over time, the busiest first: the worst, those of cables that failed, the busiest
    between switches, and of the others the busiest.
    """
    failed = [end for each in plan.failures for end in (each.port, plan.fabric.peers[each.port])]
    inner = [use.egress for use in uses if not is_host_link(plan.fabric, use.egress)]
    wanted = (load.worst.egress, *failed, *inner[:MOST_INNER_TIMES], *(use.egress for use in uses))
    order = {use.egress: place for place, use in enumerate(uses)}
    return sorted(list(dict.fromkeys(wanted))[:MOST_TIMES], key=lambda egress: order.get(egress, len(order)))


def link_uses(
    plan: Plan, loads: Mapping[Egress, LinkLoad], time_s: float, counts: Mapping[Egress, LinkBytes]
) -> tuple[LinkUse, ...]:
    """The use of every link that carried anything in `time_s`, the busiest first."""
    uses, eta = [], payload_efficiency(plan.fabric.mtu_nbytes)
    for egress, rate_bps in plan.fabric.rates.items():
        load = loads.get(egress)
        count = counts.get(egress) or LinkBytes(load.as_tcp_nbytes / eta if load else 0, "plan")
        if count.nbytes > 0:
            uses.append(
                LinkUse(
                    egress=egress,
                    name=link_name(plan.fabric, egress),
                    rate_bps=rate_bps,
                    nbytes=count.nbytes,
                    n_flows=load.n_flows if load else 0,
                    together=load.together if load else 0,
                    worst_share=load.worst_share if load else 0.0,
                    busy=min(1.0, count.nbytes * 8 / rate_bps / time_s),
                    origin=count.origin,
                )
            )
    return tuple(sorted(uses, key=lambda use: (-use.busy, -use.together)))


def _counts(folder: Path, plan: Plan, repeat: int, n_repeats: int) -> dict[Egress, LinkBytes]:
    """What was counted on each link.  Hosts have no sampled port: their switch counts what they send."""
    by_interface = _sampled(folder / "links.parquet", repeat, plan.fabric.mtu_nbytes)
    received = _received(folder / "switches.json")  # over the whole run
    counts = {}
    for egress, peer in plan.fabric.peers.items():
        if (nbytes := by_interface.get(interface(egress.node, egress.port))) is not None:
            counts[egress] = LinkBytes(nbytes, "port")
        elif (total := received.get(peer)) is not None:
            counts[egress] = LinkBytes(total.nbytes / n_repeats, "switch")
    return counts


def _sampled(path: Path, repeat: int, mtu_nbytes: int) -> dict[str, int]:
    """Wire bytes that each port sent in one repeat; empty without the file."""
    if not path.exists():
        return {}
    columns = ["interface", "tx_bytes", "tx_packets"]
    table = read_table(path, columns, repeat)
    spans = table.group_by("interface").aggregate(
        [(name, edge) for name in columns[1:] for edge in ("min", "max")]
    )
    return {
        row["interface"]: wire_nbytes(
            row["tx_bytes_max"] - row["tx_bytes_min"],
            row["tx_packets_max"] - row["tx_packets_min"],
            mtu_nbytes,
        )
        for row in spans.to_pylist()
    }


def _received(path: Path) -> Mapping[Egress, switches.WireCount]:
    """What came in at each switch port that is counted."""
    return switches.load_counters(path).received if path.exists() else {}


@dataclass(frozen=True, slots=True)
class _Judged:
    """Of verdict.json, what is read again."""

    calibration: Calibration | None = None


_JUDGED = TypeAdapter(_Judged)
_MANIFEST: TypeAdapter[Mapping[str, Any]] = TypeAdapter(Mapping[str, Any])
Value = TypeVar("Value")


def _optional(path: Path, kind: TypeAdapter[Value], nothing: Value) -> Value:
    return read_json(path, kind) if path.exists() else nothing

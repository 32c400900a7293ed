"""What a run's folder says of its links: bytes, flows, and the share of the time that each was busy.

Counters come first, the plan's own figures stand in where nothing was counted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from controller import counters as switches
from controller.audit import phase_audits
from controller.loads import Audit, LinkLoad, audit
from controller.why import why
from controller.wire import wire_nbytes
from emu import plan as plans
from emu.calibration import Calibration
from emu.fabric import Egress, interface, link_name
from emu.plan import Plan
from emu.plancheck import check_path
from emu.records import Repeat, load_repeats
from emu.transport import PAYLOAD_EFFICIENCY
from tools.outages import Outage, outages
from tools.runaudit import RunAudit, audit_run, middle

Origin = Literal["port", "switch", "plan"]
"""`port`: the sending port's counter over one repeat; `switch`: the OpenFlow counter of the switch that
received, mean of all repeats; `plan`: what the plan puts there."""


@dataclass(frozen=True, slots=True)
class Count:
    nbytes: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class LinkUse:
    """One direction of a cable in one repeat.  `nbytes` are whole frames, retransmissions included.

    `n_flows` use it in all, up to `together` of them at once, by the plan: acknowledgements are no flow.
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

    `why` says why the plan takes longer than the hosts' links need, if it does; `counted` holds the
    switches' counters against the plan, if there are any.
    """

    plan: Plan
    audit: Audit
    repeat_number: int
    repeat: Repeat
    links: tuple[LinkUse, ...]
    calibration: Calibration | None
    manifest: Mapping[str, Any]
    why: str = ""
    counted: RunAudit | None = None
    outages: tuple[Outage, ...] = ()


def load_run(folder: Path) -> RunView:
    """Only the plan and the repeats are needed.

    Raise OSError, ValueError or BadPlan for what is no whole run.
    """
    plan = plans.load(folder / "plan.json")
    try:
        for flow in plan.flows:
            check_path(plan.fabric, plan.placement[flow.src], plan.placement[flow.dst], flow.path)
        repeats = load_repeats(folder)
        number = middle(repeats)
        audited = audit(plan)
        counts = _counts(folder, plan, number, len(repeats))
        judged = _json(folder / "verdict.json")
        return RunView(
            plan=plan,
            audit=audited,
            repeat_number=number,
            repeat=repeats[number],
            links=link_uses(plan, audited.loads, repeats[number].time_s, counts),
            calibration=TypeAdapter(Calibration | None).validate_python(judged.get("calibration")),
            manifest=_json(folder / "manifest.json"),
            why=why(plan, phase_audits(plan, audited)),
            counted=audit_run(folder, plan, repeats, number),
            outages=outages(folder, plan.fabric, number),
        )
    except (ValueError, TypeError, LookupError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{folder}: its files are no whole run: {reason}; run it again") from error


def link_uses(
    plan: Plan, loads: Mapping[Egress, LinkLoad], time_s: float, counts: Mapping[Egress, Count]
) -> tuple[LinkUse, ...]:
    """The use of every link that carried anything in `time_s`, the busiest first."""
    uses = []
    for egress, rate_bps in plan.fabric.rates.items():
        load = loads.get(egress)
        count = counts.get(egress) or Count(load.nbytes / PAYLOAD_EFFICIENCY if load else 0, "plan")
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


def _counts(folder: Path, plan: Plan, repeat: int, n_repeats: int) -> dict[Egress, Count]:
    """What was counted on each link.  Hosts have no sampled port: their switch counts what they send."""
    by_interface = _sampled(folder / "links.parquet", repeat)
    received = _received(folder / "switches.json")  # over the whole run
    counts = {}
    for egress, peer in plan.fabric.peers.items():
        if (nbytes := by_interface.get(interface(egress.node, egress.port))) is not None:
            counts[egress] = Count(nbytes, "port")
        elif (total := received.get(peer)) is not None:
            counts[egress] = Count(total.nbytes / n_repeats, "switch")
    return counts


def _sampled(path: Path, repeat: int) -> dict[str, int]:
    """Wire bytes that each port sent in one repeat; empty without the file."""
    if not path.exists():
        return {}
    columns = ["interface", "tx_bytes", "tx_packets"]
    table = pq.read_table(path, columns=columns, filters=pc.field("repeat") == repeat)
    spans = table.group_by("interface").aggregate(
        [(name, edge) for name in columns[1:] for edge in ("min", "max")]
    )
    return {
        row["interface"]: wire_nbytes(
            row["tx_bytes_max"] - row["tx_bytes_min"], row["tx_packets_max"] - row["tx_packets_min"]
        )
        for row in spans.to_pylist()
    }


def _received(path: Path) -> Mapping[Egress, switches.Count]:
    """What came in at each switch port that is counted."""
    return switches.load_counters(path).received if path.exists() else {}


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no such file."""
    if not path.exists():
        return {}
    value = json.loads(path.read_bytes())
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no object")
    return value

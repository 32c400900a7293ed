"""A complete audit as JSON: docs/schemas.md, "audit --json"."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gradwire.controller.counters import WireCount
from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.explanation import why_phase
from gradwire.planning.model.loads import Carried, PhaseLoad, is_host_link, slowest
from gradwire.planning.model.phases import ADDED_UP, PhaseKey
from gradwire.planning.openflow.rules import Guard, TableSize
from gradwire.planning.plan import Plan
from gradwire.results.audit.agreement import FlowCount, LinkCount
from gradwire.results.audit.runaudit import RunAudit
from gradwire.results.audit.treecounts import SumCount
from gradwire.results.audit.windows import Window
from gradwire.results.plannedcells import planned_flows
from gradwire.tools.plans.linkusers import tree_json


def audit_json(
    source: str,
    plan: Plan,
    phases: Sequence[PhaseLoad],
    tables: Sequence[TableSize],
    guard: Guard,
    run: RunAudit | None,
) -> dict[str, Any]:
    return {
        "source": source,
        "fabric": plan.fabric.spec,
        "algorithm": plan.algorithm,
        "placement": plan.placement_name,
        "routes": plan.routes,
        "seed": plan.seed,
        "ranks": plan.n_ranks,
        "phases": [_phase(plan, number, one) for number, one in enumerate(phases)],
        "worst_phase": slowest(phases),
        "switches": [{"switch": t.switch, "rules": t.n_rules, "groups": t.n_groups} for t in tables],
        "backups": guard.says,
        "flows": [asdict(flow) for flow in planned_flows(plan)],
        "trees": [tree_json(plan, tree) for tree in plan.trees],
        "run": _run(plan, phases, run) if run else None,
    }


def phase_name(plan: Plan, key: PhaseKey) -> str:
    """`allreduce 0, step 3`: the operation's number and the step, or `added up`; or `messages, depth 2`."""
    op, step = key
    if op < 0:
        return f"messages, depth {step}"
    return f"{plan.schedule.ops[op].kind} {op}, {'added up' if step == ADDED_UP else f'step {step}'}"


def _phase(plan: Plan, number: int, one: PhaseLoad) -> dict[str, Any]:
    return {
        "number": number,
        "name": phase_name(plan, one.keys[0]),
        "keys": [list(key) for key in one.keys],
        "times": len(one.keys),
        "flows": one.n_flows,
        "payload_nbytes": one.nbytes,
        "least_s": one.phase.least_s,
        "host_s": one.phase.host_s,
        "bound_s": one.phase.bound_s,
        "worst_link": link_name(plan.fabric, one.worst.egress),
        "worst_share": one.worst.share,
        "why": why_phase(plan, one) if one.collisions else None,
        "collisions": [link_name(plan.fabric, link.egress) for link in one.collisions],
        "links": [_link(plan, link) for link in one.links],
    }


def _link(plan: Plan, link: Carried) -> dict[str, Any]:
    return {
        "link": link_name(plan.fabric, link.egress),
        "node": link.egress.node,
        "port": link.egress.port,
        "host": is_host_link(plan.fabric, link.egress),
        "rate_bps": plan.fabric.rates[link.egress],
        "payload_nbytes": link.nbytes,
        "busy_s": link.busy_s,
        "share": link.share,
        "flows": list(link.flows),
        "trees": list(link.trees),
    }


def _run(plan: Plan, phases: Sequence[PhaseLoad], run: RunAudit) -> dict[str, Any]:
    agreement = run.agreement
    number = {key: i for i, one in enumerate(phases) for key in one.keys}
    return {
        "agrees": run.agrees,
        "sentence": run.sentence,
        "moved": agreement.moved,
        "repeats": run.repeats,
        "findings": [{"kind": one.kind, "where": one.where, "what": one.what} for one in run.findings],
        "links": [_counted_link(plan, link) for link in agreement.links],
        "flows": [_counted_flow(plan, flow) for flow in agreement.flows],
        "sums": [_sum(plan, one) for one in agreement.sums],
        "repeat": run.repeat,
        "resolution_s": run.resolution_s,
        "windows": [_window(plan, number[window.key], window) for window in run.windows],
    }


def _counted_link(plan: Plan, link: LinkCount) -> dict[str, Any]:
    return {
        "link": link_name(plan.fabric, link.egress),
        "node": link.egress.node,
        "port": link.egress.port,
        "held": link.held,
        "payload_nbytes": link.payload_nbytes,
        "expected_nbytes": link.expected_nbytes,
        "spare_nbytes": link.spare_nbytes,
        "off_nbytes": link.off_nbytes,
        "sent": _count(link.sent),
        "received": _count(link.received),
    }


def _counted_flow(plan: Plan, one: FlowCount) -> dict[str, Any]:
    flow = plan.flows[one.flow]
    return {
        "flow": one.flow,
        "src": flow.src,
        "dst": flow.dst,
        "payload_nbytes": one.payload_nbytes,
        "expected_nbytes": one.expected_nbytes,
        "spare_nbytes": one.spare_nbytes,
        "counted": {switch: _count(count) for switch, count in one.counted.items()},
    }


def _sum(plan: Plan, one: SumCount) -> dict[str, Any]:
    return {
        "tree": one.tree_index,
        "link": link_name(plan.fabric, one.egress),
        "expected": _count(one.expected),
        "again": one.again,
        "counted": _count(one.counted),
    }


def _count(count: WireCount | None) -> dict[str, int] | None:
    return None if count is None else {"packets": count.packets, "bytes": count.nbytes}


def _window(plan: Plan, phase: int, window: Window) -> dict[str, Any]:
    return {
        "phase": phase,
        "key": list(window.key),
        "link": link_name(plan.fabric, window.egress),
        "payload_nbytes": window.planned_nbytes,
        "counted_nbytes": window.counted_nbytes,
        "least_nbytes": window.least_nbytes,
        "most_nbytes": window.most_nbytes,
        "agrees": window.agrees,
    }

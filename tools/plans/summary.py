"""A plan in figures: what it sends, over which links, and how long that takes at least."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.addedup import tree_links
from gradwire.planning.model.expected import ASSUMED, MOST_ASSUMED_SENDS, foreseen
from gradwire.planning.model.loads import LinkLoad, PlanLoad, by_severity
from gradwire.planning.model.predict import bound_s, compute_s
from gradwire.planning.openflow.rules import guard_of
from gradwire.planning.plan import Plan
from gradwire.results.planfigures import PlanFigures
from gradwire.results.plannedcells import NOT_ASKED, EngineTimes, planned_flows, planned_link
from gradwire.results.row import JobTime
from gradwire.results.rowchoices import planned_choices, show_choices
from gradwire.results.schedulesizes import asked_nbytes
from gradwire.tools.linkrates import show_rates
from gradwire.tools.plans.linkusers import print_users, tree_json
from gradwire.tools.report.rownotes import show_range
from gradwire.tools.table import NOTHING, Cell, Table, columns, rich_table, table_of
from gradwire.traces.units import show_bps, show_count, show_nbytes, show_s

LINKS_SHOWN = 5


def summary(
    plan: Plan, found: PlanLoad, figures: PlanFigures, engines: EngineTimes = NOT_ASKED
) -> dict[str, Any]:
    """As docs/schemas.md, "plan --json", says; `found` is the plan's load."""
    least_s, fluid_s = plan.prediction.bound_s, plan.prediction.fluid_s
    return {
        "fabric": plan.fabric.spec,
        "algorithm": plan.algorithm,
        "placement": plan.placement_name,
        "routes": plan.routes,
        "source": plan.source,
        "ranks": plan.n_ranks,
        "hosts": list(plan.placement),
        **planned_choices(plan),
        "bytes": asked_nbytes(plan.schedule),
        "operations": n_operations(plan),
        "sends": len(plan.schedule.sends),
        "payload_nbytes": plan.schedule.payload_nbytes,
        "sums": len(plan.schedule.aggregations),
        "added_nbytes": added_nbytes(plan),
        "bound_s": least_s,
        "compute_s": compute_s(plan.schedule),
        "fluid_s": fluid_s,
        "iteration_s": plan.prediction.iteration_s,
        "exposed_s": plan.prediction.exposed_s,
        "foreseen": asdict(known) if (known := foreseen(plan)) is not None else None,
        "assumed_hosts": asdict(ASSUMED),
        "ratio": fluid_s / least_s if least_s else None,
        **figures,
        "limit": asdict(figures["limit"]),
        "jobs": [
            asdict(JobTime(*each)) for each in zip(plan.schedule.jobs, plan.prediction.jobs_s, strict=False)
        ],
        **asdict(engines),
        "busiest_s": found.bounded_s,
        "barrier_s": found.barrier_s,
        "phases": len(found.phases),
        "collisions": found.n_collisions,
        "backups": guard_of(plan).says,
        "links": [_link(plan, load) for load in found.loads.values()],
        "flows": [asdict(flow) for flow in planned_flows(plan)],
        "trees": [tree_json(plan, tree) for tree in plan.trees],
        "host_side": list(plan.host_side),
        "doubts": list(plan.doubts),
        "assumptions": list(plan.assumptions),
        "machines": [],
    }


def n_operations(plan: Plan) -> int:
    """How many operations communicate."""
    return sum(op.kind != "compute" for op in plan.schedule.ops)


def added_nbytes(plan: Plan) -> int:
    """The sizes of all sums that switches make."""
    schedule = plan.schedule
    return sum(schedule.ops[each.op].nbytes for each in schedule.aggregations)


def _link(plan: Plan, load: LinkLoad) -> dict[str, Any]:
    return {
        **asdict(planned_link(plan.fabric, load)),
        "node": load.egress.node,
        "port": load.egress.port,
        "worst_share": load.worst_share,
    }


def print_summary(
    console: Console, plan: Plan, found: PlanLoad, figures: PlanFigures, engines: EngineTimes = NOT_ASKED
) -> None:
    """For a person, at most 100 columns."""
    print_heading(console, plan)
    console.print(rich_table(_figures(plan, found, figures, engines)))
    if warning := guard_of(plan).warning:
        console.print(warning, style="yellow")
    console.print(_assumed(), style="dim")
    console.print("every phase and every link of a plan file: gradwire audit PLAN", style="dim")
    console.print()
    console.print(rich_table(_worst_links(plan, found)))
    console.print()
    worst = found.worst.egress
    flows = [flow for flow in plan.flows if worst in flow.path]
    trees = [tree for tree in plan.trees if worst in tree_links(plan.fabric, tree)]
    print_users(console, plan, worst, flows, trees)


def print_heading(console: Console, plan: Plan) -> None:
    """What the plan is of, in two lines."""
    rates = show_rates(plan.fabric.host_rates_bps, plan.fabric.inner_rates_bps)
    console.print(f"{plan.fabric.spec} at {rates}, {plan.n_ranks} ranks", style="bold")
    choices = f"{plan.algorithm}, placement {plan.placement_name}, routes {plan.routes}, seed {plan.seed}"
    console.print(", ".join([choices, *show_choices(planned_choices(plan))]), style="bold")


def _figures(plan: Plan, found: PlanLoad, figures: PlanFigures, engines: EngineTimes) -> Table:
    prediction = plan.prediction
    ratio = f"{prediction.fluid_s / prediction.bound_s:.3f} × the bound" if prediction.bound_s else ""
    worst = found.worst
    rows = (
        *_sends(plan),
        *_sums(plan),
        ("bound", show_s(prediction.bound_s), _bounding(plan)),
        ("predicted", show_s(prediction.fluid_s), f"{ratio}, sharing links fairly"),
        *_by_engines(plan, engines),
        _closed(figures),
        *_iterations(plan),
        *_foreseen(plan),
        (
            "collisions",
            f"{found.n_collisions:,}",
            f"phases that wait for inner links, of {len(found.phases):,}",
        ),
        ("worst link", figures["worst_link"], _worst_words(worst)),
    )
    return table_of(columns("", "#", ""), rows, lambda row: (Cell(row[0], style="dim"), *row[1:]))


def _by_engines(plan: Plan, engines: EngineTimes) -> Iterator[tuple[str, str, str]]:
    """The times by other engines, and how far these are from ours."""

    def apart(time_s: float) -> str:
        fluid_s = plan.prediction.fluid_s
        return f"{100 * (time_s / fluid_s - 1):+.2f} % from that, " if fluid_s else ""

    if (time_s := engines.simgrid_s) is not None:
        yield "SimGrid", show_s(time_s), f"{apart(time_s)}links shared by another engine"
    if (time_s := engines.packets_s) is not None:
        drops = f", {engines.packets_dropped:,} dropped" if engines.packets_dropped else ""
        yield "ns-3", show_s(time_s), f"{apart(time_s)}TCP packet by packet{drops}"


def _closed(figures: PlanFigures) -> tuple[str, str, str]:
    """The time by the algorithm's own formula, or why there is none."""
    if figures["closed_s"] is None:
        return "closed form", NOTHING, figures["no_closed_form"] or ""
    alpha = show_s(figures["alpha_s"]) if figures["alpha_s"] else "0"
    return "closed form", show_s(figures["closed_s"]), f"{figures['closed_form']}, α = {alpha}"


def _iterations(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """How long one is, if there are such."""
    iteration_s, exposed_s = plan.prediction.iteration_s, plan.prediction.exposed_s
    if iteration_s is not None and exposed_s is not None:
        meaning = f"from start to start; no computing hides {show_s(exposed_s)} of it"
        yield "iteration", show_s(iteration_s), meaning


def _foreseen(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """With what hosts cost, and how far off that may be."""
    known = foreseen(plan)
    if known is None:
        reason = f"no error bar: more than {MOST_ASSUMED_SENDS:,} sends; a replay has one"
        yield "with hosts", NOTHING, reason
        return
    if known.low_s is None:
        reason = "no error bar: switches add up, cables fail or routes adapt"
        yield "with hosts", show_s(known.predicted_s), reason
    else:
        yield "with hosts", show_s(known.predicted_s), f"{show_range(known)}, hosts as assumed"
    for name, bar in (("iteration", known.iteration), ("exposed of it", known.exposed)):
        if bar is not None:
            yield name, show_s(bar.predicted_s), show_range(bar)
    if known.note or known.doubt:
        yield "not known", "", known.note or known.doubt


def _assumed() -> str:
    message_s, start_s = ASSUMED.message_s, ASSUMED.start_s
    return (
        f"hosts as assumed: 0 to {show_s(message_s.high)} a message, 0 to {show_s(start_s.high)} to start; "
        "a replay measures its machine"
    )


def _bounding(plan: Plan) -> str:
    """What the bound is, host links or computing, and the other figure."""
    links_s = bound_s(plan.fabric, plan.placement, plan.schedule, plan.trees)
    gaps_s = compute_s(plan.schedule)
    if gaps_s > links_s:
        return f"the longest chain of computing; the host links need {show_s(links_s)}"
    least = "the least any fabric could take with these host links"
    return f"{least}; computing {show_s(gaps_s)}" if gaps_s else least


def _sends(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What hosts send to each other, if they do."""
    schedule = plan.schedule
    if schedule.sends or not plan.trees:
        sends = show_count(len(schedule.sends), "send")
        number = f"in {sends} of {show_count(n_operations(plan), 'operation')}"
        yield "payload", show_nbytes(schedule.payload_nbytes), number
        connections = show_count(len(plan.flows) // 2, "connection")
        yield "flows", f"{len(plan.flows):,}", f"both directions of {connections}"


def _sums(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What switches add up, and which job they do not."""
    schedule = plan.schedule
    if plan.trees:
        trees, sums = show_count(len(plan.trees), "tree"), show_count(len(schedule.aggregations), "sum")
        yield "added up", show_nbytes(added_nbytes(plan)), f"in {sums} by switches, over {trees}"
    for reason in plan.host_side:
        yield "host-side", "", reason
    for assumption in plan.assumptions:
        yield "assumed", "", assumption
    for doubt in plan.doubts:
        yield "not valid", "", doubt


def _worst_words(worst: LinkLoad) -> str:
    flows = f"{worst.together:,} flows at once" if worst.together > 1 else "1 flow at a time"
    return f"{flows}, adds {show_s(worst.excess_s)}" if worst.excess_s > 1e-9 else f"{flows}, adds nothing"


def _worst_links(plan: Plan, found: PlanLoad) -> Table:
    def row(load: LinkLoad) -> tuple[str, ...]:
        return (
            link_name(plan.fabric, load.egress),
            show_bps(load.rate_bps),
            show_nbytes(load.nbytes),
            show_s(load.busy_s),
            str(load.n_flows),
            str(load.together),
            show_s(load.excess_s) if load.excess_s > 1e-9 else NOTHING,
        )

    heads = columns("worst links", "#rate", "#payload", "#busy", "#flows", "#at once", "#adds")
    return table_of(heads, by_severity(found.loads), row, LINKS_SHOWN)

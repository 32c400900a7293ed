"""An audit for a person: tables of at most 100 columns, the worst of everything first."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.explanation import why_phase
from gradwire.planning.model.loads import Carried, PhaseLoad, slowest
from gradwire.planning.openflow.rules import TableSize
from gradwire.planning.plan import Plan
from gradwire.results.audit.agreement import LinkCount, strayed
from gradwire.results.audit.runaudit import RunAudit
from gradwire.tools.audit_json import phase_name
from gradwire.tools.plans.linkusers import print_users
from gradwire.tools.table import NOTHING, Cell, Table, columns, print_left_out, rich_table, table_of
from gradwire.traces.units import show_bps, show_count, show_first, show_nbytes, show_s

PHASES_SHOWN = 12
LINKS_SHOWN = 10
FINDINGS_SHOWN = 12
COLLISIONS_SHOWN = 6
MOVES_SHOWN = 12


def print_phases(to: Console, plan: Plan, phases: Sequence[PhaseLoad], chosen: Sequence[int]) -> None:
    """Every different phase in a line, those that add most if there are many, and `chosen` ones in full."""
    order = sorted(range(len(phases)), key=lambda i: (-phases[i].excess_s, -phases[i].phase.least_s, i))
    shown = sorted(order[:PHASES_SHOWN])
    to.print(rich_table(_phase_table(plan, phases, shown), dense=True))
    print_left_out(to, len(phases) - len(shown), ", which add less; --json lists all")
    for number in chosen:
        to.print()
        _print_phase(to, plan, number, phases[number])


def print_tables(to: Console, tables: Sequence[TableSize]) -> None:
    """How many rules and groups the switches get."""
    most, least = max(tables, key=lambda t: t.n_rules), min(tables, key=lambda t: t.n_rules)
    groups = max(tables, key=lambda t: t.n_groups)
    rules = f"{least.n_rules} ({least.switch}) to {most.n_rules} ({most.switch})"
    shared = f"at most {groups.n_groups} ({groups.switch})" if groups.n_groups else "none"
    to.print(f"rules per switch: {rules if most != least else most.n_rules}; groups: {shared}")


def print_run(to: Console, run: RunAudit) -> None:
    """The counters of a run held against its plan."""
    agrees = "agrees" if run.agrees else "does not agree"
    to.print(Text(f"Counted in {show_count(run.repeats, 'repeat')}: {agrees}", style="bold"))
    to.print(run.sentence)
    to.print(rich_table(_count_table(run)))
    idle = sum(not link.payload_nbytes for link in run.agreement.links)
    print_left_out(to, len(run.agreement.links) - idle - LINKS_SHOWN)
    _print_windows(to, run)
    _print_moves(to, run)
    for finding in run.findings[:FINDINGS_SHOWN]:
        to.print(Text(f"{finding.kind}: {finding}", style="red"), soft_wrap=True)
    print_left_out(to, len(run.findings) - FINDINGS_SHOWN)


def _phase_table(plan: Plan, phases: Sequence[PhaseLoad], shown: Sequence[int]) -> Table:
    figures = columns("#flows", "#payload", "#takes", "#bound", "#× host's", "#collisions")
    what, where = columns("phase, times", "worst link × flows")
    worst = slowest(phases)

    def row(number: int) -> Iterator[Cell]:
        one = phases[number]
        times = f" ×{len(one.keys)}" if len(one.keys) > 1 else ""
        texts = (
            str(number),
            phase_name(plan, one.keys[0]) + times,
            str(one.n_flows),
            show_nbytes(one.nbytes),
            show_s(one.phase.least_s),
            show_s(one.phase.bound_s),
            f"{one.worst.share:.2f}",
            str(len(one.collisions) or NOTHING),
            f"{link_name(plan.fabric, one.worst.egress)} ×{one.worst.n_flows}",
        )
        style = "bold" if number == worst and one.collisions else ""
        return (Cell(text, style=style) for text in texts)

    return table_of((*columns("##"), what, *figures, where), shown, row)


def _print_phase(to: Console, plan: Plan, number: int, one: PhaseLoad) -> None:
    to.print(Text(f"Phase {number}: {phase_name(plan, one.keys[0])}", style="bold"))
    if one.collisions:
        to.print(f"{why_phase(plan, one)}.")
        names = [link_name(plan.fabric, link.egress) for link in one.collisions]
        to.print(f"collisions: {show_first(names, COLLISIONS_SHOWN)}")
    else:
        to.print("No link between switches is busier than the hosts' own links.")
    links = _link_table(plan, one)
    to.print(rich_table(links))
    print_left_out(to, links.left_out)
    worst = one.worst
    flows, trees = [plan.flows[i] for i in worst.flows], [plan.trees[i] for i in worst.trees]
    print_users(to, plan, worst.egress, flows, trees)


def _link_table(plan: Plan, one: PhaseLoad) -> Table:
    def row(link: Carried) -> tuple[str, ...]:
        return (
            link_name(plan.fabric, link.egress),
            show_bps(plan.fabric.rates[link.egress]),
            show_nbytes(link.nbytes),
            show_s(link.busy_s),
            f"{link.share:.2f}",
            str(link.n_flows),
        )

    heads = columns("busiest links", "#rate", "#payload", "#busy", "#× host's", "#flows")
    return table_of(heads, one.links, row, LINKS_SHOWN)


def _count_table(run: RunAudit) -> Table:
    """The links that are farthest from the plan, then those that carry most."""
    heads = columns("link", "#payload", "#expected", "#counted", "#off", "#explained", "#on the wire")
    used = [link for link in run.agreement.links if link.payload_nbytes or link.off_nbytes]
    used.sort(key=lambda link: (-link.held * abs(link.off_nbytes), -link.payload_nbytes))
    return table_of(heads, used, partial(_count_row, run.plan), LINKS_SHOWN)


def _count_row(plan: Plan, link: LinkCount) -> tuple[str, ...]:
    counted = link.counted
    return (
        link_name(plan.fabric, link.egress),
        show_nbytes(link.payload_nbytes),
        f"{link.expected_nbytes:,}",
        f"{counted.stream_nbytes:,}" if counted else "not counted",
        (f"{link.off_nbytes:+,}" if link.off_nbytes else "0") if link.held else "not held",
        f"to +{link.spare_nbytes:,}",
        show_nbytes(counted.nbytes) if counted else NOTHING,
    )


def _print_moves(to: Console, run: RunAudit) -> None:
    """Where flows were that a failure or a moving policy took off their paths; any other is a finding."""
    if not run.agreement.moved:
        return
    moves = [
        f"r{run.plan.flows[flow].src}→r{run.plan.flows[flow].dst} at {switch}"
        for flow, switch in strayed(run.plan, run.agreement)
    ]
    if moves:
        to.print(f"counted off their paths: {show_first(moves, MOVES_SHOWN)}")


def _print_windows(to: Console, run: RunAudit) -> None:
    if run.resolution_s is None or not run.windows:
        to.print("phases: cannot be separated, as ports were not read, or flows could move", style="dim")
        return
    sharp, agreeing = sum(w.sharp for w in run.windows), sum(w.agrees for w in run.windows)
    to.print(
        f"phases, in repeat {run.repeat + 1}: ports were read every {show_s(run.resolution_s)}; of "
        f"{len(run.windows)} link-phases {agreeing} lie between what had to pass and what could, "
        f"{sharp} of them known to a tenth"
    )

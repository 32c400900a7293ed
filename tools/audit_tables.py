"""An audit for a person: tables of at most 100 columns, the worst of everything first."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.audit import PhaseAudit, slowest
from gradwire.planning.model.explanation import why_phase
from gradwire.planning.openflow.rules import TableSize
from gradwire.planning.plan import Plan
from gradwire.results.audit.agreement import LinkCount, strayed
from gradwire.results.audit.runaudit import RunAudit
from gradwire.tools.audit_json import phase_name
from gradwire.tools.linkusers import print_users
from gradwire.traces.units import show_bps, show_count, show_nbytes, show_s

PHASES_SHOWN = 12
LINKS_SHOWN = 10
FINDINGS_SHOWN = 12
COLLISIONS_SHOWN = 6
MOVES_SHOWN = 12


def print_phases(to: Console, plan: Plan, phases: Sequence[PhaseAudit], chosen: Sequence[int]) -> None:
    """Every different phase in a line, those that add most if there are many, and `chosen` ones in full."""
    order = sorted(range(len(phases)), key=lambda i: (-phases[i].excess_s, -phases[i].phase.least_s, i))
    shown = sorted(order[:PHASES_SHOWN])
    to.print(_phase_table(plan, phases, shown))
    if len(phases) > len(shown):
        to.print(f"… and {len(phases) - len(shown)} more, which add less; --json lists all", style="dim")
    for number in chosen:
        to.print()
        _print_phase(to, plan, number, phases[number])


def print_tables(to: Console, tables: Sequence[TableSize]) -> None:
    """How much the switches are told."""
    most, least = max(tables, key=lambda t: t.n_rules), min(tables, key=lambda t: t.n_rules)
    groups = max(tables, key=lambda t: t.n_groups)
    rules = f"{least.n_rules} ({least.switch}) to {most.n_rules} ({most.switch})"
    shared = f"at most {groups.n_groups} ({groups.switch})" if groups.n_groups else "none"
    to.print(f"rules per switch: {rules if most != least else most.n_rules}; groups: {shared}")


def print_run(to: Console, run: RunAudit) -> None:
    """The counters of a run held against its plan."""
    times = show_count(run.repeats, "repeat")
    to.print(Text(f"Counted in {times}: {'agrees' if run.agrees else 'does not agree'}", style="bold"))
    to.print(run.sentence)
    to.print(_count_table(run))
    idle = sum(not link.payload_nbytes for link in run.agreement.links)
    rest = len(run.agreement.links) - idle - LINKS_SHOWN
    if rest > 0:
        to.print(f"… and {rest} more; --json lists all", style="dim")
    _print_windows(to, run)
    _print_moves(to, run)
    for finding in run.findings[:FINDINGS_SHOWN]:
        to.print(Text(f"{finding.kind}: {finding}", style="red"), soft_wrap=True)
    if len(run.findings) > FINDINGS_SHOWN:
        to.print(f"… and {len(run.findings) - FINDINGS_SHOWN} more; --json lists all", style="dim")


def _phase_table(plan: Plan, phases: Sequence[PhaseAudit], shown: Sequence[int]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("phase, times", overflow="fold")
    for name in ("flows", "payload", "takes", "bound", "× host's", "collisions"):
        table.add_column(name, justify="right")
    table.add_column("worst link × flows", overflow="fold")
    worst = slowest(phases)
    for number in shown:
        one = phases[number]
        times = f" ×{len(one.keys)}" if len(one.keys) > 1 else ""
        table.add_row(
            str(number),
            phase_name(plan, one.keys[0]) + times,
            str(one.n_flows),
            show_nbytes(one.nbytes),
            show_s(one.phase.least_s),
            show_s(one.phase.bound_s),
            f"{one.worst.share:.2f}",
            str(len(one.collisions)) if one.collisions else "–",
            f"{link_name(plan.fabric, one.worst.egress)} ×{one.worst.n_flows}",
            style="bold" if number == worst and one.collisions else None,
        )
    return table


def _print_phase(to: Console, plan: Plan, number: int, one: PhaseAudit) -> None:
    to.print(Text(f"Phase {number}: {phase_name(plan, one.keys[0])}", style="bold"))
    if one.collisions:
        to.print(f"{why_phase(plan, one)}.")
        names = [link_name(plan.fabric, link.egress) for link in one.collisions]
        more = f" … and {len(names) - COLLISIONS_SHOWN} more" if len(names) > COLLISIONS_SHOWN else ""
        to.print(f"collisions: {', '.join(names[:COLLISIONS_SHOWN])}{more}")
    else:
        to.print("No link between switches is busier than the hosts' own links.")
    to.print(_link_table(plan, one))
    if len(one.links) > LINKS_SHOWN:
        to.print(f"… and {len(one.links) - LINKS_SHOWN} more; --json lists all", style="dim")
    worst = one.worst
    flows, trees = [plan.flows[i] for i in worst.flows], [plan.trees[i] for i in worst.trees]
    print_users(to, plan, worst.egress, flows, trees)


def _link_table(plan: Plan, one: PhaseAudit) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("busiest links")
    for name in ("rate", "payload", "busy", "× host's", "flows"):
        table.add_column(name, justify="right")
    for link in one.links[:LINKS_SHOWN]:
        table.add_row(
            link_name(plan.fabric, link.egress),
            show_bps(plan.fabric.rates[link.egress]),
            show_nbytes(link.nbytes),
            show_s(link.busy_s),
            f"{link.share:.2f}",
            str(link.n_flows),
        )
    return table


def _count_table(run: RunAudit) -> Table:
    """The links that are farthest from the plan, then those that carry most."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("link")
    for name in ("payload", "expected", "counted", "off", "explained", "on the wire"):
        table.add_column(name, justify="right")
    used = [link for link in run.agreement.links if link.payload_nbytes or link.off_nbytes]
    used.sort(key=lambda link: (-link.held * abs(link.off_nbytes), -link.payload_nbytes))
    for link in used[:LINKS_SHOWN]:
        table.add_row(link_name(run.plan.fabric, link.egress), *_count_row(link))
    return table


def _count_row(link: LinkCount) -> tuple[str, ...]:
    counted = link.counted
    return (
        show_nbytes(link.payload_nbytes),
        f"{link.expected_nbytes:,}",
        f"{counted.stream_nbytes:,}" if counted else "not counted",
        (f"{link.off_nbytes:+,}" if link.off_nbytes else "0") if link.held else "not held",
        f"to +{link.spare_nbytes:,}",
        show_nbytes(counted.nbytes) if counted else "–",
    )


def _print_moves(to: Console, run: RunAudit) -> None:
    """Where flows were that a failure or a moving policy took off their paths; otherwise it is a finding."""
    if not run.agreement.moved:
        return
    moves = [
        f"r{run.plan.flows[flow].src}→r{run.plan.flows[flow].dst} at {switch}"
        for flow, switch in strayed(run.plan, run.agreement)
    ]
    if moves:
        more = f" … and {len(moves) - MOVES_SHOWN} more" if len(moves) > MOVES_SHOWN else ""
        to.print(f"counted off their paths: {', '.join(moves[:MOVES_SHOWN])}{more}")


def _print_windows(to: Console, run: RunAudit) -> None:
    if run.resolution_s is None or not run.windows:
        to.print("phases: not told apart, as ports were not read, or flows could move", style="dim")
        return
    sharp, agreeing = sum(w.sharp for w in run.windows), sum(w.agrees for w in run.windows)
    to.print(
        f"phases, in repeat {run.repeat + 1}: ports were read every {show_s(run.resolution_s)}; of "
        f"{len(run.windows)} link-phases {agreeing} lie between what had to pass and what could, "
        f"{sharp} of them told to a tenth"
    )

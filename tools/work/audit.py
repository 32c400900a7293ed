"""Shows plans and runs link by link, for `gradwire audit`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from gradwire.emu.records import load_repeats
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.model.loads import PhaseLoad, plan_load, slowest, worst_shares
from gradwire.planning.openflow.rules import Guard, TableSize, guarded_rules, table_sizes
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import INCOMPLETE, check_finished, one_run
from gradwire.results.audit.runaudit import RunAudit, audit_run, middle
from gradwire.tools.audit_json import audit_json, phase_name
from gradwire.tools.audit_tables import print_phases, print_run, print_tables
from gradwire.tools.console import console
from gradwire.tools.drawing.svg import fabric_svg
from gradwire.tools.outputs import check_file
from gradwire.tools.plans.summary import print_heading
from gradwire.tools.stdin import with_stdin
from gradwire.traces.files import write_whole

DISAGREES = 3
EXCESS_S = 1e-9  # less is rounding
ALL = "all"


@dataclass(frozen=True)
class Audited:
    """One plan or run; `run` is None for a plan that was not carried out.

    `worst` is the link that adds most to what the hosts' links take, None if none does.
    """

    source: Path
    plan: Plan
    phases: tuple[PhaseLoad, ...]
    tables: tuple[TableSize, ...]
    guard: Guard
    worst: Egress | None
    run: RunAudit | None


def audit_all(what: Sequence[Path], phase: str | None, svg: Path | None, *, as_json: bool) -> None:
    """Print them, draw what was asked for, and leave with exit code 3 if a run disagrees with its plan."""
    check_file("--svg", svg)
    sources = [path for given in with_stdin(what) for path in _sources(given)]
    if svg is not None and len(sources) != 1:
        raise ValueError(f"--svg draws one plan, got {len(sources)}: run it once for each")
    audits = [_audited(path) for path in sources]
    chosen = [_chosen(phase, one) for one in audits]
    if svg is not None:
        write_whole(svg, _drawing(audits[0], chosen[0], phase))
    if as_json:
        values = [
            audit_json(str(one.source), one.plan, one.phases, one.tables, one.guard, one.run)
            for one in audits
        ]
        print(json.dumps(values, indent=1))
    else:
        to = console()
        for one, numbers in zip(audits, chosen, strict=True):
            _print(to, one, numbers)
        if svg is not None:
            to.print(f"drawn in {svg}", soft_wrap=True)
    if any(one.run and not one.run.agrees for one in audits):
        raise typer.Exit(DISAGREES)


def _sources(path: Path) -> list[Path]:
    """A plan file, a run's folder, or the folders of runs in a folder."""
    if not path.is_dir() or (path / "plan.json").exists():
        return [path]
    folders = sorted(plan.parent for plan in path.glob("*/plan.json"))
    finished = [folder for folder in folders if not folder.name.endswith(INCOMPLETE)]
    if not finished:
        for folder in folders:
            check_finished(folder)
        raise ValueError(f"{path}: neither a run nor a folder of runs: there is no plan.json in it")
    return finished


def _audited(path: Path) -> Audited:
    check_finished(path)
    plan = plans.load(path / "plan.json" if path.is_dir() else path)
    run = None
    if path.is_dir():
        with one_run(path):
            repeats = load_repeats(path, plan)
            run = audit_run(path, plan, repeats, middle(repeats))
    loads, rules = plan_load(plan), guarded_rules(plan)
    worst = loads.worst.egress if loads.worst.excess_s > EXCESS_S else None
    return Audited(path, plan, loads.parts, table_sizes(rules.rules), rules.guard, worst, run)


def _chosen(phase: str | None, one: Audited) -> Sequence[int]:
    """The phases to show in full."""
    if phase is None:
        return [slowest(one.phases)]
    if phase == ALL:
        return range(len(one.phases))
    if not phase.isascii() or not phase.isdigit() or int(phase) >= len(one.phases):
        raise ValueError(
            f"--phase {phase!r}: {one.source} has phases 0 to {len(one.phases) - 1}; give one, or {ALL}"
        )
    return [int(phase)]


def _print(to: Console, one: Audited, chosen: Sequence[int]) -> None:
    print_heading(to, one.plan)
    if one.run is not None:
        to.print()
        print_run(to, one.run)
    elif one.source.is_dir():
        to.print(f"{one.source} holds no switches.json: nothing was counted, only the plan can be audited")
    to.print()
    print_phases(to, one.plan, one.phases, chosen)
    to.print()
    print_tables(to, one.tables)
    to.print(one.guard.says, style="yellow" if one.guard.warning else "")
    to.print()


def _drawing(one: Audited, chosen: Sequence[int], phase: str | None) -> str:
    """The fabric in the shade of the chosen phase, or of each link's worst phase."""
    plan = one.plan
    if phase is None or phase == ALL:
        loads: Mapping[Egress, float] = worst_shares(one.phases)
        means = "busy time as a share of the busiest host link's, in each link's worst phase"
    else:
        shown = one.phases[chosen[0]]
        loads = {link.egress: link.share for link in shown.links}
        means = f"busy time as a share of the busiest host link's, {phase_name(plan, shown.keys[0])}"
    worst = one.worst if phase in (None, ALL) else None
    titled = worst or max(loads, key=lambda egress: loads[egress])
    name = link_name(plan.fabric, titled)
    down = {failure.port for failure in plan.failures}
    return fabric_svg(
        plan.fabric,
        loads,
        {host: f"rank {rank}" for rank, host in enumerate(plan.placement)},
        means,
        {titled: f"worst link: {name}, {loads[titled]:.2f} × the busiest host link"},
        worst=worst,
        failed=[
            link
            for link in plan.fabric.links
            if down & {Egress(link.a, link.a_port), Egress(link.b, link.b_port)}
        ],
    )

"""Plans a job's traffic, for `gradwire plan`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from gradwire.planning import plan as plans
from gradwire.planning.experiment import plan_of
from gradwire.planning.jobs import read_job, source_of
from gradwire.planning.machines.machinesfile import Machines, read_machines
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.results.answer import answer_of_plans
from gradwire.results.planfigures import nominal_figures
from gradwire.results.plannedcells import (
    NOT_ASKED,
    Carried,
    EngineTimes,
    PlannedCell,
    carried_by,
    planned_cell,
)
from gradwire.tools.console import console
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, TrafficChoices, refuse_planned
from gradwire.tools.options.common import ENGINES, MODEL, SIMGRID
from gradwire.tools.outputs import check_file, check_page, check_tables, print_outputs
from gradwire.tools.plans.matrix import Engine, planned, print_cells, to_json, write_page
from gradwire.tools.plans.partitiontable import machine_parts, parts_json, print_parts
from gradwire.tools.plans.summary import print_summary, summary
from gradwire.tools.progressbar import PATIENCE_S, progress_bar
from gradwire.tools.stdin import with_stdin
from gradwire.traces.units import one_of


def plan_job(  # noqa: PLR0913 - a parameter for each option
    context: typer.Context,
    job: Sequence[Path],
    matrix: MatrixChoices,
    network: NetworkChoices,
    traffic: TrafficChoices,
    *,
    out: Path | None,
    engine: str,
    machines: Path | None,
    html: Path | None,
    parquet: Path | None,
    as_json: bool,
) -> None:
    """Print the plan of each cell, and write the files that were asked for."""
    job = with_stdin(job)
    check_file("--out", out)
    check_page(html)
    check_tables(parquet)
    other = _engine(engine)
    given_machines = None if machines is None else read_machines(machines)
    given = read_job(job, traffic.rank_map)
    title = f"Plan of {source_of(job)}"
    if isinstance(given, Plan):
        refuse_planned(context, job[0])
        _show_one(given, other, out, html, parquet, title, given_machines, as_json=as_json)
        return
    cells = matrix.cells()
    experiment = traffic.experiment(given, job, network)
    if len(cells) == 1:
        with progress_bar(quiet=as_json, after_s=PATIENCE_S) as progress:
            progress.add_task("planning", total=1)
            made = plan_of(cells[0], experiment)
        _show_one(made, other, out, html, parquet, title, given_machines, as_json=as_json)
        return
    for option, value in (("--out", out), ("--machines", machines)):
        if value is not None:
            raise ValueError(
                f"{option} takes one plan, and these options make {len(cells)}: choose one, or leave it out"
            )
    work = [(cell, experiment) for cell in cells]
    several = planned(work, in_full=as_json, quiet=as_json, carried=parquet is not None, engine=other)
    figures = [each.cell for each in several]
    if html:
        write_page(html, title, figures)
    if parquet:
        _write_tables(parquet, [(each.cell, each.carried) for each in several])
    if as_json:
        print(json.dumps(to_json(several), indent=1))
        return
    print_cells(console(), figures)
    print_outputs(html, parquet)


def _write_tables(parquet: Path, made: Sequence[tuple[PlannedCell, Carried | None]]) -> None:
    from gradwire.results.plantables import plan_tables  # pandas takes a while to import
    from gradwire.traces.dataframes import write_parquet

    write_parquet(plan_tables(made), parquet)


def _engine(name: str) -> Engine | None:
    """None for the model, which has worked out each plan anyway.  Raise ValueError for an unknown name."""
    if one_of("engine", name, ENGINES) == MODEL:
        return None
    if name == SIMGRID:
        from gradwire.emu.engines import simgrid

        simgrid.check_set_up()
        return lambda plan, on_progress: EngineTimes(simgrid_s=simgrid.simgrid_s(plan, on_progress))
    from gradwire.emu.engines import ns3

    ns3.check_set_up()

    def by_packets(plan: Plan, on_progress: Callable[[float], None]) -> EngineTimes:
        found = ns3.packet_times(plan, on_progress)
        return EngineTimes(
            packets_s=found.time_s, packets_dropped=found.n_dropped, packets_resent=found.n_resent
        )

    return by_packets


def _by_engine(engine: Engine, made: Plan, *, quiet: bool) -> EngineTimes:
    with progress_bar(quiet=quiet, after_s=PATIENCE_S) as progress:
        task = progress.add_task("another engine, in percent", total=100)
        return engine(made, lambda share: progress.update(task, completed=100 * share))


def _show_one(
    made: Plan,
    engine: Engine | None,
    out: Path | None,
    html: Path | None,
    parquet: Path | None,
    title: str,
    machines: Machines | None,
    *,
    as_json: bool,
) -> None:
    """Print one plan, and write the files that were asked for."""
    load = plan_load(made)
    parts = machine_parts(made, load, machines) if machines else []
    if out is not None:
        plans.save(made, out)
    figures = nominal_figures(made, load)
    engines = _by_engine(engine, made, quiet=as_json) if engine else NOT_ASKED
    cell = planned_cell(made, figures, engines)
    if html:
        write_page(html, title, [cell])
    if parquet:
        _write_tables(parquet, [(cell, carried_by(made, load))])
    if as_json:
        print(json.dumps(summary(made, load, figures, engines) | {"machines": parts_json(parts)}, indent=1))
        return
    to = console()
    print_summary(to, made, load, figures, engines)
    if parts:
        to.print()
        print_parts(to, parts)
    to.print(f"\n{answer_of_plans([cell])}", soft_wrap=True)
    if out is not None:
        to.print(f"\nplan written to {out}", soft_wrap=True)
    print_outputs(html, parquet)

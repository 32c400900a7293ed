"""`gradwire replay`: send a job's traffic again as real packets."""

from dataclasses import replace

import typer

from gradwire.planning.jobs import is_captures, read_captured, read_job, source_of
from gradwire.planning.plan import Plan
from gradwire.results.laboratory import planned
from gradwire.results.row import Row
from gradwire.tools.choices import (
    MatrixChoices,
    NetworkChoices,
    RunChoices,
    TrafficChoices,
    refuse_planned,
    takes_choices,
)
from gradwire.tools.machine import need_root_and_tools
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.options import JobArgument
from gradwire.tools.outputs import check_report, check_tables
from gradwire.traces.workload import Workload


@takes_choices
def replay(
    context: typer.Context,
    job: JobArgument,
    matrix: MatrixChoices = MatrixChoices(),  # noqa: B008 - nobody changes it
    network: NetworkChoices = NetworkChoices(),  # noqa: B008
    traffic: TrafficChoices = TrafficChoices(),  # noqa: B008
    run: RunChoices = RunChoices(),  # noqa: B008
) -> None:
    """Send a job's traffic again, as real packets over real TCP, on an emulated fabric.

    A send does not leave at its recorded time, but when the data that it needs
    has arrived and its rank has computed as long as in the capture. Repeat
    --fabric, --algorithm, --placement or --routes to compare: each combination
    is one row of the result.

    Each fabric is calibrated first. Each row has a verdict that says whether the
    machine was fast enough to believe its time.

    Exit code 3: a row is not valid.
    """
    options = run.options
    original = None
    given: Workload | Plan
    if is_captures(job):
        given, original = read_captured(job, traffic.rank_map)
    else:
        given = read_job(job, traffic.rank_map)
    if isinstance(given, Plan):
        refuse_planned(context, job[0])
        todo: list[Plan | Row] = [given]
    else:
        if traffic.changes_job:
            original = None
        chosen = traffic.job(given, job, network)
        chosen = replace(chosen, captured_on=original.fabric if original else None)
        todo = planned([(cell, chosen) for cell in matrix.cells()])
    need_root_and_tools("replay", run.switch, run.captures)
    check_report(run.html)
    check_tables(run.parquet)
    folder = run.out or default_folder()
    described = about(f"Replay of {source_of(job)}")
    results = carry_out(todo, options, folder, described, quiet=run.as_json, original=original)
    show(results, as_json=run.as_json, html=run.html, parquet=run.parquet)

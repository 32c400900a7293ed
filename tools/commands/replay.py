"""`gradwire replay`: send a job's traffic again as real packets."""

import typer

from gradwire.planning.jobs import source_of
from gradwire.tools.choiceoptions import takes_choices
from gradwire.tools.choices import MatrixChoices, NetworkChoices, RunChoices, TrafficChoices, refuse_planned
from gradwire.tools.jobwork import work_of
from gradwire.tools.labwriting import lab_of
from gradwire.tools.live.view import live_view
from gradwire.tools.machine import need_root_and_tools
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.options import JobArgument
from gradwire.tools.outputs import check_report, check_tables
from gradwire.tools.stdin import with_stdin


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
    options, job = run.options, with_stdin(job)
    work = work_of(job, matrix.cells(), network, traffic)
    if work.plan:
        refuse_planned(context, job[0])
    todo = work.todo()
    need_root_and_tools("replay", run.switch, run.captures, run.controller)
    check_report(run.html)
    check_tables(run.parquet)
    described = about(f"Replay of {source_of(job)}")
    lab = lab_of(job, "replay", work, [matrix, network, traffic, run])
    with live_view(run.watch, described.title) as view:
        folder = run.out or default_folder()
        results = carry_out(
            todo,
            options,
            folder,
            described,
            quiet=run.as_json,
            original=work.original,
            lab=lab,
            view=view,
        )
    show(results, as_json=run.as_json, html=run.html, parquet=run.parquet, verbose=run.verbose)

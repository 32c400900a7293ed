"""Sends a job's traffic again, for `gradwire replay`."""

from collections.abc import Sequence
from pathlib import Path

import typer

from gradwire.planning.jobs import source_of
from gradwire.tools.jobwork import work_of
from gradwire.tools.labs.writing import lab_of
from gradwire.tools.live.view import live_view
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.options.choices import (
    MatrixChoices,
    NetworkChoices,
    RunChoices,
    TrafficChoices,
    refuse_planned,
)
from gradwire.tools.outputs import check_report, check_tables
from gradwire.tools.stdin import with_stdin
from gradwire.tools.thismachine import need_root_and_tools


def replay_job(
    context: typer.Context,
    job: Sequence[Path],
    matrix: MatrixChoices,
    network: NetworkChoices,
    traffic: TrafficChoices,
    run: RunChoices,
) -> None:
    """Send it in every cell, and show the rows; leave with exit code 3 if one is not valid."""
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

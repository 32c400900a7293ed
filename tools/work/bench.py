"""Measures a collective over sizes, for `gradwire bench`."""

import json
from dataclasses import replace
from pathlib import Path

import typer

from gradwire.tools.jobwork import Work
from gradwire.tools.labs.writing import keys_of, lab_of
from gradwire.tools.live.view import live_view
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.options.bench import SIZES, BenchChoices, kind_of
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, RunChoices
from gradwire.tools.options.given import refuse_given
from gradwire.tools.outputs import check_file, check_report, check_tables
from gradwire.tools.report.ncclstyle import nccl_json
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.files import write_whole
from gradwire.traces.schedules.names import DEFAULTS


def measure(
    context: typer.Context,
    collective: str,
    output_file: Path | None,
    sized: BenchChoices,
    matrix: MatrixChoices,
    network: NetworkChoices,
    run: RunChoices,
) -> None:
    """Send every size in every cell, and show the rows; leave with exit code 3 if one is not valid."""
    options, kind = run.options, kind_of(collective)
    if not matrix.algorithm:
        matrix = replace(matrix, algorithm=[DEFAULTS[kind]])
    if sized.sizes is not None:
        refuse_given(context, SIZES, f"the sizes are in {sized.sizes}")
    work = Work(sized.work(kind, matrix.cells(), network))
    todo = work.todo()
    need_root_and_tools("bench", run.switch, run.captures, run.controller)
    check_report(run.html)
    check_tables(run.parquet)
    check_file("--output-file", output_file)
    title = sized.title(kind)
    lab = lab_of({"bench": kind, **keys_of(sized)}, "bench", work, [matrix, network, run])
    with live_view(run.watch, title) as view:
        folder = run.out or default_folder()
        results = carry_out(todo, options, folder, about(title), quiet=run.as_json, lab=lab, view=view)
    if output_file is not None:
        made = nccl_json(results.rows, results.about, options, sized.steps)
        write_whole(output_file, json.dumps(made, indent=1) + "\n")
    show(results, as_json=run.as_json, html=run.html, parquet=run.parquet, verbose=run.verbose)

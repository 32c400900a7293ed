"""Plans cells with several seeds each, for `plan --seeds`: what is drawn at random differs by them."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.jobs import read_job
from gradwire.planning.plan import Plan
from gradwire.results.studyresults import CellResult, SeedSummary, summaries
from gradwire.tools.console import console
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, TrafficChoices, fixed
from gradwire.tools.stdin import with_stdin
from gradwire.tools.sweep.progress import sweep_progress
from gradwire.tools.sweep.study import StudyCell, parse_seeds
from gradwire.tools.sweep.tables import answers_of_study, print_study
from gradwire.tools.work.sweep import in_processes


def plan_with_seeds(
    job: Sequence[Path],
    seeds: Sequence[str],
    matrix: MatrixChoices,
    network: NetworkChoices,
    traffic: TrafficChoices,
    *,
    as_json: bool,
) -> None:
    """Plan each cell with each seed, in several processes, and print the spans.  Raise ValueError for what is
    not a seed, and for a plan.
    """
    job = with_stdin(job)
    given = read_job(job, traffic.rank_map)
    if isinstance(given, Plan):
        raise fixed("--seeds", job[0])
    jobs = {seed: traffic.experiment(given, job, replace(network, seed=seed)) for seed in parse_seeds(seeds)}
    results = planned_with_seeds(matrix.cells(), jobs, quiet=as_json)
    if as_json:
        print(json.dumps(spans_json(results), indent=1))
    else:
        print_study(console(), results)


def planned_with_seeds(
    cells: Sequence[Cell], experiments: Mapping[int, Experiment], *, quiet: bool
) -> list[CellResult]:
    """The cells of the first seed in their order, then those of the next.  A cell that cannot be planned is
    refused.
    """
    todo = [
        StudyCell("", seed, cell, experiment, key=f"{seed} {number}")
        for seed, experiment in experiments.items()
        for number, cell in enumerate(cells)
    ]
    made: dict[str, CellResult] = {}
    with sweep_progress(len(todo), None, quiet=quiet) as progress:
        for each, result in in_processes(todo, progress.doing, len(os.sched_getaffinity(0))):
            made[each.key] = result
            progress.done(result, each.name)
    return [made[each.key] for each in todo]


def spans_json(results: Sequence[CellResult]) -> dict[str, Any]:
    """As docs/schemas.md, "plan --seeds --json", says."""
    return {
        "cells": [dict(_span(each)) for each in summaries(results)],
        "answer": " ".join(answers_of_study(results)),
    }


def _span(each: SeedSummary) -> Iterator[tuple[str, Any]]:
    for name in ("fabric", "algorithm", "placement", "routes", "ranks", "bytes"):
        yield name, getattr(each.first.cell, name)
    times_s = each.times_s
    yield "seeds", [result.seed for result in each.results]
    yield "fluid_s", [result.time_s for result in each.results]
    yield "least_s", min(times_s, default=None)
    yield "mean_s", each.mean_s if times_s else None
    yield "most_s", max(times_s, default=None)
    yield "bound_s", each.bound_s
    yield "ratio", each.mean_s / each.bound_s if times_s and each.bound_s else None
    yield "refused", next((result.refused for result in each.results if result.refused is not None), None)

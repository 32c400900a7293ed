"""`gradwire plan`: decide every send, port and path of a run in advance."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradwire.planning import plan as plans
from gradwire.planning.experiment import plan_of
from gradwire.planning.jobs import read_job
from gradwire.planning.plan import Plan
from gradwire.tools.choices import (
    MatrixChoices,
    NetworkChoices,
    TrafficChoices,
    refuse_planned,
    takes_choices,
)
from gradwire.tools.console import console
from gradwire.tools.options import JobArgument, JsonOption
from gradwire.tools.plansummary import print_summary, summary


@partial(takes_choices, once=True)
def plan(
    context: typer.Context,
    job: JobArgument,
    matrix: MatrixChoices = MatrixChoices(),  # noqa: B008 - nobody changes it
    network: NetworkChoices = NetworkChoices(),  # noqa: B008
    traffic: TrafficChoices = TrafficChoices(),  # noqa: B008
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the plan to this file, for `replay` and `audit`."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide every send, port number and path of a run in advance, and predict its time.

    This needs no root and no network. The same arguments always give the same
    plan. Given a plan.json, `plan` shows it and refuses options that the plan
    has already fixed.
    """
    given = read_job(job, traffic.rank_map)
    if isinstance(given, Plan):
        refuse_planned(context, job[0])
        chosen = given
    else:
        cells = matrix.cells()
        if len(cells) > 1:
            raise ValueError(
                f"--ina {matrix.ina} makes {len(cells)} plans; plan makes one: choose off, on or leaf"
            )
        chosen = plan_of(cells[0], traffic.job(given, job, network))
    if output is not None:
        plans.save(chosen, output)
    if as_json:
        print(json.dumps(summary(chosen), indent=1))
        return
    to = console()
    print_summary(to, chosen)
    if output is not None:
        to.print(f"\nplan written to {output}", soft_wrap=True)

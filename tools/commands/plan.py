"""`gradwire plan`: decide every send, port and path of a run in advance."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.choiceoptions import takes_choices
from gradwire.tools.choices import MatrixChoices, NetworkChoices, TrafficChoices
from gradwire.tools.options import MODEL, HtmlOption, JobArgument, JsonOption, ParquetOption


@takes_choices
def plan(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    job: JobArgument,
    matrix: MatrixChoices = MatrixChoices(),  # noqa: B008 - nobody changes it
    network: NetworkChoices = NetworkChoices(),  # noqa: B008
    traffic: TrafficChoices = TrafficChoices(),  # noqa: B008
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="PATH", help="Write the plan to this file, for `replay` and `audit`."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which times to show: `model`, gradwire's own; `simgrid`, also SimGrid's, as a second "
            "opinion (after `setup --simgrid`).",
        ),
    ] = MODEL,
    machines: Annotated[
        Path | None,
        typer.Option(
            "--machines",
            metavar="FILE",
            help="Show how the fabric is split over the machines in this YAML file; takes one plan "
            "(docs/machines.md).",
        ),
    ] = None,
    html: HtmlOption = None,
    parquet: ParquetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide every send, port number and path of a run in advance, and predict its time.

    This needs no root and no network. The same arguments always give the same
    plan. Repeat --fabric, --algorithm, --placement or --routes to compare: each
    combination is one row, and the last line says which is best. Given a
    plan.json, `plan` shows it and refuses options that the plan has already
    fixed.
    """
    from gradwire.tools.work.plan import plan_job

    plan_job(
        context,
        job,
        matrix,
        network,
        traffic,
        out=out,
        engine=engine,
        machines=machines,
        html=html,
        parquet=parquet,
        as_json=as_json,
    )

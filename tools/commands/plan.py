"""`gradwire plan`: decide every send, port and path of a run in advance."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, TrafficChoices
from gradwire.tools.options.common import MODEL, HtmlOption, JobArgument, JsonOption, ParquetOption
from gradwire.tools.options.fields import takes_choices
from gradwire.tools.options.given import refuse_given

ALONE = ("seed", "engine", "out", "machines", "html", "parquet")  # what one seed has


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
            "opinion (after `setup --simgrid`); `packets`, also that of TCP packet by packet, by ns-3 "
            "(after `setup --ns3`).",
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
    seeds: Annotated[
        list[str] | None,
        typer.Option(
            "--seeds",
            metavar="N|A..B",
            help="Plan with each of these seeds, e.g. 0..9, and show the least, mean and longest time: "
            "a seed is one draw of a random placement, or of routes by a hash.",
            show_default=False,
        ),
    ] = None,
    html: HtmlOption = None,
    parquet: ParquetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide every send, port number and path of a run in advance, and predict its time.

    This needs no root and no network. The same arguments always give the same
    plan. Repeat --fabric, --algorithm, --placement or --routes to compare: each
    combination is one row, and the last line says which is best. With --seeds
    each row is a span over seeds. Given a plan.json, `plan` shows it and refuses
    options that the plan has already fixed.

    gradwire plan traces/samples/ddp_gloo_8 --fabric fat-tree:k=4 --fabric bigraph:n=4,m=2
    gradwire plan traces/samples/ddp_gloo_8 --algorithm halving-doubling -o plan.json
    """
    if seeds:
        refuse_given(
            context, ALONE, "it is not with --seeds, which prints a table; gradwire sweep writes files"
        )
        from gradwire.tools.work.planseeds import plan_with_seeds

        plan_with_seeds(job, seeds, matrix, network, traffic, as_json=as_json)
        return
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

"""`gradwire inspect`: show what a training job sent, and what slowed it down."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import (
    CapturesArgument,
    CsvOption,
    JsonOption,
    ParquetOption,
    RankMapOption,
)


def inspect(  # noqa: PLR0913, PLR0917 - a parameter for each option
    captures: CapturesArgument,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a report: one HTML page that needs no other file, with summary, timeline, "
            "collectives, flows and bursts.",
            show_default=False,
        ),
    ] = None,
    csv: CsvOption = None,
    parquet: ParquetOption = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Also write a timeline (Chrome trace events, JSON) to open in ui.perfetto.dev.",
            show_default=False,
        ),
    ] = None,
    line_rate: Annotated[
        str | None,
        typer.Option(
            "--line-rate",
            metavar="RATE",
            help="Rate of the hosts' links in bit/s, e.g. 10G. Default: as the captures' manifest.json says, "
            "or else as the packets show.",
            show_default=False,
        ),
    ] = None,
    verified: Annotated[
        int | None,
        typer.Option(
            "--verify",
            metavar="N",
            help="First compare N packets of each file with what tshark reads, field by field.",
            min=1,
            show_default=False,
        ),
    ] = None,
    rank_map: RankMapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a captured training job sent, how long its iterations took, and what slowed it down.

    A summary comes first, then what to do next, then tables of the traffic
    between ranks, collectives, iterations, flows and bursts, and the losses.

    gradwire inspect traces/samples/ddp_gloo_8
    gradwire inspect traces/samples/ddp_gloo_8 --html inspect.html
    """
    from gradwire.tools.work.inspect import inspect_captures

    inspect_captures(
        captures,
        html=html,
        csv=csv,
        parquet=parquet,
        perfetto=perfetto,
        line_rate=line_rate,
        verified=verified,
        rank_map=rank_map,
        as_json=as_json,
    )

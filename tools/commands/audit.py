"""`gradwire audit`: show a plan's load link by link, and check a run's counters against its plan."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import JsonOption


def audit(
    what: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLAN|RUN",
            help="plan.json files, folders of runs, or a folder that holds several runs; - is a plan on "
            "standard input.",
            show_default=False,
        ),
    ],
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Show this phase in full, or all. Default: the phase in which links add most time.",
            show_default=False,
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="FILE",
            help="Draw the fabric as SVG to this file, links coloured by load; takes one PLAN or RUN.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show every link's load in a plan, where flows collide, and how large the switches' tables are.

    A phase is a set of sends that may be under way at the same time. For a run,
    the audit also compares the switches' counters with the plan, flow by flow
    and link by link. This needs no root.

    Exit code 3: a run's counters disagree with its plan.

    gradwire audit plan.json
    gradwire audit plan.json --svg load.svg
    """
    from gradwire.tools.work.audit import audit_all

    audit_all(what, phase, svg, as_json=as_json)

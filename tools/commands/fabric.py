"""`gradwire fabric`: compare what fabrics are made of and how much they can carry."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options import FABRIC_HELP, JsonOption, complete_fabric


def fabric(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC",
            help=f"{FABRIC_HELP}. Give several to compare them.",
            autocompletion=complete_fabric,
        ),
    ],
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Draw the fabric as SVG to this file; takes one SPEC."),
    ] = None,
    as_yaml: Annotated[
        bool,
        typer.Option("--yaml", help="Print the fabric as YAML, as a start for your own; takes one SPEC."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare fabrics: hosts, switches, cables, bisection, oversubscription and paths.

    The fabrics should have the same number of hosts; a note says if they do not.
    """
    from gradwire.tools.work.fabric import compare_fabrics

    compare_fabrics(specs, svg, as_yaml=as_yaml, as_json=as_json)

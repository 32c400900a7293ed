"""`gradwire fabric`: compare what fabrics are made of and how much they can carry."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.exits import UsageError
from gradwire.tools.options.common import FABRIC_HELP, JsonOption, complete_fabric


def fabric(
    context: typer.Context,
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC",
            help=f"{FABRIC_HELP}. Give several to compare them.",
            autocompletion=complete_fabric,
        ),
    ] = None,
    radix: Annotated[
        int | None,
        typer.Option(
            "--radix",
            metavar="N",
            help="In place of SPEC: the largest fabrics that switches with N ports make.",
        ),
    ] = None,
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

    The fabrics should have the same number of hosts; a note says if they do not. With --radix: which
    fabrics one can build of switches with N ports, and what they would cost.

    gradwire fabric fat-tree:k=4 leaf-spine:leaves=4,spines=2,hosts=4
    gradwire fabric fat-tree:k=4,rate=1G --svg fat-tree.svg
    gradwire fabric --radix 32
    """
    from gradwire.tools.work.fabric import compare_fabrics, list_sizes

    if radix is None and not specs:
        raise UsageError("missing argument 'SPEC' (or --radix N)", context)
    if radix is None:
        compare_fabrics(specs or (), svg, as_yaml=as_yaml, as_json=as_json)
        return
    for option, given in (("a SPEC", specs), ("--svg", svg), ("--yaml", as_yaml)):
        if given:
            raise ValueError(f"--radix and {option} cannot be used together: give one of them")
    list_sizes(radix, as_json=as_json)

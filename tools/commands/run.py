"""`gradwire run`: run labs, which are files, and check what they expect."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import JsonOption, OutOption, VerboseOption, WatchOption


def run(
    labs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="LAB", help="Lab files, such as lab.yaml; - for standard input.", show_default=False
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only read and plan the labs, and check that their expectations can be computed."
        ),
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of lab files, for editors.")
    ] = False,
    out: OutOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    watch: WatchOption = None,
) -> None:
    """Run labs: files that say what is sent, where, and what is expected of it.

    gradwire run --check labs/01-oversubscription/lab.yaml
    sudo gradwire run labs/01-oversubscription/lab.yaml

    The keys of a lab are the options of plan, replay and bench (docs/labs.md).
    All labs are read, and those that send packets planned, before anything is
    sent. A lab with mode: plan sends nothing and needs no root.

    Exit code 4: something is not as a lab expects it; 3: a row is not valid.
    """
    from gradwire.tools.work.run import print_schema, run_labs

    if schema:
        print_schema()
        return
    if not labs:
        raise ValueError("no lab is named: write gradwire run lab.yaml")
    code = run_labs(labs, check=check, watch=watch, out=out, as_json=as_json, verbose=verbose)
    if code:
        raise typer.Exit(code)

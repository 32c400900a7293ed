"""`gradwire sweep`: plan all cells of a study, or send their packets, with every job and seed."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import JsonOption


def sweep(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="A study, such as study.yaml.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Folder for the cells, the page and the table. Default: sweeps/NAME, after the study's "
            "file. With the same folder, only missing cells are planned.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="How many processes plan cells. Default: one for each processor. Packets are always sent "
            "one cell at a time.",
            show_default=False,
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Do the cells on the Ray cluster at this address (after `setup --ray`): plans on all its "
            "nodes, packets on those that offer them (docs/sweeps.md).",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        str | None,
        typer.Option(
            "--watch",
            metavar="[=PORT|terminal]",
            help="Show live how far it is, how long the rest takes and which cells are best, and what goes "
            "on in cells that send packets. In a browser, by a page on this machine's loopback at port 8470 "
            "or PORT (0: any free one), or in the terminal.",
            show_default=False,
        ),
    ] = None,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry", help="Do cells again whose rows are not valid; without it they are kept as they are."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Plan all cells of a study, or send their packets, and compare them.

    gradwire sweep study.yaml

    A study is a lab with several seeds: or jobs: (docs/sweeps.md). With
    mode: plan cells are planned; without it their packets are sent, which needs
    root. Every cell is kept as soon as it is done: after an interruption the
    same command goes on where it stopped, and cells that a later study shares
    are not done again unless gradwire's code, Python or a package has changed.

    Exit code 4: an expectation fails; 3: a row is not valid, a cell failed, or
    every cell is refused.
    """
    from gradwire.tools.work.sweep import run_study

    if ray is not None and processes is not None:
        raise ValueError("--processes and --ray cannot be used together: give one of them")
    code = run_study(study, out, processes, ray=ray, watch=watch, retry=retry, as_json=as_json)
    if code:
        raise typer.Exit(code)

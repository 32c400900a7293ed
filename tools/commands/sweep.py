"""`gradwire sweep`: plan all cells of a study, with every job and seed."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options import JsonOption


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
            help="How many processes plan cells. Default: one for each processor.",
            show_default=False,
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Plan the cells on the Ray cluster at this address (after `setup --ray`).",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan all cells of a study, with every seed, and compare them.

    gradwire sweep study.yaml

    A study is a lab with mode: plan, seeds: and jobs: (docs/sweeps.md). Every cell is
    kept as soon as it is planned: after an interruption the same command goes on
    where it stopped, and cells that a later study shares are not planned again
    unless gradwire's code, Python or a package has changed.

    Exit code 4: an expectation fails; 3: every cell is refused.
    """
    from gradwire.tools.sweep import run_study

    if ray is not None and processes is not None:
        raise ValueError("--processes and --ray cannot be used together: give one of them")
    code = run_study(study, out, processes, ray=ray, as_json=as_json)
    if code:
        raise typer.Exit(code)

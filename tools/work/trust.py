"""Trains a job and replays it on the same fabrics, for `gradwire trust`."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from gradwire.emu.capturing.request import check_fits
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.trustresult import TrustMatrix
from gradwire.tools.console import console
from gradwire.tools.matrixrun import about, default_folder
from gradwire.tools.options.livejob import (
    LiveJob,
    need_for_live,
)
from gradwire.tools.outputs import check_page
from gradwire.tools.trust.matrix import TrustTrial, carry_out
from gradwire.tools.trust.tables import print_matrix, write_page

NOT_TRUSTED = 3


def trust_job(  # noqa: PLR0913 - a parameter for each option
    live: LiveJob,
    fabric: Sequence[str],
    *,
    routes: str,
    repeat: int,
    trainings: int,
    snaplen: int,
    out: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Show iteration times, live and replayed; leave with exit code 3 if a row cannot be trusted."""
    trial = TrustTrial(live, tuple(fabric), routes, repeat, snaplen, trainings)
    requests = [live.request(spec) for spec in fabric]
    for request, spec in zip(requests, fabric, strict=True):
        check_fits(request, parse_fabric(spec))
    need_for_live("trust", requests[0])
    check_page(html)
    folder = out or default_folder()
    try:
        matrix = carry_out(trial, folder, quiet=as_json, described=about(""))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"continue with the same command and --out {folder}") from None
    if html:
        write_page(html, matrix)
    _show(matrix, folder, as_json)


def _show(matrix: TrustMatrix, folder: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"folder": str(folder), **matrix.to_json()}, indent=1))
    else:
        to = console()
        print_matrix(to, matrix)
        to.print(f"\nall of it: {folder}", soft_wrap=True)
    if any(row.is_failure for row in matrix.rows):
        raise typer.Exit(NOT_TRUSTED)

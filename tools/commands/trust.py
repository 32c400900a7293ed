"""`gradwire trust`: check replays against the job itself, trained live on the same fabrics."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gradwire.emu.capturing.request import check_fits
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.trustresult import TrustMatrix
from gradwire.tools.console import console
from gradwire.tools.joboptions import (
    AsyncOption,
    BatchOption,
    BesideLiveOption,
    BucketOption,
    LimitOption,
    LiveJob,
    LiveJobArgument,
    ModelOption,
    OnceOption,
    RanksOption,
    ServersOption,
    SnaplenOption,
    TrainingIterationsOption,
    TrainingSeedOption,
    WorkersOption,
    need_for_live,
    parse_beside,
    refuse_foreign_options,
)
from gradwire.tools.matrixrun import about, default_folder
from gradwire.tools.options import (
    FABRIC_HELP,
    REPEATABLE,
    HtmlOption,
    JsonOption,
    RepeatOption,
    RoutesOption,
    complete_fabric,
)
from gradwire.tools.outputs import check_page
from gradwire.tools.trust import TrustTrial, carry_out
from gradwire.tools.trustlive import MAX_TRAININGS
from gradwire.tools.trusttables import print_matrix, write_page

NOT_TRUSTED = 3


def trust(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    job: LiveJobArgument,
    fabric: Annotated[
        list[str],
        typer.Option(
            "--fabric",
            metavar="SPEC",
            help=f"{FABRIC_HELP}. {REPEATABLE}",
            show_default=False,
            autocompletion=complete_fabric,
        ),
    ],
    ranks: RanksOption = 4,
    model: ModelOption = "mlp",
    iterations: TrainingIterationsOption = 10,
    batch: BatchOption = 16,
    seed: TrainingSeedOption = 0,
    bucket_mib: BucketOption = None,
    servers: ServersOption = 1,
    workers: WorkersOption = 4,
    asynchronous: AsyncOption = False,
    once: OnceOption = False,
    beside: BesideLiveOption = None,
    limit: LimitOption = 600,
    routes: RoutesOption = "ecmp",
    repeat: RepeatOption = 3,
    trainings: Annotated[
        int,
        typer.Option(
            "--trainings",
            min=1,
            max=MAX_TRAININGS,
            help="Number of trainings on each fabric; the median iteration of all of them counts. A fabric "
            "with several paths between hosts gets one, as each training's ports would choose other paths.",
        ),
    ] = 3,
    snaplen: SnaplenOption = 128,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Folder for captures, runs and results. Run the same command with the same folder to "
            "continue an interrupted one. Default: runs/DATE-TIME.",
            show_default=False,
        ),
    ] = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a job live on each fabric, replay each capture on each, and compare the iteration times.

    gradwire trust ddp --fabric star:hosts=4,rate=20M --fabric star:hosts=4,rate=100M
    gradwire trust ps --servers 2 --workers 4 --fabric star:hosts=6,rate=50M
    gradwire trust --ranks 4 --fabric star:hosts=4 -- python train.py

    The live time comes from the ranks' own logs. Replays read trimmed captures
    (--snaplen). Your own program must log an event iter0 to $GRADWIRE_LOG at
    the start of each iteration (docs/capture.md).

    Exit code 3: a row was refused, is not valid, or lies outside its error bar.
    An interrupted command keeps what it has measured (docs/trust.md).
    """
    refuse_foreign_options(context, job)
    live = LiveJob(
        words=tuple(job),
        ranks=ranks,
        model=model,
        iterations=iterations,
        batch=batch,
        seed=seed,
        bucket_mib=bucket_mib,
        servers=servers,
        workers=workers,
        asynchronous=asynchronous,
        once=once,
        limit_s=limit,
        beside=parse_beside(beside),
    )
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

"""`gradwire trust`: check replays against the job itself, trained live on the same fabrics."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import (
    FABRIC_HELP,
    REPEATABLE,
    HtmlOption,
    JsonOption,
    RepeatOption,
    RoutesOption,
    complete_fabric,
)
from gradwire.tools.options.livejob import (
    MAX_TRAININGS,
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
    parse_beside,
    refuse_foreign_options,
)


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
            help="Number of trainings on each fabric; the median of all their iterations counts. Where hosts "
            "have several paths, or trainings are more than 3 % apart, each capture is replayed once for "
            "each training, with its ports, and of those with the verdict of most the middle one counts.",
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

    sudo gradwire trust ddp --fabric star:hosts=4,rate=20M --fabric star:hosts=4,rate=100M
    sudo gradwire trust ps --servers 2 --workers 4 --fabric star:hosts=6,rate=50M
    sudo gradwire trust --ranks 4 --fabric star:hosts=4 -- python train.py

    The live time comes from the ranks' own logs. Replays read trimmed captures
    (--snaplen). Your own program must log an event iter0 to $GRADWIRE_LOG at
    the start of each iteration (docs/capture.md).

    Exit code 3: a row was refused, is not valid, or lies outside its error bar.
    An interrupted command keeps what it has measured (docs/trust.md).
    """
    from gradwire.tools.work.trust import trust_job

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
    trust_job(
        live,
        fabric,
        routes=routes,
        repeat=repeat,
        trainings=trainings,
        snaplen=snaplen,
        out=out,
        html=html,
        as_json=as_json,
    )

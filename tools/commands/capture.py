"""`gradwire capture`: run a training job and capture its packets at every host."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.common import FABRIC_HELP, JsonOption, complete_fabric
from gradwire.tools.options.livejob import (
    AsyncOption,
    BatchOption,
    BesideLiveOption,
    BucketOption,
    LimitOption,
    LiveJob,
    LiveJobArgument,
    LiveSlowOption,
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

DEFAULT_RATE = "10G"  # more than two processors can send: the job's own pace shows, not the link's


def capture(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    job: LiveJobArgument,
    ranks: RanksOption = 4,
    model: ModelOption = "mlp",
    iterations: TrainingIterationsOption = 10,
    batch: BatchOption = 16,
    seed: TrainingSeedOption = 0,
    bucket_mib: BucketOption = None,
    servers: ServersOption = 1,
    workers: WorkersOption = 4,
    asynchronous: AsyncOption = False,
    slow: LiveSlowOption = None,
    once: OnceOption = False,
    beside: BesideLiveOption = None,
    limit: LimitOption = 600,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            metavar="SPEC",
            autocompletion=complete_fabric,
            help=f"{FABRIC_HELP}. Default: a star at {DEFAULT_RATE}, too fast to slow the job down.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Folder to create. Default: captures/DATE-TIME-JOB.",
            show_default=False,
        ),
    ] = None,
    snaplen: SnaplenOption = 128,
    keep_payload: Annotated[
        bool, typer.Option("--keep-payload", help="Also keep the whole packets, in PATH/whole.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a training job, one rank on each host of an emulated network, and capture what it sends.

    sudo gradwire capture ddp --model resnet18 --ranks 8
    sudo gradwire capture ps --servers 2 --workers 4 --async
    sudo gradwire capture --ranks 4 -- python train.py
    sudo gradwire capture --ranks 4 --once -- mpirun -np 4 ./allreduce
    sudo gradwire capture ddp --fabric fat-tree:k=4 --beside "ps --workers 3"

    The folder (--out) then holds a capture of each host, the rank of each host,
    the ranks' own logs, and a manifest (docs/capture.md). The packets are decoded
    at once and compared with the logs.

    Your own program finds RANK, WORLD_SIZE, MASTER_ADDR and so on in its
    environment. ddp and ps need PyTorch: sudo ./gradwire setup --live.
    Ctrl-C ends the job and keeps what was captured until then.

    Exit code 3: the packets and the logs differ.
    """
    from gradwire.tools.capturing import capture_job

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
        slow=tuple(slow or ()),
        beside=parse_beside(beside),
    )
    spec = fabric or f"star:hosts={sum(one.n_ranks for one in live.jobs)},rate={DEFAULT_RATE}"
    folder = None if out is None else out.absolute()
    capture_job(live, spec, folder, snaplen, keep_payload=keep_payload, as_json=as_json)

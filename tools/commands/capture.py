"""`gradwire capture`: a training job, captured at every host."""

import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from emu.capturing.request import MAX_SNAPLEN, MIN_SNAPLEN, Request, check_fits
from emu.fabrics.fabricfile import is_file
from emu.fabrics.spec import parse_fabric
from emu.training.options import MODELS, TrainingOptions
from tools.capturing import Keeping, carry_out, default_folder, show
from tools.needs import need_root_and_tools
from tools.options import FABRIC_HELP, JsonOption

DDP, PS, PROGRAM = "ddp", "ps", "a program"
DDP_PANEL, PS_PANEL = "ddp: data-parallel training", "ps: parameter servers"
BUILT_IN_PANEL, PROGRAM_PANEL = "ddp and ps", "-- CMD: a program of your own"
BELONGS = {  # options that mean nothing elsewhere
    "ranks": {DDP, PROGRAM},
    "bucket_mib": {DDP},
    "servers": {PS},
    "workers": {PS},
    "asynchronous": {PS},
    "model": {DDP, PS},
    "iterations": {DDP, PS},
    "batch": {DDP, PS},
    "seed": {DDP, PS},
    "once": {PROGRAM},
}
DEFAULT_RATE = "10G"  # more than two processors can send: the job's own pace shows, not the link's

_MODEL_HELP = "; ".join(f"{name}: {count:,} parameters" for name, count in MODELS.items())


def capture(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    job: Annotated[
        list[str],
        typer.Argument(
            metavar="ddp | ps | -- CMD…",
            help="A built-in PyTorch job, or after -- a command line of your own.",
            show_default=False,
        ),
    ],
    ranks: Annotated[int, typer.Option(help="Ranks of ddp, or of your program: one on each host.")] = 4,
    model: Annotated[
        str, typer.Option(metavar="|".join(MODELS), help=f"{_MODEL_HELP}.", rich_help_panel=BUILT_IN_PANEL)
    ] = "mlp",
    iterations: Annotated[int, typer.Option(help="How long to train.", rich_help_panel=BUILT_IN_PANEL)] = 10,
    batch: Annotated[
        int,
        typer.Option(
            help="Samples of a rank's batch (gpt: always one sequence).", rich_help_panel=BUILT_IN_PANEL
        ),
    ] = 16,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Of the parameters and the made-up data.", rich_help_panel=BUILT_IN_PANEL),
    ] = 0,
    bucket_mib: Annotated[
        float | None,
        typer.Option(
            "--bucket-mib",
            help="DDP's bucket_cap_mb. PyTorch's own rule (1, then 25 MiB) unless given.",
            rich_help_panel=DDP_PANEL,
            show_default=False,
        ),
    ] = None,
    servers: Annotated[
        int, typer.Option(min=1, help="Servers, the parameters cut over them.", rich_help_panel=PS_PANEL)
    ] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Workers.", rich_help_panel=PS_PANEL)] = 4,
    asynchronous: Annotated[
        bool,
        typer.Option(
            "--async",
            help="A server answers each push at once, not when all are there.",
            rich_help_panel=PS_PANEL,
        ),
    ] = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Run CMD on the first host only, to start the rest itself, as mpirun does. "
            "$GRADWIRE_RSH HOST CMD is its ssh; Open MPI is set up to use it.",
            rich_help_panel=PROGRAM_PANEL,
        ),
    ] = False,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="End a job that takes longer; what it has sent is kept.")
    ] = 600,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            metavar="SPEC",
            help=f"{FABRIC_HELP}. A star at {DEFAULT_RATE} unless given: no link is short then.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder to make. Default: captures/DATE-TIME-JOB.",
            show_default=False,
        ),
    ] = None,
    snaplen: Annotated[
        int,
        typer.Option(min=MIN_SNAPLEN, max=MAX_SNAPLEN, help="Bytes of each packet to keep, after the check."),
    ] = 128,
    keep_payload: Annotated[
        bool, typer.Option("--keep-payload", help="Keep the whole packets too, in DIR/whole.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a training job, one rank on each host of an emulated network, and capture all it sends.

    gradwire capture ddp --model resnet18 --ranks 8
    gradwire capture ps --servers 2 --workers 4 --async
    gradwire capture --ranks 4 -- python train.py
    gradwire capture --ranks 4 --once -- mpirun -np 4 ./allreduce

    The folder then holds a capture of each host, who is which rank, what the
    ranks logged themselves, and a manifest: docs/capture.md. The packets are
    decoded at once and compared with those logs; exit code 3 if they differ.
    Your own program finds RANK, WORLD_SIZE, MASTER_ADDR and the like in its
    environment. ddp and ps need PyTorch: sudo ./gradwire setup --live.
    Ctrl-C ends the job and keeps what was captured until then.
    """
    kind = job[0] if len(job) == 1 and job[0] in {DDP, PS} else PROGRAM
    _refuse_foreign_options(context, kind)
    n_ranks = servers + workers if kind == PS else ranks
    spec = fabric or f"star:hosts={n_ranks},rate={DEFAULT_RATE}"
    training = None
    if kind != PROGRAM:
        training = TrainingOptions(
            model=model,
            iterations=iterations,
            servers=servers if kind == PS else 0,
            asynchronous=asynchronous,
            batch=batch,
            bucket_mib=bucket_mib,
            seed=seed,
        )
    where = str(Path(spec).resolve()) if is_file(spec) else spec
    request = Request(n_ranks, where, training, () if training else tuple(job), once, limit)
    built = parse_fabric(spec)
    check_fits(request, built)
    _need(request)
    keeping = Keeping((output or default_folder(request)).absolute(), snaplen, keep_payload)
    show(carry_out(request, built, keeping, sys.argv[1:], quiet=as_json), as_json)


def _refuse_foreign_options(context: typer.Context, kind: str) -> None:
    """Raise ValueError for an option that would be ignored."""
    for name, kinds in BELONGS.items():
        source = context.get_parameter_source(name)
        if kind not in kinds and source is not None and source.name == "COMMANDLINE":
            option = "async" if name == "asynchronous" else name.replace("_", "-")
            raise ValueError(f"--{option} means nothing for {kind}; it is for {' and '.join(sorted(kinds))}")


def _need(request: Request) -> None:
    """Raise OSError with what to do, before anything is begun."""
    need_root_and_tools("capture", captures=True)
    if which("editcap") is None:
        raise FileNotFoundError("editcap is not installed: run sudo ./gradwire setup")
    if request.training and find_spec("torch") is None:
        raise FileNotFoundError(
            "ddp and ps need PyTorch, which is not installed: run sudo ./gradwire setup --live"
        )
    if not request.training and which(request.command[0]) is None:
        raise FileNotFoundError(f"{request.command[0]}: no such program")

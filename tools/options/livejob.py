"""The options of a live training job, which `capture` and `trust` share, and the request they make."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Annotated

import typer
from typer.exceptions import TyperException

from gradwire import COMMAND
from gradwire.emu.capturing.request import MAX_LIMIT_S, MAX_SNAPLEN, MIN_SNAPLEN, CaptureRequest
from gradwire.emu.training.options import MODELS, TrainingOptions
from gradwire.planning.fabrics.spec import is_file
from gradwire.tools.options.common import parse_slow
from gradwire.tools.options.given import refuse_foreign
from gradwire.tools.thismachine import need_root_and_tools

DDP, PS, PROGRAM = "ddp", "ps", "a program"
DDP_PANEL, PS_PANEL = "ddp: data-parallel training", "ps: parameter servers"
MAX_TRAININGS = 99  # on one fabric
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
    "slow": {DDP, PS},
    "once": {PROGRAM},
}

_MODEL_HELP = "; ".join(f"{name}: {count:,} parameters" for name, count in MODELS.items())

LiveJobArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="ddp | ps | -- CMD…",
        help="A built-in PyTorch job (ddp: data-parallel, ps: parameter servers), or -- and your own "
        "command.",
        show_default=False,
    ),
]
RanksOption = Annotated[int, typer.Option(help="Number of ranks of ddp or of your program; each has a host.")]
ModelOption = Annotated[
    str,
    typer.Option(
        metavar="|".join(MODELS), help=f"Model to train. {_MODEL_HELP}.", rich_help_panel=BUILT_IN_PANEL
    ),
]
TrainingIterationsOption = Annotated[
    int, typer.Option(help="Number of training iterations.", rich_help_panel=BUILT_IN_PANEL)
]
BatchOption = Annotated[
    int,
    typer.Option(
        help="Samples in each rank's batch; gpt always takes one sequence.", rich_help_panel=BUILT_IN_PANEL
    ),
]
TrainingSeedOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="Seed of the initial parameters and of the synthetic data.",
        rich_help_panel=BUILT_IN_PANEL,
    ),
]
BucketOption = Annotated[
    float | None,
    typer.Option(
        "--bucket-mib",
        help="Bucket size in MiB (DDP's bucket_cap_mb). Default: PyTorch's own, 1 for the first, then 25.",
        rich_help_panel=DDP_PANEL,
        show_default=False,
    ),
]
ServersOption = Annotated[
    int,
    typer.Option(
        min=1, help="Number of servers; each holds a part of the parameters.", rich_help_panel=PS_PANEL
    ),
]
WorkersOption = Annotated[int, typer.Option(min=1, help="Number of workers.", rich_help_panel=PS_PANEL)]
AsyncOption = Annotated[
    bool,
    typer.Option(
        "--async",
        help="A server answers each push at once, instead of waiting for the pushes of all workers.",
        rich_help_panel=PS_PANEL,
    ),
]
LiveSlowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slow",
        metavar="RANK=×FACTOR",
        help="Slow one rank of the live job down: with 3=×2 rank 3 takes twice as long, as it sleeps after "
        "it computes. Repeatable.",
        rich_help_panel=BUILT_IN_PANEL,
        show_default=False,
    ),
]
OnceOption = Annotated[
    bool,
    typer.Option(
        "--once",
        help="Run CMD on the first host only; it starts the other ranks itself, as mpirun does. "
        "It can use $GRADWIRE_RSH HOST CMD in place of ssh; Open MPI is set up to do so.",
        rich_help_panel=PROGRAM_PANEL,
    ),
]
LimitOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="End the job after this many seconds; what was captured until then is kept.",
    ),
]
SnaplenOption = Annotated[
    int,
    typer.Option(
        min=MIN_SNAPLEN,
        max=MAX_SNAPLEN,
        help="Bytes of each packet to keep once the capture has been checked.",
    ),
]


BesideLiveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--beside",
        metavar="JOB",
        help="Train another job at the same time, on the next hosts. Give its arguments in quotes, "
        'e.g. "ddp --ranks 4 --model resnet18". Repeatable.',
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What to train: `words` as they were typed, and the options' values; see the options' own texts.

    `beside` are other jobs, on hosts of their own.
    """

    words: tuple[str, ...]
    ranks: int
    model: str
    iterations: int
    batch: int
    seed: int
    bucket_mib: float | None
    servers: int
    workers: int
    asynchronous: bool
    once: bool
    limit_s: float
    slow: tuple[str, ...] = ()
    beside: tuple["LiveJob", ...] = ()

    @property
    def jobs(self) -> tuple["LiveJob", ...]:
        return (self, *self.beside)

    @property
    def kind(self) -> str:
        return self.words[0] if len(self.words) == 1 and self.words[0] in {DDP, PS} else PROGRAM

    @property
    def is_built_in(self) -> bool:
        return self.kind != PROGRAM

    @property
    def n_ranks(self) -> int:
        return self.servers + self.workers if self.kind == PS else self.ranks

    def request(self, spec: str) -> CaptureRequest:
        """The job on the fabric `spec`.  Raise ValueError for an option out of its range."""
        training = None
        if self.is_built_in:
            training = TrainingOptions(
                model=self.model,
                iterations=self.iterations,
                servers=self.servers if self.kind == PS else 0,
                asynchronous=self.asynchronous,
                batch=self.batch,
                bucket_mib=self.bucket_mib,
                seed=self.seed,
                slow=tuple((rank, float(factor)) for rank, factor in parse_slow(self.slow).items()),
            )
        where = str(Path(spec).resolve()) if is_file(spec) else spec
        command = () if training else self.words
        first = CaptureRequest(self.n_ranks, where, training, command, self.once, self.limit_s)
        return first.with_beside([job.request(spec) for job in self.beside])


def parse_beside(texts: Sequence[str] | None) -> tuple[LiveJob, ...]:
    """The jobs that texts such as `ddp --ranks 4` name.  Raise ValueError with the text that names none."""
    return tuple(map(_parsed, texts or ()))


def _parsed(text: str) -> LiveJob:
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(_live_job)
    try:
        words = shlex.split(text)
        job = typer.main.get_command(app)(args=words, prog_name="--beside", standalone_mode=False)
    except typer.BadParameter as error:
        raise ValueError(f"--beside {text!r}: {error.format_message()}") from None
    except (TyperException, ValueError) as error:
        raise ValueError(f"--beside {text!r}: {error}") from None
    assert isinstance(job, LiveJob)
    return job


def _live_job(  # noqa: PLR0913, PLR0917 - a parameter for each option
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
) -> LiveJob:
    refuse_foreign_options(context, job)
    return LiveJob(
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
        limit_s=MAX_LIMIT_S,  # the first job's limit ends all
        slow=tuple(slow or ()),
    )


def refuse_foreign_options(context: typer.Context, job: Sequence[str]) -> None:
    """Raise ValueError for an option that would be ignored."""
    kind = job[0] if len(job) == 1 and job[0] in {DDP, PS} else PROGRAM
    refuse_foreign(context, kind, BELONGS)


def need_for_live(command: str, request: CaptureRequest) -> None:
    """Raise OSError with what to do, before anything is begun."""
    need_root_and_tools(command, captures=True)
    if which("editcap") is None:
        raise FileNotFoundError(f"editcap is not installed: run sudo {COMMAND} setup")
    if any(job.training for job in request.jobs) and find_spec("torch") is None:
        raise FileNotFoundError(
            f"ddp and ps need PyTorch, which is not installed: run sudo {COMMAND} setup --live"
        )
    for job in request.jobs:
        if not job.training and which(job.command[0]) is None:
            raise FileNotFoundError(f"cannot find the program {job.command[0]}")

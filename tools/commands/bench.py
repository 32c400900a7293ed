"""`gradwire bench`: measure a collective over a range of sizes, without a capture."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.options.bench import COLLECTIVES, BenchChoices
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, RunChoices
from gradwire.tools.options.completing import completing
from gradwire.tools.options.fields import takes_choices
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE, CHOICES, DEFAULTS


def _collective_help() -> str:
    """The names, and which algorithms each has."""
    allreduces = BY_COLLECTIVE["allreduce"]
    others = " and ".join(name for name in CHOICES if name not in allreduces)
    lines = [f"allreduce: all algorithms below but {others}; default {DEFAULTS['allreduce']}"]
    kinds_of: dict[tuple[str, ...], list[CollectiveKind]] = {}
    for kind in COLLECTIVES:
        if kind != "allreduce":
            kinds_of.setdefault(BY_COLLECTIVE[kind], []).append(kind)
    for names, kinds in kinds_of.items():
        default = DEFAULTS[kinds[0]]
        shown = [f"{name} (default)" if name == default else name for name in names]
        lines.append(f"{' and '.join(kinds)}: {', '.join(shown)}")
    return "\n".join(["The collective, each with its own algorithms.", *lines])


@takes_choices
def bench(
    context: typer.Context,
    collective: Annotated[
        str,
        typer.Argument(metavar="COLLECTIVE", help=_collective_help(), autocompletion=completing(COLLECTIVES)),
    ],
    output_file: Annotated[
        Path | None,
        typer.Option(
            "-J",
            "--output-file",
            metavar="FILE",
            help="Also write the result to this file as JSON, as nccl-tests does.",
            show_default=False,
        ),
    ] = None,
    sized: BenchChoices = BenchChoices(),  # noqa: B008 - nobody changes it
    matrix: MatrixChoices = MatrixChoices(fabric=["fat-tree:k=4,levels=2"], algorithm=[]),  # noqa: B008
    network: NetworkChoices = NetworkChoices(),  # noqa: B008
    run: RunChoices = RunChoices(repeat=5),  # noqa: B008
) -> None:
    """Measure a collective over a range of sizes, as nccl-tests does, on emulated fabrics.

    sudo gradwire bench allreduce -b 1MiB -e 8MiB --fabric fat-tree:k=4,levels=2,rate=50M

    In the result, `ratio` is the measured time divided by the shortest time that
    any fabric with these host links could reach, latency not counted. Columns, sizes
    (64K is 65,536 bytes, as 64KiB is) and the options -b -e -i -f -d -o -n -w -c -J
    are those of nccl-tests; the columns are of its in-place half. The defaults
    differ: -n 5, -w 0 and -f 2 here, -n 20, -w 1 and -i 1M there.

    Exit code 3: a row is not valid.
    """
    from gradwire.tools.work.bench import measure

    measure(context, collective, output_file, sized, matrix, network, run)

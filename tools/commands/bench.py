"""`gradwire bench`: measure a collective over a range of sizes, without a capture."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.jobplaces import n_workers_on
from gradwire.results.laboratory import planned
from gradwire.tools.blocksizes import read_block_sizes
from gradwire.tools.choices import MatrixChoices, NetworkChoices, RunChoices, refuse_given, takes_choices
from gradwire.tools.machine import need_root_and_tools
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.outputs import check_report, check_tables
from gradwire.traces.making.collectives import made_collective, made_uneven_alltoall
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE, CHOICES, DEFAULTS
from gradwire.traces.units import one_of, parse_nbytes
from gradwire.traces.workload import Workload

COLLECTIVES = tuple(BY_COLLECTIVE)
MAX_BENCH_NBYTES = 1 << 32


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
def bench(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    collective: Annotated[str, typer.Argument(metavar="COLLECTIVE", help=_collective_help())],
    begin: Annotated[
        str,
        typer.Option(
            "-b",
            "--begin",
            metavar="SIZE",
            help="Smallest size: bytes of each rank's buffer; of an allgather those that each ends with.",
        ),
    ] = "1MiB",
    end: Annotated[
        str | None, typer.Option("-e", "--end", metavar="SIZE", help="Largest size. Default: the smallest.")
    ] = None,
    factor: Annotated[
        int, typer.Option("-f", "--factor", min=2, help="Factor from one size to the next.")
    ] = 2,
    sizes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Blocks of an alltoall that are not all of one size, in place of -b, -e and -f: a table as "
            "CSV or JSON, in whose row r is how many bytes rank r has for each rank.",
            show_default=False,
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of ranks of each job. Default: the hosts of the fabric, divided among the jobs.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of equal jobs to run at the same time, each on its own hosts.")
    ] = 1,
    matrix: MatrixChoices = MatrixChoices(fabric=["fat-tree:k=4,levels=2"], algorithm=[]),  # noqa: B008
    network: NetworkChoices = NetworkChoices(),  # noqa: B008
    run: RunChoices = RunChoices(repeat=5),  # noqa: B008
) -> None:
    """Measure a collective over a range of sizes, as nccl-tests does, on emulated fabrics.

    gradwire bench allreduce -b 1MiB -e 8MiB --fabric fat-tree:k=4,levels=2,rate=50M

    In the result, `ratio` is the measured time divided by the shortest time that
    any fabric with these host links could reach, latency not counted. Sizes: 64K
    is 64,000 bytes, 64KiB is 65,536.

    Exit code 3: a row is not valid.
    """
    options = run.options
    kind = kind_of(collective)
    if not matrix.algorithm:
        matrix = replace(matrix, algorithm=[DEFAULTS[kind]])
    if sizes is None:
        title, uneven = f"{kind}, {begin} to {end or begin}", None
        counts = sizes_between(parse_nbytes(begin), parse_nbytes(end or begin), factor)
    else:
        refuse_given(context, ("begin", "end", "factor"), f"the sizes are in {sizes}")
        title, uneven, counts = f"{kind}, {sizes.name}", _uneven(kind, sizes, ranks), []
    todo = planned(
        [
            (cell, network.on(Experiment(workload, f"bench {kind}", beside=(workload,) * (jobs - 1))))
            for cell in matrix.cells()
            for workload in ([uneven] if uneven else _even(kind, cell, ranks, jobs, counts))
        ]
    )
    need_root_and_tools("bench", run.switch, run.captures)
    check_report(run.html)
    check_tables(run.parquet)
    folder = run.out or default_folder()
    described = about(title)
    results = carry_out(todo, options, folder, described, quiet=run.as_json)
    show(results, as_json=run.as_json, html=run.html, parquet=run.parquet)


def kind_of(collective: str) -> CollectiveKind:
    """Raise ValueError for a collective that there is not."""
    return one_of("collective", collective, COLLECTIVES)


def _uneven(kind: CollectiveKind, path: Path, n_ranks: int | None) -> Workload:
    """The alltoall of a table."""
    if kind != "alltoall":
        raise ValueError(f"--sizes {path}: {kind} has no blocks of several sizes; only an alltoall has")
    workload = made_uneven_alltoall(read_block_sizes(path))
    if n_ranks not in (None, workload.n_ranks):
        raise ValueError(
            f"--ranks {n_ranks}: {path} is a table of {workload.n_ranks} ranks; leave --ranks out"
        )
    return workload


def _even(
    kind: CollectiveKind, cell: Cell, n_ranks: int | None, n_jobs: int, counts: Sequence[int]
) -> list[Workload]:
    """A collective of each of these sizes."""
    n_ranks = n_ranks or n_workers_on(cell.fabric, cell.algorithm, n_jobs)
    if n_ranks < 2:
        raise ValueError(f"{n_jobs} jobs would have {n_ranks} ranks each; a job needs at least 2")
    return [made_collective(kind, n_ranks, nbytes) for nbytes in counts]


def sizes_between(begin: int, end: int, factor: int) -> list[int]:
    """`begin`, `begin * factor`, … up to `end`; whole float32 elements."""
    if not 4 <= begin <= end <= MAX_BENCH_NBYTES:
        raise ValueError(f"sizes must ascend, from 4 bytes to at most 4 GiB; got {begin} to {end}")
    counts: list[int] = []
    while begin <= end:
        counts.append(begin // 4 * 4)
        begin *= factor
    return counts

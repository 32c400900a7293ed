"""`gradwire bench`: measure a collective over a range of sizes, without a capture."""

from dataclasses import replace
from typing import Annotated

import typer

from gradwire.planning.experiment import Experiment
from gradwire.planning.jobplaces import n_workers_on
from gradwire.results.laboratory import planned
from gradwire.tools.choices import MatrixChoices, NetworkChoices, RunChoices, takes_choices
from gradwire.tools.machine import need_root_and_tools
from gradwire.tools.matrixrun import carry_out, check_page, default_folder, show
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.units import parse_nbytes
from gradwire.traces.workload import made_allreduce, made_alltoall

ALLREDUCE, ALLTOALL = "allreduce", "alltoall"
COLLECTIVES = (ALLREDUCE, ALLTOALL)
DEFAULT_ALGORITHM = {ALLREDUCE: "ring", ALLTOALL: PAIRWISE}
MAX_NBYTES = 1 << 32


@takes_choices
def bench(  # noqa: PLR0913, PLR0917 - a parameter for each option
    collective: Annotated[str, typer.Argument(metavar="COLLECTIVE", help=f"{' or '.join(COLLECTIVES)}.")],
    begin: Annotated[
        str,
        typer.Option("-b", "--begin", metavar="SIZE", help="Smallest size: bytes of data at each rank."),
    ] = "1MiB",
    end: Annotated[
        str | None, typer.Option("-e", "--end", metavar="SIZE", help="Largest size. Default: the smallest.")
    ] = None,
    factor: Annotated[
        int, typer.Option("-f", "--factor", min=2, help="Factor from one size to the next.")
    ] = 2,
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
    is 64,000 bytes, 64KiB is 65,536. The default algorithm of an allreduce is
    ring; an alltoall is always pairwise.

    Exit code 3: a row is not valid.
    """
    options = run.options
    if collective not in COLLECTIVES:
        raise ValueError(f"there is no collective {collective!r}; choose from {', '.join(COLLECTIVES)}")
    if not matrix.algorithm:
        matrix = replace(matrix, algorithm=[DEFAULT_ALGORITHM[collective]])
    if collective == ALLTOALL and matrix.algorithms() != [PAIRWISE]:
        raise ValueError(f"an alltoall is always {PAIRWISE}; leave --algorithm and --ina out")
    counts = sizes(parse_nbytes(begin), parse_nbytes(end or begin), factor)
    todo = planned(
        [
            (
                cell,
                network.on(
                    experiment_of(
                        collective, ranks or n_workers_on(cell.fabric, cell.algorithm, jobs), nbytes, jobs
                    )
                ),
            )
            for cell in matrix.cells()
            for nbytes in counts
        ]
    )
    need_root_and_tools("bench", run.switch, run.captures)
    check_page(run.html)
    folder = run.out or default_folder()
    rows = carry_out(todo, options, folder, quiet=run.as_json)
    show(rows, folder, run.as_json, run.html, f"{collective}, {begin} to {end or begin}")


def experiment_of(collective: str, n_ranks: int, nbytes: int, n_jobs: int) -> Experiment:
    """`n_jobs` equal jobs of `n_ranks` ranks each."""
    if n_ranks < 2:
        raise ValueError(f"{n_jobs} jobs would have {n_ranks} ranks each; a job needs at least 2")
    make = made_alltoall if collective == ALLTOALL else made_allreduce
    workload = make(n_ranks, nbytes)
    return Experiment(workload, f"bench {collective}", beside=(workload,) * (n_jobs - 1))


def sizes(begin: int, end: int, factor: int) -> list[int]:
    """`begin`, `begin * factor`, … up to `end`; whole float32 elements."""
    if not 4 <= begin <= end <= MAX_NBYTES:
        raise ValueError(f"sizes must ascend, from 4 bytes to at most 4 GiB; got {begin} to {end}")
    counts: list[int] = []
    while begin <= end:
        counts.append(begin // 4 * 4)
        begin *= factor
    return counts

"""What `bench` measures: a collective and its sizes.  Each field of BenchChoices is an option."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.jobplaces import n_workers_on
from gradwire.tools.blocksizes import read_block_sizes
from gradwire.tools.choices import NetworkChoices
from gradwire.traces.making.collectives import made_collective, made_uneven_alltoall
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE
from gradwire.traces.units import one_of, parse_nbytes
from gradwire.traces.workload import Workload

COLLECTIVES = tuple(BY_COLLECTIVE)
MAX_BENCH_NBYTES = 1 << 32
SIZES = ("begin", "end", "factor")  # the fields that a table of sizes takes the place of


@dataclass(frozen=True, slots=True)
class BenchChoices:
    """Which sizes, and how many ranks and jobs."""

    begin: Annotated[
        str,
        typer.Option(
            "-b",
            "--begin",
            metavar="SIZE",
            help="Smallest size: bytes of each rank's buffer; of an allgather those that each ends with.",
        ),
    ] = "1MiB"
    end: Annotated[
        str | None, typer.Option("-e", "--end", metavar="SIZE", help="Largest size. Default: the smallest.")
    ] = None
    factor: Annotated[
        int, typer.Option("-f", "--factor", min=2, help="Factor from one size to the next.")
    ] = 2
    sizes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Blocks of an alltoall that are not all of one size, in place of -b, -e and -f: a table as "
            "CSV or JSON, in whose row r is how many bytes rank r has for each rank.",
            show_default=False,
        ),
    ] = None
    ranks: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of ranks of each job. Default: the hosts of the fabric, divided among the jobs.",
        ),
    ] = None
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of equal jobs to run at the same time, each on its own hosts.")
    ] = 1

    def title(self, kind: CollectiveKind) -> str:
        return f"{kind}, {self.sizes.name if self.sizes else f'{self.begin} to {self.end or self.begin}'}"

    def work(
        self, kind: CollectiveKind, cells: Sequence[Cell], network: NetworkChoices
    ) -> list[tuple[Cell, Experiment]]:
        """Every size in every cell, the sizes varying first.  Raise ValueError, OSError."""
        uneven = self._uneven(kind) if self.sizes else None
        counts = [] if uneven else sizes_between(parse_nbytes(self.begin), self._end_nbytes, self.factor)
        return [
            (cell, network.on(Experiment(workload, f"bench {kind}", beside=(workload,) * (self.jobs - 1))))
            for cell in cells
            for workload in ([uneven] if uneven else self._even(kind, cell, counts))
        ]

    @property
    def _end_nbytes(self) -> int:
        return parse_nbytes(self.end or self.begin)

    def _uneven(self, kind: CollectiveKind) -> Workload:
        """The alltoall of a table."""
        assert self.sizes is not None
        if kind != "alltoall":
            raise ValueError(
                f"--sizes {self.sizes}: {kind} has no blocks of several sizes; only an alltoall has"
            )
        workload = made_uneven_alltoall(read_block_sizes(self.sizes))
        n_ranks = workload.n_ranks
        if self.ranks not in (None, n_ranks):
            raise ValueError(
                f"--ranks {self.ranks}: {self.sizes} is a table of {n_ranks} ranks; leave --ranks out"
            )
        return workload

    def _even(self, kind: CollectiveKind, cell: Cell, counts: Sequence[int]) -> list[Workload]:
        """A collective of each of these sizes."""
        n_ranks = self.ranks or n_workers_on(cell.fabric, cell.algorithm, self.jobs)
        if n_ranks < 2:
            raise ValueError(f"{self.jobs} jobs would have {n_ranks} ranks each; a job needs at least 2")
        return [made_collective(kind, n_ranks, nbytes) for nbytes in counts]


def kind_of(collective: str) -> CollectiveKind:
    """Raise ValueError for a collective that there is not."""
    return one_of("collective", collective, COLLECTIVES)


def sizes_between(begin: int, end: int, factor: int) -> list[int]:
    """`begin`, `begin * factor`, … up to `end`; whole float32 elements."""
    if not 4 <= begin <= end <= MAX_BENCH_NBYTES:
        raise ValueError(f"sizes must ascend, from 4 bytes to at most 4 GiB; got {begin} to {end}")
    counts: list[int] = []
    while begin <= end:
        counts.append(begin // 4 * 4)
        begin *= factor
    return counts

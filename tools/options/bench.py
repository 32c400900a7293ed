"""What `bench` measures: a collective and its sizes.  Each field of BenchChoices is an option."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradwire.tools.options.choices import NetworkChoices
from gradwire.traces.schedules.dtypes import DTYPES, FLOAT32, DType, element_nbytes, nccl_name, parse_dtype
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE
from gradwire.traces.units import one_of, parse_size
from gradwire.traces.workload import MAX_RANKS, Workload

if TYPE_CHECKING:  # help pages need none of it
    from gradwire.planning.experiment import Cell, Experiment

COLLECTIVES = tuple(BY_COLLECTIVE)
MAX_BENCH_NBYTES = 1 << 32
MAX_SIZES = 1000
FACTOR = 2
_EITHER = re.compile(r"\s*[\d.]{1,22}\s*[kKmMgG][bB]\s*")
FLOAT32_NBYTES = element_nbytes(FLOAT32)
SIZES = ("begin", "end", "factor", "step")  # the fields that a table of sizes takes the place of
DATATYPES = {nccl_name(dtype): dtype for dtype in DTYPES}
# Of nccl-tests, beside the names of ours with a _ and with _perf.
NOT_HERE = ("gather", "scatter", "sendrecv", "hypercube", "alltoallv")


@dataclass(frozen=True, slots=True)
class BenchChoices:
    """Which sizes, and how many ranks and jobs."""

    begin: Annotated[
        str,
        typer.Option(
            "-b",
            "--begin",
            "--minbytes",
            metavar="SIZE",
            help="Smallest size: bytes of each rank's buffer; for an allgather, of its result.",
        ),
    ] = "1MiB"
    end: Annotated[
        str | None,
        typer.Option(
            "-e", "--end", "--maxbytes", metavar="SIZE", help="Largest size. Default: the smallest."
        ),
    ] = None
    factor: Annotated[
        int | None,
        typer.Option(
            "-f",
            "--factor",
            "--stepfactor",
            min=2,
            help=f"Factor from one size to the next. Default: {FACTOR}.",
            show_default=False,
        ),
    ] = None
    step: Annotated[
        str | None,
        typer.Option(
            "-i",
            "--step",
            "--stepbytes",
            metavar="SIZE",
            help="Bytes from one size to the next, in place of -f.",
        ),
    ] = None
    sizes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV or JSON table for an alltoall whose blocks differ in size, in place of -b, -e and -f: "
            "row r has the bytes that rank r sends to each rank.",
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
    datatype: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--datatype",
            metavar="TYPE",
            help=f"Type of the numbers by NCCL's name: {', '.join(DATATYPES)}. Sizes are bytes of that type. "
            "With --wire they are bytes of float32, and fewer are sent.",
        ),
    ] = None
    op: Annotated[
        str, typer.Option("-o", "--op", metavar="OP", help="How numbers are reduced; there is only sum.")
    ] = "sum"
    check_results: Annotated[
        int,
        typer.Option(
            "-c",
            "--check-results",
            metavar="N",
            help="Only 1: every run's results are checked, after its time is taken.",
        ),
    ] = 1

    @property
    def steps(self) -> dict[str, int]:
        """How sizes follow each other, as nccl-tests' JSON says it."""
        if self.sizes is not None:
            return {}
        return {"step_bytes": _size(self.step)} if self.step else {"step_factor": self.factor or FACTOR}

    def title(self, kind: CollectiveKind) -> str:
        sizes = self.begin if self.end in (None, self.begin) else f"{self.begin} to {self.end}"
        return f"{kind}, {self.sizes.name if self.sizes else sizes}"

    def work(
        self, kind: CollectiveKind, cells: "Sequence[Cell]", network: NetworkChoices
    ) -> "list[tuple[Cell, Experiment]]":
        """Every size in every cell, the sizes varying first.  Raise ValueError, OSError."""
        from gradwire.planning.experiment import Experiment

        self._check_reduction()
        dtype = self._dtype(network)
        network = replace(network, wire=dtype)
        uneven = self._uneven(kind) if self.sizes else None
        sent_nbytes = element_nbytes(dtype) if self.datatype is not None else FLOAT32_NBYTES
        counts = [] if uneven else [nbytes * FLOAT32_NBYTES // sent_nbytes for nbytes in self._counts()]
        return [
            (cell, network.on(Experiment(workload, f"bench {kind}", beside=(workload,) * (self.jobs - 1))))
            for cell in cells
            for workload in ([uneven] if uneven else self._even(kind, cell, counts))
        ]

    def _counts(self) -> list[int]:
        if self.factor is not None and self.step is not None:
            raise ValueError("-f and -i cannot be used together: give one of them")
        begin, end = _size(self.begin), _size(self.end or self.begin)
        if self.step is not None:
            return sizes_between(begin, end, step=_size(self.step))
        return sizes_between(begin, end, self.factor or FACTOR)

    def _check_reduction(self) -> None:
        """Raise ValueError for what nccl-tests has and gradwire has not."""
        if self.op != "sum":
            raise ValueError(
                f"--op {self.op}: gradwire only sums; other operations send the same bytes: leave --op out"
            )
        if self.check_results != 1:
            raise ValueError(
                f"-c {self.check_results}: every run is checked after its time is taken; leave -c out"
            )

    def _dtype(self, network: NetworkChoices) -> DType:
        if self.datatype is None:
            return parse_dtype(network.wire)
        dtype = DATATYPES[one_of("data type", self.datatype, DATATYPES)]
        if network.wire not in (FLOAT32, dtype):
            raise ValueError(f"--datatype {self.datatype} and --wire {network.wire} differ: give one of them")
        return dtype

    def _uneven(self, kind: CollectiveKind) -> Workload:
        """The alltoall of a table."""
        from gradwire.tools.options.blocksizes import read_block_sizes
        from gradwire.traces.making.collectives import made_uneven_alltoall

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

    def _even(self, kind: CollectiveKind, cell: "Cell", counts: Sequence[int]) -> list[Workload]:
        """A collective of each of these sizes."""
        from gradwire.planning.jobplaces import n_workers_on
        from gradwire.traces.making.collectives import made_collective

        n_ranks = self.ranks or n_workers_on(cell.fabric, cell.algorithm, self.jobs)
        if n_ranks > MAX_RANKS:
            raise ValueError(f"{n_ranks:,} ranks; gradwire plans at most {MAX_RANKS:,}")
        if n_ranks < 2:
            raise ValueError(f"{self.jobs} jobs would have {n_ranks} ranks each; a job needs at least 2")
        return [made_collective(kind, n_ranks, nbytes) for nbytes in counts]


def kind_of(collective: str) -> CollectiveKind:
    """Also by the name of nccl-tests' program, as `all_reduce_perf`.  Raise ValueError for another."""
    name = collective.removesuffix("_perf").replace("_", "")
    if name in NOT_HERE:
        raise ValueError(f"{collective}: gradwire has no {name}; it has {', '.join(COLLECTIVES)}")
    return one_of("collective", name if name in COLLECTIVES else collective, COLLECTIVES)


def _size(text: str) -> int:
    """Raise ValueError also for `64kB`, which nccl-tests reads as 65,536 bytes and gradwire as 64,000."""
    if _EITHER.fullmatch(text):
        binary = f"{text.strip()[:-1]}iB"
        raise ValueError(f"{text!r} counts by 1,024 in nccl-tests, by 1,000 in gradwire: write {binary}")
    return parse_size(text)


def sizes_between(begin: int, end: int, factor: int = 1, *, step: int = 0) -> list[int]:
    """`begin`, then each time `factor` as much and `step` bytes more, up to `end`; in float32 elements."""
    if end < begin:
        raise ValueError(f"--end of {end:,} bytes is less than --begin of {begin:,}: swap them")
    if not 4 <= begin <= end <= MAX_BENCH_NBYTES:
        raise ValueError(f"sizes go from 4 bytes to 4 GiB; got {begin:,} to {end:,} bytes")
    if factor < 2 and step < 4:
        raise ValueError(f"--step {step}: a step is at least 4 bytes, one float")
    counts: list[int] = []
    while begin <= end:
        if len(counts) == MAX_SIZES:
            raise ValueError(f"more than {MAX_SIZES:,} sizes: give a larger --step")
        counts.append(begin // 4 * 4)
        begin = begin * factor + step
    return counts

"""`gradwire bench`: a collective over a range of sizes, without a capture."""

from dataclasses import replace
from typing import Annotated

import typer

from emu.options import RunOptions
from planning.experiment import Job, cells
from planning.fabrics.spec import parse_fabric
from planning.trees.tree import DEFAULT_ELEMENTS, SWITCH_SLOTS
from results.laboratory import planned
from tools.aggregationoptions import ElementsOption, InaOption, SlotsOption, SwitchSlotsOption, with_ina
from tools.carry import (
    carry_out,
    check_page,
    default_folder,
    show,
)
from tools.machine import need_root_and_tools
from tools.options import (
    BenchAlgorithmsOption,
    CapturesOption,
    FabricsOption,
    FailOption,
    HtmlOption,
    JsonOption,
    LossOption,
    OutOption,
    PlacementsOption,
    RepeatOption,
    RerouteOption,
    RoutesListOption,
    SeedOption,
    SwitchOption,
)
from traces.schedules.expand import PAIRWISE
from traces.units import parse_nbytes
from traces.workload import made_allreduce, made_alltoall

ALLREDUCE, ALLTOALL = "allreduce", "alltoall"
COLLECTIVES = (ALLREDUCE, ALLTOALL)
DEFAULT_ALGORITHM = {ALLREDUCE: "ring", ALLTOALL: PAIRWISE}
MAX_NBYTES = 1 << 32


def bench(  # noqa: PLR0913, PLR0917 - a parameter for each option
    collective: Annotated[str, typer.Argument(help=f"{', '.join(COLLECTIVES)}.")],
    begin: Annotated[
        str, typer.Option("-b", "--begin", metavar="SIZE", help="Smallest size per rank.")
    ] = "1MiB",
    end: Annotated[
        str | None, typer.Option("-e", "--end", metavar="SIZE", help="Largest size. Default: the smallest.")
    ] = None,
    factor: Annotated[int, typer.Option("-f", "--factor", min=2, help="From one size to the next.")] = 2,
    ranks: Annotated[
        int | None, typer.Option(min=2, help="Number of ranks of a job. Default: all hosts.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="So many equal jobs at once, each on its own hosts.")] = 1,
    fabric: FabricsOption = ["fat-tree:k=4,levels=2"],  # noqa: B006 - Typer only reads it
    algorithm: BenchAlgorithmsOption = None,
    ina: InaOption = "off",
    placement: PlacementsOption = ["linear"],  # noqa: B006
    routes: RoutesListOption = ["ecmp"],  # noqa: B006
    repeat: RepeatOption = 5,
    seed: SeedOption = 0,
    fail: FailOption = None,
    loss: LossOption = None,
    reroute: RerouteOption = True,
    switch_slots: SwitchSlotsOption = SWITCH_SLOTS,
    slots: SlotsOption = None,
    elements: ElementsOption = DEFAULT_ELEMENTS,
    switch: SwitchOption = "gradwire",
    captures: CapturesOption = False,
    out: OutOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """A collective over a range of sizes, as nccl-tests does, on emulated fabrics.

    `ratio` is the time over the least any fabric with these host links could take, without latency.
    Sizes: 64K is 64,000 bytes, 64KiB is 65,536.
    """
    if collective not in COLLECTIVES:
        raise ValueError(f"no collective {collective!r}; there is {', '.join(COLLECTIVES)}")
    algorithms = with_ina(algorithm or [DEFAULT_ALGORITHM[collective]], ina)
    if collective == ALLTOALL and algorithms != [PAIRWISE]:
        raise ValueError(f"an alltoall is done {PAIRWISE}; leave --algorithm and --ina out")
    fabrics = [parse_fabric(text) for text in fabric]
    counts = sizes(parse_nbytes(begin), parse_nbytes(end or begin), factor)

    def job(n_ranks: int, nbytes: int) -> Job:
        return replace(
            job_of(collective, n_ranks, nbytes, jobs),
            seed=seed,
            fail=tuple(fail or ()),
            loss=tuple(loss or ()),
            switch_slots=switch_slots,
            slots=slots,
            elements=elements,
        )

    todo = planned(
        [
            (cell, job(ranks or len(cell.fabric.hosts) // jobs, nbytes))
            for cell in cells(fabrics, algorithms, placement, routes)
            for nbytes in counts
        ]
    )
    need_root_and_tools("bench", switch, captures)
    check_page(html)
    folder = out or default_folder()
    rows = carry_out(todo, RunOptions(repeat, switch, captures, reroute), folder, quiet=as_json)
    show(rows, folder, as_json, html, f"{collective}, {begin} to {end or begin}")


def job_of(collective: str, n_ranks: int, nbytes: int, n_jobs: int) -> Job:
    """`n_jobs` equal jobs of `n_ranks` ranks each."""
    if n_ranks < 2:
        raise ValueError(f"{n_jobs} jobs leave {n_ranks} hosts to each; a job needs 2 ranks")
    made = made_alltoall if collective == ALLTOALL else made_allreduce
    one = made(n_ranks, nbytes)
    return Job(one, f"bench {collective}", beside=(one,) * (n_jobs - 1))


def sizes(begin: int, end: int, factor: int) -> list[int]:
    """`begin`, `begin * factor`, … up to `end`; whole float32 elements."""
    if not 4 <= begin <= end <= MAX_NBYTES:
        raise ValueError(f"sizes go from 4 bytes to 4 GiB and upwards, got {begin} to {end}")
    counts: list[int] = []
    while begin <= end:
        counts.append(begin // 4 * 4)
        begin *= factor
    return counts

"""Every algorithm of every collective as real packets: right data, exact bytes, the plan's own messages.

    sudo .venv/bin/python -m benchmarks.collectives [COLLECTIVE ...] [--algorithm NAME]... [--ranks 8,6]
        [--size 128KiB]

A line each: elements that are wrong, whether each rank sent as many bytes as the plan says, whether the
messages in the captures are the plan's sends, and the time over the closed form.  The first three must be
right; times of so small sizes are the machine's own in part.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gradwire.emu import records
from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.results.laboratory import Laboratory
from gradwire.traces.making.collectives import made_collective, made_uneven_alltoall
from gradwire.traces.reader import open_trace
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import AS_CAPTURED, BY_COLLECTIVE, FAMILIES, PAIRWISE
from gradwire.traces.schedules.schedule import sent_nbytes
from gradwire.traces.units import parse_nbytes
from gradwire.traces.workload import Workload

OF_FAMILIES = (
    "ps:central",
    "ps:servers=2",
    "ps:colocated",
    "ps:hierarchical",
    "topk:0.01",
    "gtopk:0.01",
    "hitopk:0.01",
)
RATE = "rate=100M"
SPECS = {  # by ranks: where groups are asked for, with room for servers, where a grid is, and elsewhere
    8: (
        f"bigraph:n=4,m=2,{RATE}",
        f"bigraph:n=4,m=3,{RATE}",
        f"mesh:x=2,y=4,{RATE}",
        f"star:hosts=10,{RATE}",
    ),
    6: (f"bigraph:n=2,m=3,{RATE}", f"bigraph:n=2,m=4,{RATE}", f"mesh:x=2,y=3,{RATE}", f"star:hosts=8,{RATE}"),
}
_HEAD = (
    "collective     algorithm               ranks  fabric       wrong  bytes  messages  time / closed form"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collectives", nargs="*", metavar="COLLECTIVE", help="default: all")
    parser.add_argument("--algorithm", action="append", metavar="NAME", help="default: all")
    parser.add_argument("--ranks", default=",".join(map(str, SPECS)), help="of 8 and 6")
    parser.add_argument("--size", default="128KiB")
    arguments = parser.parse_args()
    print(_HEAD, flush=True)
    n_failed = 0
    with tempfile.TemporaryDirectory(prefix="gradwire-collectives-") as folder:
        laboratory = Laboratory(Path(folder), RunOptions(1, captures=True), lambda _: None, run)
        for n_ranks in map(int, arguments.ranks.split(",")):
            for kind in BY_COLLECTIVE:
                if kind in arguments.collectives or not arguments.collectives:
                    for name, workload in _jobs(kind, n_ranks, parse_nbytes(arguments.size)):
                        if name in (arguments.algorithm or (name,)):
                            n_failed += not _is_right(laboratory, kind, name, workload)
    sys.exit(f"{n_failed} were not right" if n_failed else 0)


def _jobs(kind: CollectiveKind, n_ranks: int, nbytes: int) -> Iterator[tuple[str, Workload]]:
    """Each algorithm and what it is to do; of alltoalls one of uneven blocks as well."""
    names = [name for name in BY_COLLECTIVE[kind] if name not in (AS_CAPTURED, *FAMILIES.values())]
    for name in (*names, *(OF_FAMILIES if kind == "allreduce" else ())):
        yield name, made_collective(kind, n_ranks, nbytes)
    if kind == "alltoall":
        uneven = (tuple((3 * src + 5 * dst) % 7 << 12 for dst in range(n_ranks)) for src in range(n_ranks))
        yield PAIRWISE, made_uneven_alltoall(tuple(uneven))


def _is_right(laboratory: Laboratory, kind: CollectiveKind, name: str, workload: Workload) -> bool:
    """Print the line of one algorithm."""
    spec = _spec(name, workload.n_ranks)
    head = f"{kind:13}  {name:22}  {workload.n_ranks:5}  {spec.partition(',')[0]:12}"
    try:
        plan = plan_of(Cell(parse_fabric(spec), name, "linear", "ecmp"), Experiment(workload, "benchmark"))
    except Refused as error:
        print(f"{head}  refused: {error}", flush=True)
        return True
    row = laboratory.row(plan)
    folder = Path(row.folder or "")
    repeats = records.load_repeats(folder)
    exact = all(list(repeat.sent_nbytes) == sent_nbytes(plan.schedule) for repeat in repeats)
    alike = _messages(plan, folder) == Counter(
        {key: count * len(repeats) for key, count in _sends(plan).items()}
    )
    ratio = f"{row.ratio_closed:.2f}" if row.ratio_closed else "no formula"
    print(f"{head}  {row.wrong:5}  {_word(exact)}  {_word(alike):8}  {ratio}", flush=True)
    return not row.wrong and exact and alike


def _spec(name: str, n_ranks: int) -> str:
    groups, racks, grid, star = SPECS[n_ranks]
    if name == "ps:hierarchical":
        return racks
    if name in ("hierarchical", "ina:leaf") or name.startswith("hitopk"):
        return groups
    return grid if name in ("hierarchical:grid", "2d-ring") or name.startswith("multitree") else star


def _word(is_so: bool) -> str:
    return "exact" if is_so else "WRONG"


def _sends(plan: Plan) -> Counter[tuple[int, int, int]]:
    """Source, destination and bytes."""
    return Counter((send.src, send.dst, send.nbytes) for send in plan.schedule.sends)


def _messages(plan: Plan, folder: Path) -> Counter[tuple[int, int, int]]:
    """The same, as the captures of all hosts show it."""
    if not plan.schedule.sends:  # switches do it all
        return Counter()
    trace = open_trace([folder / "captures"], None)
    data = trace.messages.where(trace.messages.is_data)
    ranks = {plan.fabric.ip(host): rank for rank, host in enumerate(plan.placement)}
    ends = [ranks[address] for address in data.addresses]
    return Counter(
        (ends[src], ends[dst], int(nbytes))
        for src, dst, nbytes in zip(data.src, data.dst, data.nbytes, strict=True)
    )


if __name__ == "__main__":
    main()

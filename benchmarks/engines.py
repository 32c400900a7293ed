"""What all engines say of the same plans: `.venv/bin/python -m benchmarks.engines [--run] [--large]`.

For 8 and 16 ranks on several fabrics, on hosts drawn at random and over hashed routes: the time by the fluid
model, and over it that by SimGrid (after `setup --simgrid`) and by ns-3, packet by packet (after
`setup --ns3`).  With --run, as root, the plans are also carried out on the emulated fabric, and the median of
the measured times is shown over the model's, then over the model's with hosts, and the verdict.  Of several
--seeds the means follow.  With --large up to 1,024 ranks, which only
SimGrid is asked about.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator
from math import nan
from pathlib import Path
from statistics import fmean

from gradwire.emu.engines import ns3, simgrid
from gradwire.emu.project import PROJECT
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_collective
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.units import parse_size

SMALL = (
    (8, "star:hosts=8,rate=50M"),
    (8, "bigraph:n=4,m=2,rate=50M"),
    (8, "fat-tree:k=4,rate=50M"),
    (8, "leaf-spine:leaves=4,spines=2,hosts=4,rate=50M"),
    (16, "fat-tree:k=4,rate=50M"),
    (16, "leaf-spine:leaves=4,spines=2,hosts=4,rate=50M"),
)
LARGE = ((128, "fat-tree:k=8"), (512, "leaf-spine:leaves=32,spines=16,hosts=16"), (1024, "fat-tree:k=16"))
ALGORITHMS = ("ring", "halving-doubling", "all-pairs", PAIRWISE, "tree:binomial")
OF_MANY = ("ring", "halving-doubling", "tree:binomial")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", action="store_true", help="also on the emulated fabric, as root")
    parser.add_argument("--large", action="store_true", help="also 128 to 1,024 ranks")
    parser.add_argument("--seeds", type=int, default=1, help="placements drawn for each plan")
    parser.add_argument("--bytes", type=parse_size, default=8 << 20, help="of the collective (8MiB)")
    parser.add_argument("--ranks", type=int, help="only with this many")
    parser.add_argument("--algorithm", action="append", help="only these; repeatable")
    parser.add_argument("--fabric", default="", help="only fabrics whose specs have this in them")
    given = parser.parse_args()
    simgrid.check_set_up()
    ns3.check_set_up()
    print(f"{'':73}    model         over the model")
    heads = f"{'ranks':5} {'fabric':45} {'algorithm':17} {'seed':4} {'s':>8}  SimGrid    ns-3"
    print(f"{heads}{'   emulation   with hosts' if given.run else ''}")
    for n_ranks, spec in SMALL + (LARGE if given.large else ()):
        if given.ranks not in {None, n_ranks} or given.fabric not in spec:
            continue
        for algorithm in ALGORITHMS if n_ranks <= SMALL[-1][0] else OF_MANY:
            if given.algorithm and algorithm not in given.algorithm:
                continue
            found: list[list[float]] = []
            for seed in range(given.seeds):
                plan = _plan(n_ranks, spec, algorithm, seed, given.bytes)
                print(f"{n_ranks:5} {spec:45} {algorithm:17} {seed:4}", end=" ", flush=True)
                found.append([])
                for figure, word in _figures(plan, is_large=n_ranks > SMALL[-1][0], run=given.run):
                    print(word, end="", flush=True)
                    found[-1].append(figure)
                print()
            if given.seeds > 1:
                means = [fmean(figures) for figures in zip(*found, strict=True)]
                print(f"{'mean':73} {means[0]:8.4f}", *(f"  {mean:7.5f}" for mean in means[1:]), sep="")


def _plan(n_ranks: int, spec: str, algorithm: str, seed: int, nbytes: int) -> Plan:
    """On hosts drawn at random, over hashed routes: what collides on links."""
    fabric = parse_fabric(spec)
    kind: CollectiveKind = "alltoall" if algorithm == PAIRWISE else "allreduce"
    return resolve(
        fabric,
        expand(made_collective(kind, n_ranks, nbytes), algorithm),
        algorithm=algorithm,
        placement="random",
        routes="ecmp",
        seed=seed,
        transport=fabric_transport(fabric),
    )


def _figures(plan: Plan, *, is_large: bool, run: bool) -> Iterator[tuple[float, str]]:
    """The model's time, and those of others over it, nan where there is none, each with its text; slow ones
    come one by one.
    """
    model_s = plan.prediction.fluid_s
    yield model_s, f"{model_s:8.4f}"
    by_simgrid = simgrid.simgrid_s(plan) / model_s
    yield by_simgrid, f"  {by_simgrid:7.5f}"
    yield (nan, "        -") if is_large else _by_packets(plan)
    if run and not is_large:
        yield from _measured(plan)


def _by_packets(plan: Plan) -> tuple[float, str]:
    try:
        found = ns3.packet_times(plan)
    except Refused:
        return nan, "  refused"
    drops = f" ({found.n_dropped} packets dropped)" if found.n_dropped else ""
    over = found.time_s / plan.prediction.fluid_s
    return over, f"  {over:7.5f}{drops}"


def _measured(plan: Plan) -> Iterator[tuple[float, str]]:
    """The median time of a run over the model's, then over the model's with hosts, with the verdict."""
    with tempfile.TemporaryDirectory(prefix="gradwire-engines-") as folder:
        file = Path(folder) / "plan.json"
        plans.save(plan, file)
        command = [
            str(PROJECT / "gradwire"),
            "replay",
            str(file),
            "--json",
            "--out",
            str(Path(folder) / "run"),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    (row,) = json.loads(done.stdout)
    if row["time_s"] is None:
        yield from ((nan, ""), (nan, f"  no time: {row['verdict']}"))
        return
    over = row["time_s"]["median"] / plan.prediction.fluid_s
    yield over, f"  {over:10.5f}"
    yield row["ratio_predicted"], f"  {row['ratio_predicted']:10.5f} {row['verdict']}"


if __name__ == "__main__":
    main()

"""What three engines say of the same plans: `.venv/bin/python -m benchmarks.engines [--run] [--large]`.

For 8 and 16 ranks on several fabrics, with --large up to 1,024: the time by the fluid model and by SimGrid
(after `setup --simgrid`), and how far apart they are.  With --run, as root, the plans are also carried out
with packets (links of 50 Mb/s, 8 MiB), and the measured time is shown over the model's, with the verdict.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from gradwire.emu.project import PROJECT
from gradwire.emu.simgrid.engine import check_set_up, simgrid_s
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_collective
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import PAIRWISE

NBYTES = 8 << 20
SMALL = (
    (8, "star:hosts=8,rate=50M"),
    (8, "bigraph:n=4,m=2,rate=50M"),
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
    parser.add_argument("--run", action="store_true", help="also with packets, as root")
    parser.add_argument("--large", action="store_true", help="also 128 to 1,024 ranks")
    parser.add_argument("--seeds", type=int, default=1, help="placements drawn for each plan")
    given = parser.parse_args()
    check_set_up()
    print(
        "ranks fabric                                   algorithm         seed   model s SimGrid s    apart"
    )
    for n_ranks, spec in SMALL + (LARGE if given.large else ()):
        for algorithm in ALGORITHMS if n_ranks <= SMALL[-1][0] else OF_MANY:
            for seed in range(given.seeds):
                plan = _plan(n_ranks, spec, algorithm, seed)
                model_s, other_s = plan.prediction.fluid_s, simgrid_s(plan)
                print(
                    f"{n_ranks:5} {spec:40} {algorithm:17} {seed:4} {model_s:9.5f} {other_s:9.5f} "
                    f"{100 * (other_s / model_s - 1):+7.3f} %{_measured(plan) if given.run else ''}",
                    flush=True,
                )


def _plan(n_ranks: int, spec: str, algorithm: str, seed: int) -> Plan:
    """On hosts drawn at random, over hashed routes: what collides on links."""
    fabric = parse_fabric(spec)
    kind: CollectiveKind = "alltoall" if algorithm == PAIRWISE else "allreduce"
    return resolve(
        fabric,
        expand(made_collective(kind, n_ranks, NBYTES), algorithm),
        algorithm=algorithm,
        placement="random",
        routes="ecmp",
        seed=seed,
        transport=fabric_transport(fabric),
    )


def _measured(plan: Plan) -> str:
    """The median time with packets over the model's, and the verdict."""
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
        return f"  no packets: {row['verdict']}"
    return f"  packets {row['time_s']['median'] / plan.prediction.fluid_s:.3f} {row['verdict']}"


if __name__ == "__main__":
    main()

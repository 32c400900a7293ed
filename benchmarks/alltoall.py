"""A pairwise alltoall, all flows posted: BiGraph against Clos, as real packets and by the fluid model.

    sudo .venv/bin/python -m benchmarks.alltoall [--rate 50M] [--size 8MiB] [--repeat 3]

On 32 hosts the BiGraph's traffic within a half crosses twice, and a link carries 40 flows where a host link
carries 31; on 16 hosts its fixed paths beat hashed ones on a fat-tree.
"""

import argparse
import tempfile
from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.traces.making.collectives import made_collective
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.units import parse_bps, parse_nbytes

PAIRS = (
    (("bigraph:n=8,m=4", "direct"), ("leaf-spine:leaves=8,spines=4,hosts=4", "planned")),
    (("bigraph:n=8,m=2", "direct"), ("fat-tree:k=4", "ecmp")),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--size", default="48MiB", help="bytes that each rank has")
    arguments = parser.parse_args()
    print("fabric                                routes    ratio  model  idle  wrong  verdict", flush=True)
    with tempfile.TemporaryDirectory(prefix="gradwire-alltoall-") as folder:
        laboratory = Laboratory(Path(folder), RunOptions(arguments.repeat), lambda _: None, run)
        for pair in PAIRS:
            (first, model), (second, other_model) = (_measured(laboratory, *each, arguments) for each in pair)
            assert first.time_s
            assert second.time_s
            measured = first.time_s.median / second.time_s.median
            print(
                f"{pair[0][0]} took {measured:.3f} times as long; by the model {model / other_model:.3f}\n",
                flush=True,
            )


def _measured(
    laboratory: Laboratory, spec: str, routes: str, arguments: argparse.Namespace
) -> tuple[Row, float]:
    """The row, and the fluid model's time with nominal rates and alpha 0."""
    fabric = parse_fabric(f"{spec},rate={parse_bps(arguments.rate)}")
    workload = made_collective("alltoall", len(fabric.hosts), parse_nbytes(arguments.size))
    plan = plan_of(Cell(fabric, PAIRWISE, "linear", routes), Experiment(workload, "benchmark"))
    row = laboratory.row(plan)
    model = plan.prediction.fluid_s / plan.prediction.bound_s
    print(
        f"{spec:36}  {routes:8}  {row.ratio:5.3f}  {model:5.3f}  {row.cpu_idle:4.2f}  {row.wrong:5}"
        f"  {row.verdict}",
        flush=True,
    )
    return row, plan.prediction.fluid_s


if __name__ == "__main__":
    main()

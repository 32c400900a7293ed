"""Hashed routes against the fluid model: halving-doubling on a fat-tree, one run per seed and placement.

    sudo .venv/bin/python -m benchmarks.ecmp_seeds [--seeds 10] [--rate 50M] [--size 16MiB]

Prints each run's time over the bound, what the fluid model says for its own paths, and the means.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from emu.options import RunOptions
from emu.spec import parse_fabric
from tools.experiment import Cell, Job, Laboratory, plan_of
from traces.units import parse_bps, parse_nbytes
from traces.workload import made_allreduce

FABRIC = "fat-tree:k=4,levels=2"
N_RANKS = 8


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0, 1, 2, ...")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--size", default="16MiB")
    arguments = parser.parse_args()
    fabric = parse_fabric(f"{FABRIC},rate={parse_bps(arguments.rate)}")
    workload = made_allreduce(N_RANKS, parse_nbytes(arguments.size))
    print("placement  seed  ratio  model  measured/model  idle  verdict")
    with tempfile.TemporaryDirectory(prefix="gradwire-seeds-") as name:
        laboratory = Laboratory(Path(name), RunOptions(arguments.repeat), _quiet)
        for placement in ("linear", "random"):
            ratios, models = [], []
            for seed in range(arguments.seeds):
                cell = Cell(fabric, "halving-doubling", placement, "ecmp")
                row = laboratory.row(plan_of(cell, Job(workload, "benchmark", seed)))
                assert row.ratio
                assert row.ratio_predicted
                assert row.cpu_idle is not None
                ratios.append(row.ratio)
                models.append(row.ratio / row.ratio_predicted)
                print(
                    f"{placement:9}  {seed:4}  {row.ratio:5.3f}  {models[-1]:5.3f}  "
                    f"{row.ratio_predicted:14.3f}  {row.cpu_idle:4.2f}  {row.verdict}",
                    flush=True,
                )
            print(f"{placement:9}  mean  {statistics.mean(ratios):5.3f}  {statistics.mean(models):5.3f}")


def _quiet(text: str) -> None:
    del text


if __name__ == "__main__":
    main()

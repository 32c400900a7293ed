"""Routes and placements against the ideal: halving-doubling on all hosts, as real packets.

    sudo .venv/bin/python -m benchmarks.routes [STUDY...] [--seeds 10] [--repeat 1] [--rate 50M]

Prints, for every run, the time over the bound (alpha 0, nominal rate), the same of the fluid model over the
plan's own paths, and the verdict; at the end of each study whether it is what it should be.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.units import parse_bps, parse_nbytes

FLUID_TOLERANCE = 0.15


@dataclass(frozen=True)
class Study:
    """One cell, over all seeds if any is drawn.

    `asked` says what its rows should be, and whether they are.
    """

    name: str
    fabric: str
    placement: str
    routes: str
    is_drawn: bool
    asked: Callable[[Sequence[Row]], tuple[str, bool]]


def at_most(limit: float) -> Callable[[Sequence[Row]], tuple[str, bool]]:
    def asked(rows: Sequence[Row]) -> tuple[str, bool]:
        worst = max(row.ratio or 0.0 for row in rows)
        return f"worst {worst:.3f}, at most {limit}", worst <= limit

    return asked


def as_the_model(low: float, high: float) -> Callable[[Sequence[Row]], tuple[str, bool]]:
    """Each run near the fluid model of its own paths, and their mean between these."""

    def asked(rows: Sequence[Row]) -> tuple[str, bool]:
        mean = statistics.mean(row.ratio or 0.0 for row in rows)
        furthest = max(abs((row.ratio_predicted or 0.0) - 1) for row in rows)
        summary = f"mean {mean:.3f}, {low} to {high}; furthest from the model {furthest:.1%}"
        summary += f", at most {FLUID_TOLERANCE:.0%}"
        return summary, low <= mean <= high and furthest <= FLUID_TOLERANCE

    return asked


STUDIES = (
    Study(
        "ecmp-8",
        "fat-tree:k=4,levels=2",
        "linear",
        "ecmp",
        is_drawn=True,
        asked=as_the_model(1.3, 1.7),
    ),
    Study("ecmp", "fat-tree:k=4", "random", "ecmp", is_drawn=True, asked=as_the_model(2.2, 2.8)),
    Study("planned", "fat-tree:k=4", "random", "planned", is_drawn=True, asked=at_most(1.15)),
    Study(
        "planned-clos",
        "leaf-spine:leaves=4,spines=4,hosts=4",
        "random",
        "planned",
        is_drawn=True,
        asked=at_most(1.08),
    ),
    Study("hdrm", "bigraph:n=8,m=2", "hdrm", "direct", is_drawn=False, asked=at_most(1.08)),
    Study("dmodk", "fat-tree:k=4", "linear", "dmodk", is_drawn=False, asked=at_most(1.08)),
)


def main() -> None:
    names = [study.name for study in STUDIES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", nargs="*", default=names, help=f"{', '.join(names)}; all unless given")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0, 1, 2, ...")
    parser.add_argument("--repeat", type=int, default=1, help="of each seed; of what has no seed, 3 times")
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--size", default="16MiB")
    arguments = parser.parse_args()
    unknown = set(arguments.study) - set(names)
    if unknown:
        parser.error(f"no study {min(unknown)!r}; there are {', '.join(names)}")
    print("study         seed  ratio  model  measured/model  idle  left out  wrong  verdict", flush=True)
    with tempfile.TemporaryDirectory(prefix="gradwire-routes-") as folder:
        for study in STUDIES:
            if study.name in arguments.study:
                _carry_out(study, Path(folder) / study.name, arguments)


def _carry_out(study: Study, folder: Path, arguments: argparse.Namespace) -> None:
    fabric = parse_fabric(f"{study.fabric},rate={parse_bps(arguments.rate)}")
    workload = made_allreduce(len(fabric.hosts), parse_nbytes(arguments.size))
    cell = Cell(fabric, "halving-doubling", study.placement, study.routes)
    repeats = arguments.repeat if study.is_drawn else 3 * arguments.repeat
    laboratory = Laboratory(folder, RunOptions(repeats), lambda _: None, run)
    rows = []
    for seed in range(arguments.seeds if study.is_drawn else 1):
        rows.append(row := laboratory.row(plan_of(cell, Experiment(workload, "benchmark", seed))))
        ratio, predicted = row.ratio or 0.0, row.ratio_predicted or 0.0
        print(
            f"{study.name:12}  {seed:4}  {ratio:5.3f}  {ratio / predicted:5.3f}  {predicted:14.3f}  "
            f"{row.cpu_idle:4.2f}  {row.left_out:8}  {row.wrong:5}  {row.verdict}",
            flush=True,
        )
    summary, is_met = study.asked(rows)
    is_valid = all(row.valid and row.wrong == 0 for row in rows)
    outcome = "met" if is_met and is_valid else "NOT MET"
    print(f"{study.name:12}  {summary}; all valid: {is_valid}: {outcome}\n")


if __name__ == "__main__":
    main()

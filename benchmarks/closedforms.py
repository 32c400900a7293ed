"""Do large allreduces take the times of their closed forms, as real packets?

    sudo .venv/bin/python -m benchmarks.closedforms [--size 16MiB] [--rate 50M] [--repeat 3] [--planned]

16 ranks, each algorithm where its form holds: on a star what meets on no cable, a ring and halving-doubling
on a fat-tree whose routes are planned, and on a BiGraph the ring that goes to and fro between its two sides,
halving-doubling with HDRM (EFLOPS, HPCA 2020) and MultiTree (ISCA 2021).  Times are over the closed form with
the alpha and beta of the fabric's calibration, wanted within 5 %.  --planned: the fluid model's times over
the forms with alpha 0, without packets or root.
"""

import argparse
import tempfile
from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.closedform import closed_time, nominal_costs
from gradwire.planning.plan import Plan
from gradwire.results.laboratory import Laboratory
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.units import parse_nbytes

N_RANKS = 16
MOST = 0.05  # from a closed form
STAR, FAT_TREE, BIGRAPH = "star:hosts=16", "fat-tree:k=4", "bigraph:n=8,m=2"
CASES = (  # fabric, algorithm, placement, routes
    (STAR, "ring", "linear", "ecmp"),
    (STAR, "halving-doubling", "linear", "planned"),
    (STAR, "all-pairs", "linear", "ecmp"),
    (STAR, "ps:colocated", "linear", "ecmp"),
    (FAT_TREE, "ring", "linear", "ecmp"),
    (FAT_TREE, "halving-doubling", "linear", "planned"),
    (BIGRAPH, "ring", "alternating", "direct"),
    (BIGRAPH, "halving-doubling", "hdrm", "direct"),
    (BIGRAPH, "multitree", "linear", "direct"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=parse_nbytes, default=16 << 20)
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--planned", action="store_true")
    arguments = parser.parse_args()
    experiment = Experiment(made_allreduce(N_RANKS, arguments.size), "benchmarks.closedforms")
    print(f"{'fabric':16} {'algorithm':17} {'placement':12} {'routes':8} over the form")
    for spec, algorithm, placement, routes in CASES:
        fabric = parse_fabric(f"{spec},rate={arguments.rate}")
        print(f"{spec:16} {algorithm:17} {placement:12} {routes:8}", end=" ", flush=True)
        plan = plan_of(Cell(fabric, algorithm, placement, routes), experiment)
        over, judged = planned(plan) if arguments.planned else measured(plan, arguments.repeat)
        print(f"{over:.3f}  {judged}{'' if abs(over - 1) <= MOST else '  NOT WITHIN 5 %'}", flush=True)


def planned(plan: Plan) -> tuple[float, str]:
    """The fluid model's time over the closed form's, and that nothing was sent."""
    closed_s = closed_time(plan, nominal_costs(plan)).time_s
    assert closed_s
    return plan.prediction.fluid_s / closed_s, "planned"


def measured(plan: Plan, repeats: int) -> tuple[float, str]:
    """The median time over the closed form's, and what the run says of itself."""
    with tempfile.TemporaryDirectory(prefix="gradwire-closedforms-") as name:
        row = Laboratory(Path(name) / "runs", RunOptions(repeats), lambda _: None, run).row(plan)
    assert row.ratio_closed
    return row.ratio_closed, f"{row.wrong} wrong  {row.verdict}"


if __name__ == "__main__":
    main()

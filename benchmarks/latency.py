"""Small allreduces whose messages have a latency, as real packets: do their steps alone decide?

    sudo .venv/bin/python -m benchmarks.latency [--delay 50ms] [--size 8KiB] [--repeat 3] [--planned]

A ring, halving-doubling with HDRM (EFLOPS, HPCA 2020) and MultiTree (ISCA 2021) among 16 ranks of
bigraph:n=8,m=2,rate=50M: times over closed forms, and the ring's time over the others'.  By the closed forms
that is 3.73 and 7.42 for 8 KiB and 50 ms.  --planned: in plans alone, without packets or root.
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
from gradwire.traces.units import parse_nbytes, parse_ns

FABRIC = "bigraph:n=8,m=2,rate=50M"
PLACEMENTS = {"ring": "alternating", "halving-doubling": "hdrm", "multitree": "linear"}
MOST = 0.1  # from a closed form


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--delay", default="50ms")
    parser.add_argument("--size", default="8KiB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--planned", action="store_true")
    arguments = parser.parse_args()
    experiment = Experiment(
        made_allreduce(16, parse_nbytes(arguments.size)),
        "benchmark",
        send_delay_ns=parse_ns(arguments.delay),
    )
    fabric, times_s, closed_s = parse_fabric(FABRIC), dict[str, float](), dict[str, float]()
    print("algorithm           time s  closed s  ratio  wrong  idle  verdict", flush=True)
    for name, placement in PLACEMENTS.items():
        plan = plan_of(Cell(fabric, name, placement, "direct"), experiment)
        closed_s[name] = closed_time(plan, nominal_costs(plan)).time_s or 0.0
        times_s[name] = plan.prediction.fluid_s
        judged = "    –     –  planned"
        if not arguments.planned:
            times_s[name], judged = measured(plan, arguments.repeat)
        figures = f"{times_s[name]:7.3f}   {closed_s[name]:7.3f}  {times_s[name] / closed_s[name]:5.3f}"
        print(f"{name:18} {figures}  {judged}", flush=True)
    for name in ("halving-doubling", "multitree"):
        ratio, expected = times_s["ring"] / times_s[name], closed_s["ring"] / closed_s[name]
        near = abs(ratio / expected - 1) <= MOST
        print(
            f"ring ÷ {name}: {ratio:.2f}, by closed forms {expected:.2f}{'' if near else '  NOT WITHIN 10 %'}"
        )


def measured(plan: Plan, repeats: int) -> tuple[float, str]:
    """The median time, and what the run says of itself."""
    with tempfile.TemporaryDirectory(prefix="gradwire-latency-") as name:
        row = Laboratory(Path(name) / "runs", RunOptions(repeats), lambda _: None, run).row(plan)
    assert row.time_s
    return row.time_s.median, f"{row.wrong:5}  {row.cpu_idle or 0:4.2f}  {row.verdict}"


if __name__ == "__main__":
    main()

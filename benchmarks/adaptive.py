"""Adaptive routes on Hedera's permutations, as real packets: how near to a non-blocking switch do they come?

    sudo .venv/bin/python -m benchmarks.adaptive [--strides 2,4,8] [--seeds 0,1] [--size 24MB] [--rate 50M]
        [--repeat 1] [--routes adaptive]

Every host of fat-tree:k=4 sends one message, and gets one: from the host a stride before it, or by a
bijection drawn from a seed (Al-Fares et al., NSDI 2010, section 6.3).  A non-blocking switch takes the bound
of the hosts' links; `settled` is when the controller moved flows for the last time.
"""

import argparse
import tempfile
from pathlib import Path
from random import Random

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.traces.schedules.names import AS_CAPTURED
from gradwire.traces.units import parse_bps, parse_nbytes
from gradwire.traces.workload import SCHEMA, Message, Start, Workload

FABRIC = "fat-tree:k=4"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strides", default="2,4,8")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--size", default="24MB")
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--routes", default="adaptive")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    fabric = parse_fabric(f"{FABRIC},rate={parse_bps(arguments.rate)}")
    n_ranks, nbytes = len(fabric.hosts), parse_nbytes(arguments.size)
    jobs = [
        *((f"stride {step}", shifted(n_ranks, step)) for step in _numbers(arguments.strides)),
        *((f"bijection {seed}", bijection(n_ranks, seed)) for seed in _numbers(arguments.seeds)),
    ]
    print("job           ratio  settled  retransmits  wrong  idle  verdict", flush=True)
    with tempfile.TemporaryDirectory(prefix="gradwire-adaptive-") as folder:
        laboratory = Laboratory(Path(folder), RunOptions(arguments.repeat), lambda _: None, run)
        for name, partners in jobs:
            experiment = Experiment(permuted(partners, nbytes), name)
            plan = plan_of(Cell(fabric, AS_CAPTURED, "linear", arguments.routes), experiment)
            print(line(name, laboratory.row(plan)), flush=True)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def shifted(n_ranks: int, stride: int) -> list[int]:
    return [(rank + stride) % n_ranks for rank in range(n_ranks)]


def bijection(n_ranks: int, seed: int) -> list[int]:
    """To whom each rank sends: to one other, and each gets from one."""
    random = Random(seed)
    while True:
        partners = random.sample(range(n_ranks), n_ranks)
        if all(src != dst for src, dst in enumerate(partners)):
            return partners


def permuted(partners: list[int], nbytes: int) -> Workload:
    """One message of every rank, all at once."""
    items = tuple(
        Message(tag=src, src=src, dst=dst, nbytes=nbytes, start=Start(rank=src))
        for src, dst in enumerate(partners)
    )
    return Workload(schema=SCHEMA, framing="none", n_ranks=len(partners), source="made", items=items)


def line(name: str, row: Row) -> str:
    settled = f"{row.settled_s.max:5.2f} s" if row.settled_s else "      -"
    return (
        f"{name:12}  {row.ratio:5.3f}  {settled}  {row.retransmits:11}  {row.wrong:5}  {row.cpu_idle:4.2f}"
        f"  {row.verdict}"
    )


if __name__ == "__main__":
    main()

"""How long large schedules take: `.venv/bin/python -m benchmarks.schedules`.

For each algorithm, each in a process of its own: its sends, the seconds to make them, to check that they do
what the job asks (`traces.schedules.correctness`), for the whole plan on `fat-tree:k=8` with `ecmp`, and to
write it as JSON; and the most memory that the process had.
"""

import json
import resource
from multiprocessing import get_context
from time import perf_counter

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import to_json
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand

GIB = 1 << 30
JOBS = (  # algorithm, ranks, allreduces of 1 GiB in all
    ("ring", 128, 1),
    ("ring", 128, 30),
    ("as-captured", 128, 1),
    ("halving-doubling", 128, 1),
    ("all-pairs", 128, 1),
    ("multitree", 128, 1),
    ("ring", 16, 100),
)


def main() -> None:
    print("algorithm         ranks  allreduces      sends  make s  check s  plan s  JSON s   MiB", flush=True)
    for job in JOBS:
        process = get_context("fork").Process(target=_print_figures, args=job)
        process.start()
        process.join()


def _print_figures(algorithm: str, n_ranks: int, count: int) -> None:
    print(_figures(algorithm, n_ranks, count), flush=True)


def _figures(algorithm: str, n_ranks: int, count: int) -> str:
    fabric = parse_fabric("fat-tree:k=8")
    workload = made_allreduce(n_ranks, GIB // count // 4 * 4, count=count)
    check_correct(expand(made_allreduce(4, 1024), "ring"))  # what is compiled is loaded
    if algorithm != "multitree":  # which is made for a fabric, by the plan
        begin = perf_counter()
        schedule = expand(workload, algorithm)
        made = perf_counter()
        check_correct(schedule)
        checked = perf_counter()
        times = f"{made - begin:6.2f}  {checked - made:7.2f}"
    else:
        times = "     –        –"
    begin = perf_counter()
    plan = plan_of(Cell(fabric, algorithm, "linear", "ecmp"), Experiment(workload, "benchmark"))
    planned = perf_counter()
    json.dumps(to_json(plan))
    written = perf_counter()
    most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return (
        f"{algorithm:16}  {n_ranks:5}  {count:10}  {len(plan.schedule.sends):9,}  {times}  "
        f"{planned - begin:6.2f}  {written - planned:6.2f}  {most_mib:4}"
    )


if __name__ == "__main__":
    main()

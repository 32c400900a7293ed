"""How far replays are from the truth: whole matrices of `gradwire trust`, on fabrics that bound the jobs.

    sudo .venv/bin/python -m benchmarks.trust [JOB ...] [--out DIR] [--repeat N] [--list]

Each job is trained live on five fabrics and each capture replayed on each: 25 rows a job, twice as many with
a job beside it.  Done when of each job the mean error is at most 3 %, the worst 6 %, and 90 % of the rows are
valid.  Of the mlp and of parameter servers all must be; of `mpi`, which is only run if it is named, as many
as there are fabrics.  An interrupted run goes on with the same --out.  Needs PyTorch (sudo ./gradwire setup
--live), and for MPI's two Open MPI with mpicc.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.emu.project import PROJECT
from gradwire.results.trustresult import Summary, TrustMatrix, TrustRow, load
from gradwire.tools.exits import NOT_VALID

MOST_MEAN, MOST_WORST, LEAST_VALID = 0.03, 0.06, 0.90
PROGRAM = PROJECT / "benchmarks" / "trust_mpi.c"


@dataclass(frozen=True, slots=True)
class Case:
    """A job's options, the ranks of all jobs, and rates at which links bound it but a run ends in minutes.

    `slow` and `fast` are rates of the two stars, such as "20M".  Fabrics of several switches have `fast`.
    A job of several rhythms has more `trainings` on each fabric, as each shows one of them.  `least_valid` is
    the share of its rows that must be valid.
    """

    options: tuple[str, ...]
    ranks: int
    slow: str
    fast: str
    program: tuple[str, ...] = ()
    trainings: int = 3
    least_valid: float = LEAST_VALID
    only_if_named: bool = False

    @property
    def fabrics(self) -> tuple[str, ...]:
        """Two stars, a leaf-spine with half of the hosts' rate between switches, a fat-tree, a BiGraph."""
        n, rate = self.ranks, self.fast
        half = f"{int(rate[:-1]) // 2}M"
        return (
            f"star:hosts={n},rate={self.slow}",
            f"star:hosts={n},rate={self.fast}",
            f"leaf-spine:leaves=2,spines=1,hosts={n // 2},rate={rate},uplink_rate={half}",
            f"fat-tree:k=4,levels=2,rate={rate}",
            f"bigraph:n=4,m=2,rate={rate}",
        )


RING = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4")
# So many iterations that the live time is known to a few per cent, and a matrix ends in 10 to 30 minutes.
CASES = {
    # At 100 Mb/s its ranks wait for two processors for a tenth of an iteration and more: see docs/trust.md.
    "mlp": Case(("ddp", "--ranks", "8", "--iterations", "40"), 8, "20M", "50M", least_valid=1.0),
    "resnet18": Case(("ddp", "--model", "resnet18", "--ranks", "4", "--iterations", "7"), 4, "200M", "300M"),
    "gpt": Case(("ddp", "--model", "gpt", "--ranks", "4", "--iterations", "7"), 4, "200M", "300M"),
    "ps": Case(
        ("ps", "--servers", "2", "--workers", "4", "--iterations", "25"), 6, "20M", "100M", least_valid=1.0
    ),
    "ps-async": Case(
        ("ps", "--servers", "2", "--workers", "4", "--async", "--iterations", "25"),
        6,
        "20M",
        "100M",
        trainings=5,
        least_valid=1.0,
    ),
    # Halving and doubling, Open MPI's own choice: many exchanges go one way after the other, a replay's as in
    # the capture; on another fabric such a row is not valid.
    "mpi": Case(
        ("--ranks", "4", "--once"),
        4,
        "20M",
        "50M",
        ("mpirun", "-np", "4"),
        least_valid=5 / 25,
        only_if_named=True,
    ),
    "mpi-ring": Case(("--ranks", "4", "--once"), 4, "20M", "50M", ("mpirun", "-np", "4", *RING)),
    # At 60 Mb/s the eight ranks' turns at two processors are 2 % of an iteration: see docs/benchmarks.md.
    "beside": Case(
        ("ddp", "--ranks", "4", "--iterations", "40", "--beside", "ddp --ranks 4 --iterations 40 --seed 1"),
        8,
        "20M",
        "40M",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "jobs", nargs="*", metavar="JOB", help=f"of {', '.join(CASES)}; all but mpi unless given"
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "trust")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the commands and leave")
    arguments = parser.parse_args()
    if unknown := set(arguments.jobs) - set(CASES):
        parser.error(f"no job {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    are_good = []
    for name in arguments.jobs or [name for name, case in CASES.items() if not case.only_if_named]:
        folder = (arguments.out / name).absolute()
        command = command_of(CASES[name], folder, arguments.repeat)
        print("$", shlex.join(command), flush=True)
        if not arguments.list:
            matrix = matrix_of(CASES[name], command, folder)
            are_good.append(is_good(name, matrix.rows, CASES[name].least_valid))
    sys.exit(0 if all(are_good) else NOT_VALID)


def command_of(case: Case, folder: Path, repeats: int) -> list[str]:
    fabrics = [word for spec in case.fabrics for word in ("--fabric", spec)]
    where = ["--trainings", str(case.trainings), "--repeat", str(repeats), "--out", str(folder)]
    program = ["--", *case.program, str(folder.with_name("trust_mpi"))] if case.program else []
    return [str(PROJECT / "gradwire"), "trust", *case.options, *fabrics, *where, *program]


def matrix_of(case: Case, command: Sequence[str], folder: Path) -> TrustMatrix:
    if case.program:
        compile_program(folder.with_name("trust_mpi"))
    code = subprocess.run(command, check=False).returncode
    if code not in {0, NOT_VALID}:
        sys.exit(code)
    return load(folder)


def compile_program(target: Path) -> None:
    if shutil.which("mpicc") is None:
        sys.exit("mpi needs Open MPI: apt-get install openmpi-bin libopenmpi-dev")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mpicc", "-O2", "-o", str(target), str(PROGRAM)], check=True)


def is_good(name: str, rows: Sequence[TrustRow], least_valid: float = LEAST_VALID) -> bool:
    """Print the sum of a job's matrix; whether it is within the limits."""
    summary = Summary.of(rows)
    if summary.mean_error is None or summary.worst_error is None:
        print(f"{name}: no valid row")
        return False
    share = summary.valid / summary.rows
    print(
        f"{name}: mean |error| {summary.mean_error:.1%} (at most {MOST_MEAN:.0%}), "
        f"worst {summary.worst_error:+.1%} (at most {MOST_WORST:.0%}), "
        f"valid {summary.valid} of {summary.rows} ({share:.0%}, at least {least_valid:.0%})",
        flush=True,
    )
    is_near = summary.mean_error <= MOST_MEAN and abs(summary.worst_error) <= MOST_WORST
    return is_near and share >= least_valid


if __name__ == "__main__":
    main()

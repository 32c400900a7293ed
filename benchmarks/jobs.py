"""Made-up jobs take the times of their papers' closed forms, in plans and as packets.

    sudo .venv/bin/python -m benchmarks.jobs [guidelines|servers|easgd|easgd-bandwidth|gossip|dlrm …]
        [--planned] [--repeat 3] [--rate 50M] [--scale 1] [--workers 8]

guidelines: how many parameter servers hide what workers exchange under their computing (arXiv 1709.06622).
servers: synchronous ones, which hide nothing.  easgd: 50 layers whose messages wait for each other, so that
round robin communicates for 87 % of an iteration, and the synchronous variant with one message under the
computing (SC'17).  easgd-bandwidth: the same 87 % where bytes make them, not messages.  gossip: rounds as
long as the fullest rank has to receive (arXiv 1611.04581).  dlrm: uneven tables cost their largest number
over the mean (ISCA 2022).  With --planned nothing is sent, which needs no root; --scale makes all times
shorter or longer.  Everything is on a star: what is measured is the job, not the fabric.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import fmean

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.transport import payload_efficiency
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.traces.making.dlrm import dlrm
from gradwire.traces.making.easgd import Variant, easgd
from gradwire.traces.making.gossip import Pattern, gossip, pairs
from gradwire.traces.making.servers import parameter_servers
from gradwire.traces.units import parse_bps, show_s
from gradwire.traces.workload import Compute, Workload

COMMUNICATES = 0.87  # round robin's share of an iteration (SC'17, abstract)
LAYERS = 50
ALPHA_NS = 10_000_000  # of a message of easgd; tenfold what this machine needs itself
N_ITERATIONS = 6
N_SERVED = 5  # servers at most
PARTS = 16
SEEDS = 5


@dataclass(frozen=True, slots=True)
class Setting:
    """`beta_s` is the time of a byte on a host's link; times are multiplied by `scale`."""

    rate_bps: int
    n_workers: int
    scale: float

    @property
    def beta_s(self) -> float:
        return 8 / (self.rate_bps * payload_efficiency(1500))

    def nbytes(self, time_s: float) -> int:
        """Bytes that take so long on a host's link."""
        return round(time_s * self.scale / self.beta_s / 4) * 4


@dataclass(frozen=True, slots=True)
class Job:
    """A workload and how long one of its `n` parts (iterations, exchanges) should take.

    With `n` None the median iteration counts, from start to start.
    """

    name: str
    workload: Workload
    expected_s: float
    n: int | None = None
    algorithm: str = "as-captured"
    send_delay_ns: int = 0

    @property
    def compute_s(self) -> float:
        """How long a worker computes in an iteration."""
        of_rank: Counter[int] = Counter()
        for item in self.workload.items:
            if isinstance(item, Compute) and item.iteration == 0:
                of_rank[item.rank] += item.duration_ns
        return max(of_rank.values(), default=0) / 1e9

    def plan(self, setting: Setting) -> Plan:
        fabric = parse_fabric(f"star:hosts={self.workload.n_ranks},rate={setting.rate_bps}")
        experiment = Experiment(self.workload, self.name, send_delay_ns=self.send_delay_ns)
        return plan_of(Cell(fabric, self.algorithm, "linear", "ecmp"), experiment)

    def planned_s(self, plan: Plan) -> float:
        if self.n is not None:
            return plan.prediction.fluid_s / self.n
        assert plan.prediction.iteration_s is not None
        return plan.prediction.iteration_s

    def measured_s(self, row: Row) -> float | None:
        if self.n is None:
            return row.iteration_s.median if row.iteration_s else None
        return row.time_s.median / self.n if row.time_s else None


def guidelines(setting: Setting, staleness: int = 1) -> list[Job]:
    """The exchange of all workers takes 2.9 times as long on one server as they compute: the knee is at 3."""
    compute_s = 0.8 * setting.scale
    nbytes = setting.nbytes(2.9 * 0.8 / setting.n_workers)
    all_s = nbytes * setting.n_workers * setting.beta_s
    jobs = []
    for n_servers in range(1, N_SERVED + 1):
        workload = parameter_servers(
            n_servers,
            setting.n_workers,
            nbytes=nbytes,
            staleness=staleness,
            compute_ns=round(compute_s * 1e9),
            n_parts=PARTS,
            n_iterations=N_ITERATIONS,
        )
        each_s = all_s / n_servers
        expected_s = max(compute_s, each_s) if staleness else compute_s + each_s
        knee = ", the knee" if staleness and n_servers == ceil(all_s / compute_s) else ""
        jobs.append(Job(f"{n_servers} servers, staleness {staleness}{knee}", workload, expected_s))
    return jobs


def servers(setting: Setting) -> list[Job]:
    """The same without staleness."""
    return guidelines(setting, staleness=0)


def by_messages(setting: Setting) -> list[Job]:
    """Round robin's 87 % are 50 messages each way with an α each; a byte takes next to nothing."""
    alpha_s = ALPHA_NS * setting.scale / 1e9
    nbytes = LAYERS * 256
    one_way_s = LAYERS * alpha_s + nbytes * setting.beta_s
    compute_s = 2 * one_way_s * (1 - COMMUNICATES) / COMMUNICATES
    delay_ns = round(alpha_s * 1e9)
    steps = 2 * (setting.n_workers - 1).bit_length()
    sum_s = steps * (alpha_s + nbytes * setting.beta_s)
    return [
        _easgd("round-robin", setting, compute_s, nbytes, compute_s + 2 * one_way_s, LAYERS, delay_ns),
        _easgd("sync3", setting, compute_s, nbytes, max(compute_s, sum_s), 1, delay_ns),
    ]


def by_bytes(setting: Setting) -> list[Job]:
    """Round robin's 87 % are one message each way; the best sum of all weights takes 2(p-1)/p S β."""
    compute_s = 0.1 * setting.scale
    nbytes = setting.nbytes(0.1 * COMMUNICATES / (1 - COMMUNICATES) / 2)
    one_way_s = nbytes * setting.beta_s
    p = setting.n_workers
    sum_s = 2 * (p - 1) / p * one_way_s
    return [
        _easgd("round-robin", setting, compute_s, nbytes, compute_s + 2 * one_way_s),
        _easgd("sync3", setting, compute_s, nbytes, max(compute_s, sum_s), algorithm="ring"),
    ]


def _easgd(
    variant: Variant,
    setting: Setting,
    compute_s: float,
    nbytes: int,
    expected_s: float,
    n_messages: int = 1,
    send_delay_ns: int = 0,
    algorithm: str = "as-captured",
) -> Job:
    workload = easgd(
        variant,
        n_workers=setting.n_workers,
        nbytes=nbytes,
        compute_ns=round(compute_s * 1e9),
        n_messages=n_messages,
        n_iterations=setting.n_workers,
    )
    n = setting.n_workers if variant == "round-robin" else None
    return Job(f"{variant}, {n_messages} messages", workload, expected_s, n, algorithm, send_delay_ns)


def rounds(setting: Setting) -> list[Job]:
    """One round each, of drawn peers and of a permutation."""
    nbytes = setting.nbytes(0.3)
    jobs = []
    patterns: tuple[tuple[Pattern, int], ...] = (
        *(("push", seed) for seed in range(SEEDS)),
        ("pull", 0),
        ("permutation", 0),
    )
    for pattern, seed in patterns:
        workload = gossip(
            pattern, n_ranks=setting.n_workers, nbytes=nbytes, compute_ns=0, n_rounds=1, seed=seed
        )
        most = _most(pattern, setting.n_workers, seed)
        jobs.append(Job(f"{pattern}, seed {seed}: {most}", workload, most * nbytes * setting.beta_s, n=1))
    return jobs


def _most(pattern: Pattern, n_ranks: int, seed: int) -> int:
    """How many messages the rank receives, or of pulls sends, that has most."""
    ends = [src if pattern == "pull" else dst for src, dst in pairs(pattern, n_ranks, 0, seed)]
    return max(map(ends.count, ends))


def uneven(setting: Setting) -> list[Job]:
    """The same number of tables, evenly and with half of them on one rank; other ranks have the rest."""
    p = setting.n_workers
    batch, width = 16, 512
    unit = setting.nbytes(0.2 / (p - 1)) // (batch * width * 4) or 1
    compute_s = 0.1 * setting.scale
    even, skewed = [2 * unit] * p, [(p + 1) * unit, *[unit] * (p - 1)]
    jobs = []
    for tables in (even, skewed):
        workload = dlrm(
            tables,
            n_ranks=p,
            batch=batch,
            width=width,
            pooling=1,
            nbytes=4 * p,
            compute_ns=round(compute_s * 1e9),
            n_iterations=N_ITERATIONS,
        )
        one_way_s = (p - 1) * max(tables) * batch * width * 4 * setting.beta_s
        name = f"tables {tables[0]}, then {tables[1]} a rank"
        jobs.append(Job(name, workload, compute_s + 2 * one_way_s))
    return jobs


SECTIONS: dict[str, Callable[[Setting], list[Job]]] = {
    "guidelines": guidelines,
    "servers": servers,
    "easgd": by_messages,
    "easgd-bandwidth": by_bytes,
    "gossip": rounds,
    "dlrm": uneven,
}


def conclusion(section: str, jobs: Sequence[Job], times_s: Sequence[float]) -> str:
    """What the section's times say together."""
    if section.startswith("easgd"):
        one, other = (1 - job.compute_s / time_s for job, time_s in zip(jobs, times_s, strict=True))
        return (
            f"round robin communicates for {one:.0%}, sync3 for {other:.0%}; "
            f"an iteration of sync3 is {times_s[0] / times_s[1]:.2f} × as fast"
        )
    if section == "gossip":
        shares = [time_s / jobs[-1].expected_s for time_s in times_s]
        return f"{SEEDS} pushes: mean {fmean(shares[:SEEDS]):.2f} S β; the permutation {shares[-1]:.2f}"
    if section == "dlrm":
        sent_s = [time_s - job.compute_s for job, time_s in zip(jobs, times_s, strict=True)]
        expected = (jobs[1].expected_s - jobs[1].compute_s) / (jobs[0].expected_s - jobs[0].compute_s)
        return f"uneven tables communicate {sent_s[1] / sent_s[0]:.2f} × as long; max ÷ mean {expected:.2f}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help="default: all", choices=[[], *SECTIONS]
    )
    parser.add_argument("--planned", action="store_true", help="send nothing")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    setting = Setting(parse_bps(arguments.rate), arguments.workers, arguments.scale)
    with tempfile.TemporaryDirectory(prefix="gradwire-jobs-") as folder:
        laboratory = Laboratory(Path(folder), RunOptions(arguments.repeat), lambda _: None, run)
        for section in arguments.sections or SECTIONS:
            _print_section(section, setting, None if arguments.planned else laboratory)


def _print_section(section: str, setting: Setting, laboratory: Laboratory | None) -> None:
    """A line for each job, with what it took over its closed form; then what they say together."""
    print(f"{section:34} closed form       plan         packets  wrong  verdict", flush=True)
    jobs = SECTIONS[section](setting)
    times_s = []
    for job in jobs:
        plan = job.plan(setting)
        planned_s = job.planned_s(plan)
        line = f"{job.name:34} {show_s(job.expected_s):>11} {_over(planned_s, job)}"
        measured_s = None
        if laboratory is not None:
            row = laboratory.row(plan)
            measured_s = job.measured_s(row)
            line += f" {_over(measured_s, job)}  {row.wrong:5}  {row.verdict}"
        times_s.append(measured_s or planned_s)
        print(line, flush=True)
    print(f"{conclusion(section, jobs, times_s)}\n", flush=True)


def _over(time_s: float | None, job: Job) -> str:
    if time_s is None:
        return f"{'–':>15}"
    return f"{show_s(time_s):>8} {time_s / job.expected_s:6.3f}"


if __name__ == "__main__":
    main()

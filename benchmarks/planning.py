"""How long planning takes: `.venv/bin/python -m benchmarks.planning [SPEC] [--seed 0]`, `… --large [ROW…]`.

For each schedule, on hosts drawn at random: the seconds of the policy alone, of the whole plan (ports, paths,
checks, fluid model) and of the audit; what the worst phases take over what no routing could beat; and the
seconds that it takes to lead the flows of one failed cable round it.

With --large: whole `gradwire plan` commands of up to 4,096 ranks, each as a process of its own: the seconds
and the most memory beside what they may be at most, and the seconds of processor time, which other programs
on the machine disturb less.  Rows are named by their numbers; without any, all are taken.
"""

import argparse
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from gradwire.emu.project import PROJECT
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.placement import place
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import flows_of, resolve
from gradwire.planning.routing.planned import reassigned
from gradwire.planning.routing.policies import policy
from gradwire.planning.routing.reroute import without
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.workload import save

NBYTES = 16 << 20
POLICIES = ("planned", "ecmp")


class Row(NamedTuple):
    """A plan of `times` allreduces, or of one alltoall, of 1 GiB in all; with `bucket_nbytes` of one that is
    cut into buckets after the ranks have computed.  A mark is None for what is only to be known.
    """

    n_ranks: int
    algorithm: str
    fabric: str
    most_s: float | None = None
    most_mib: int | None = None
    times: int = 1
    bucket_nbytes: int | None = None


HUNDREDTH = (1 << 30) // 100 // 4 * 4
LARGE = (
    Row(128, "ring", "fat-tree:k=8", 5, 1024, times=100),
    Row(128, "ring", "fat-tree:k=8", 5, 1024, bucket_nbytes=HUNDREDTH + 4),
    Row(128, "halving-doubling", "fat-tree:k=8", 5, 1024, times=100),
    Row(1024, "ring", "fat-tree:k=16", 30, 4096),
    Row(1024, "ring", "bigraph:n=64,m=16", 30, 4096),
    Row(1024, "ring", "torus:x=32,y=32", 30, 4096),
    Row(1024, "halving-doubling", "fat-tree:k=16", 30, 4096),
    Row(1024, "halving-doubling", "torus:x=32,y=32", 30, 4096),
    Row(1024, PAIRWISE, "star:hosts=1024", 30, 4096),
    Row(512, PAIRWISE, "leaf-spine:leaves=32,spines=16,hosts=16"),
    Row(4096, "halving-doubling", "fat-tree:k=26", 60, 8192),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fabric", nargs="?", default="fat-tree:k=8")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", type=int, nargs="*", metavar="ROW", help="whole commands, from 0")
    given = parser.parse_args(arguments)
    if given.large is not None:
        _large([LARGE[number] for number in given.large] or LARGE)
        return
    fabric = parse_fabric(given.fabric)
    n_ranks = len(fabric.hosts)
    workload = made_allreduce(n_ranks, NBYTES)
    schedules = {name: expand(workload, name) for name in ("halving-doubling", "ring")}
    schedules["alltoall"] = expand(made_collective("alltoall", n_ranks, NBYTES), PAIRWISE)
    print("schedule          routes    flows  policy s  plan s  audit s  over bound  reroute s")
    for name, schedule in schedules.items():
        for routes in POLICIES:
            print(f"{name:16}  {routes:8} {_figures(fabric, schedule, routes, given.seed)}", flush=True)


def _large(rows: Sequence[Row]) -> None:
    heads = f"{'ranks':5} {'algorithm':17} {'fabric':40} {'times':>5} {'s':>7}   {'mark':7}"
    print(f"{heads} {'cpu s':>7} {'MiB':>6}   mark")
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="gradwire-planning-") as folder:
            used = _used(row, Path(folder))
        marks = [f"≤ {most:<5g}" if most else "–      " for most in (row.most_s, row.most_mib)]
        times = f"{row.times}" if row.bucket_nbytes is None else "cut"
        print(
            f"{row.n_ranks:5} {row.algorithm:17} {row.fabric:40} {times:>5} {used.s:7.1f}   {marks[0]}"
            f" {used.cpu_s:7.1f}  {used.mib:5}   {marks[1]}",
            flush=True,
        )


class Used(NamedTuple):
    """What a command took: seconds, seconds of processor time, and MiB of memory at most."""

    s: float
    cpu_s: float
    mib: int


def _used(row: Row, folder: Path) -> Used:
    """What the command of a row takes.  Raise CalledProcessError if it fails."""
    workload = folder / "made.workload.json"
    command = [str(PROJECT / "gradwire"), "plan", str(workload), "--algorithm", row.algorithm]
    command += ["--fabric", row.fabric]
    if row.bucket_nbytes is not None:
        make = ["make", "collective", "--nbytes", "1GiB", "--workers", str(row.n_ranks), "--iterations", "1"]
        subprocess.run([command[0], *make, "-o", str(workload)], check=True, stdout=subprocess.DEVNULL)
        command += ["--bucket-size", str(row.bucket_nbytes)]
    else:
        kind: CollectiveKind = "alltoall" if row.algorithm == PAIRWISE else "allreduce"
        save(made_collective(kind, row.n_ranks, (1 << 30) // row.times // 4 * 4, row.times), workload)
    begin = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return Used(perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10)


def _figures(fabric: Fabric, schedule: Schedule, routes: str, seed: int) -> str:
    hosts = place("random", fabric, schedule.n_ranks, seed)
    flows = list(flows_of(fabric, hosts, schedule, seed))
    begin = perf_counter()
    policy(routes)(fabric, hosts, flows, schedule, seed)
    routed = perf_counter()
    plan = resolve(
        fabric,
        schedule,
        algorithm="made",
        placement="random",
        routes=routes,
        seed=seed,
        transport=fabric_transport(fabric),
    )
    planned = perf_counter()
    loads = plan_load(plan)
    audited = perf_counter()
    _reroute(plan)
    return (
        f"{len(flows):6}  {routed - begin:8.2f}  {planned - routed:6.2f}  {audited - planned:7.2f}"
        f"  {loads.barrier_s / loads.barrier_bound_s:10.3f}  {perf_counter() - audited:9.2f}"
    )


def _reroute(plan: Plan) -> None:
    """Lead all flows round the last cable of the fabric, which joins two switches."""
    cable = plan.fabric.links[-1]
    left = without(plan.fabric, [cable])
    dead = plan.fabric.peers.keys() - left.peers.keys()
    affected = [number for number, flow in enumerate(plan.flows) if not dead.isdisjoint(flow.path)]
    reassigned(left, plan.placement, plan.flows, plan.schedule, affected)


if __name__ == "__main__":
    main()

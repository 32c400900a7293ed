"""Parameter servers as real packets and in plans: do times and bytes follow the papers' closed forms?

    sudo .venv/bin/python -m benchmarks.servers [PART ...] [--rate 25M] [--size 16MiB] [--chunk 64KiB]
        [--repeat 1] [--workers 8]

forms: each layout of 8 workers on a star, in units of S beta (PHub, BytePS).  racks: what a rack's uplinks
carry with servers in racks, beside colocated ones (PHub).  keys: ResNet-50's tensors among 16 workers of
which 8, 11 and 16 serve.  sweep: an iteration of T_c and K servers (Zou et al.).  curves: ResNet-50 and 16
workers for K = 1 to 16, by keys and by pieces, in plans alone: no packets, no root.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.transport import payload_efficiency
from gradwire.results.laboratory import Laboratory
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.algorithms.servernames import parse_layout
from gradwire.traces.schedules.algorithms.servers import largest_share
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.keys import RESNET50, keys_named
from gradwire.traces.units import parse_bps, parse_nbytes
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Start, Workload

MOST = 0.1  # from the closed form
KEYS = tuple(key.n_elements for key in keys_named(RESNET50))
KEYS_NBYTES = 4 * sum(KEYS)
KEYS_SCALE = Fraction(1, 16)  # 6.4 MB: at 20 Mb/s S beta is 2.7 s


@dataclass(frozen=True)
class Bench:
    """What all parts share; `work` is a folder for runs."""

    rate_bps: int
    nbytes: int
    chunk: str
    n_workers: int
    repeats: int
    work: Path

    def fabric(self, spec: str, rate_bps: int | None = None) -> Fabric:
        return parse_fabric(f"{spec},rate={rate_bps or self.rate_bps}")

    def measure(self, name: str, plan: Plan, unit_s: float, factor: float) -> bool:
        """Carry a plan out and print its time in units of `unit_s` beside `factor`; whether it is near."""
        options = RunOptions(self.repeats)
        row = Laboratory(self.work / name.replace("/", "_"), options, lambda _: None, run).row(plan)
        assert row.time_s is not None
        measured = row.time_s.median / unit_s
        near = abs(measured / factor - 1) <= MOST
        figures = f"{measured:7.3f}  {factor:7.3f}  {measured / factor:6.3f}  {row.ratio_predicted or 0:6.3f}"
        judged = f"{row.wrong:5}  {row.cpu_idle or 0:4.2f}  {row.verdict}"
        print(f"{name:34}  {figures}  {judged}{'' if near else '  NOT WITHIN 10 %'}", flush=True)
        return near and not row.wrong


def planned(fabric: Fabric, algorithm: str, workload: Workload, scale: Fraction = Fraction(1)) -> Plan:
    cell = Cell(fabric, algorithm, "linear", "ecmp")
    return plan_of(cell, Experiment(workload, "benchmark", scale=scale, keys=KEYS))


def unit_s(fabric: Fabric, rate_bps: int, nbytes: int) -> float:
    """S beta: the buffer over a worker's link."""
    return nbytes * 8 / (rate_bps * payload_efficiency(fabric.mtu_nbytes))


HEAD = "                                    measured  closed   ratio   pred.  wrong  idle  verdict"


def forms(bench: Bench) -> bool:
    """In units of S beta: central w, K servers max(1, w/K), ..., a PBox max(1, w/n)."""
    w = bench.n_workers
    cases = [
        (f"ps:central,chunk={bench.chunk}", 1, 1, float(w)),
        *((f"ps:servers={k},chunk={bench.chunk}", k, 1, max(1.0, w / k)) for k in (2, 4, 8)),
        (f"ps:colocated,servers=1,chunk={bench.chunk}", 0, 1, w - 1.0),
        (f"ps:colocated,chunk={bench.chunk}", 0, 1, 2 * (w - 1) / w),
        *((f"ps:central,chunk={bench.chunk}", 1, n, max(1.0, w / n)) for n in (2, w)),
    ]
    print(f"{w} workers, {bench.nbytes:,} bytes, time over S beta\n{HEAD}", flush=True)
    good = True
    for algorithm, n_servers, n_b, factor in cases:
        faster = f",rate@h{w}={n_b * bench.rate_bps}" if n_b > 1 else ""
        fabric = bench.fabric(f"star:hosts={w + n_servers}{faster}")
        plan = planned(fabric, algorithm, made_allreduce(w, bench.nbytes))
        name = f"{algorithm}{f' x{n_b} cable' if n_b > 1 else ''}"
        good &= bench.measure(name, plan, unit_s(fabric, bench.rate_bps, bench.nbytes), factor)
    return good


def racks(bench: Bench) -> bool:
    """Two racks of n workers: uplinks carry 2 n S (r-1)/r flat, and an n-th of that with a server in each.

    Only the bytes are judged: the closed form of the time has servers that exchange beside what they serve.
    """
    r, n = 2, bench.n_workers // 2
    workload = made_allreduce(r * n, bench.nbytes)
    flat = planned(_racks(bench, n), f"ps:colocated,chunk={bench.chunk}", workload)
    boxes = planned(_racks(bench, n + 1), f"ps:hierarchical,chunk={bench.chunk}", workload)
    loads = [_uplink_nbytes(plan) for plan in (flat, boxes)]
    print(f"uplinks of a rack of {n}: flat {loads[0]:,}, with servers in racks {loads[1]:,} bytes, ", end="")
    print(f"{loads[0] / loads[1]:.6f} times less; closed form {2 * n * bench.nbytes * (r - 1) // r:,}, {n}")
    across = 2 * (r - 1) / r
    print(HEAD, flush=True)
    fabric = boxes.fabric
    unit = unit_s(fabric, bench.rate_bps, bench.nbytes)
    bench.measure(f"ps:hierarchical,chunk={bench.chunk}", boxes, unit, n + across)
    return loads[0] == n * loads[1] == 2 * n * bench.nbytes * (r - 1) // r


def _racks(bench: Bench, hosts: int) -> Fabric:
    return bench.fabric(f"leaf-spine:leaves=2,spines=1,hosts={hosts}")


def _uplink_nbytes(plan: Plan) -> int:
    """Payload that leaves the first leaf upwards in the plan, against which a run's packets are checked."""
    return sum(
        link.nbytes
        for link in plan_load(plan).loads.values()
        if link.egress.node == "leaf0" and plan.fabric.peers[link.egress].node.startswith("spine")
    )


def keys(bench: Bench) -> bool:
    """(1 + s(p-2)) S beta for the largest share s of a server, of 16 workers of which K serve."""
    p, rate_bps = 16, min(bench.rate_bps, 20_000_000)
    fabric = bench.fabric(f"star:hosts={p}", rate_bps)
    workload = made_allreduce(p, KEYS_NBYTES)
    unit = unit_s(fabric, rate_bps, int(KEYS_NBYTES * KEYS_SCALE))
    print(
        f"ResNet-50 at 1/{1 / KEYS_SCALE}, {p} workers of which K serve, time over S beta\n{HEAD}", flush=True
    )
    good = True
    for k in (8, 11, 16):
        for what in (",keys", ""):
            name = f"ps:colocated,servers={k}{what}"
            layout = parse_layout(name.removeprefix("ps:"))
            share = largest_share(layout, k, KEYS_NBYTES, Hints(keys=KEYS))
            plan = planned(fabric, name, workload, KEYS_SCALE)
            good &= bench.measure(name, plan, unit, 1 + share * (p - 2))
    return good


def sweep(bench: Bench) -> bool:
    """Synchronous servers: an iteration takes T_c + S w/(K B), so there is no knee."""
    w, n_iterations = bench.n_workers, 3
    compute_s = 2 * unit_s(bench.fabric("star:hosts=2"), bench.rate_bps, bench.nbytes)
    print(f"{w} workers that compute for T_c = 2 S beta: (time of an iteration - T_c) / S beta\n{HEAD}")
    good = True
    for k in (1, 2, 4, 8):
        fabric = bench.fabric(f"star:hosts={w + k}")
        workload = iterations(w, bench.nbytes, compute_s, n_iterations)
        plan = planned(fabric, f"ps:servers={k},chunk={bench.chunk}", workload)
        unit = n_iterations * unit_s(fabric, bench.rate_bps, bench.nbytes)
        good &= bench.measure(f"K = {k}, T_c + S w/(K B)", plan, unit, 2 + max(1, w / k))
    return good


def iterations(n_ranks: int, nbytes: int, compute_s: float, n_iterations: int) -> Workload:
    """Every rank computes, and then all add up; again and again."""
    items: list[Item] = []
    for number in range(n_iterations):
        last = (len(items) - 1,) if items else ()
        items += [
            Compute(start=Start(rank=rank, after=last), duration_ns=int(compute_s * 1e9), iteration=number)
            for rank in range(n_ranks)
        ]
        computed = range(len(items) - n_ranks, len(items))
        starts = tuple(Start(rank=rank, after=(item,)) for rank, item in enumerate(computed))
        items.append(Collective(kind="allreduce", tag=number, nbytes=nbytes, iteration=number, starts=starts))
    return Workload(schema=SCHEMA, framing="none", n_ranks=n_ranks, source="made", items=tuple(items))


def curves(bench: Bench) -> bool:
    """Planned times over S beta: keys fall as 16/K up to 11 servers and stay at 1.48, pieces go on to 1."""
    p = 16
    fabric = bench.fabric("star:hosts=32")
    unit = unit_s(fabric, bench.rate_bps, KEYS_NBYTES)
    workload = made_allreduce(p, KEYS_NBYTES)
    names = ("keys,assign=largest-first", "keys,assign=round-robin", "chunk=32KiB")
    found: dict[str, list[float]] = {name: [] for name in names}
    print(f" K    16/K  {'  '.join(f'{name:>25}' for name in names)}", flush=True)
    for k in range(1, p + 1):
        for name in names:
            plan = planned(fabric, f"ps:servers={k},{name}", workload)
            found[name].append(plan.prediction.fluid_s / unit)
        print(f"{k:2}  {p / k:6.3f}  {'  '.join(f'{found[name][-1]:25.3f}' for name in names)}", flush=True)
    floor = p * max(KEYS) / sum(KEYS)
    first, in_turn, pieces = found.values()
    falls = all(abs(got / max(p / k, floor) - 1) <= 0.03 for k, got in enumerate(first, start=1))
    jumps = any(b > a for a, b in pairwise(in_turn))
    return falls and jumps and abs(pieces[-1] - 1) <= 0.01


PARTS: dict[str, Callable[[Bench], bool]] = {
    "forms": forms,
    "racks": racks,
    "keys": keys,
    "sweep": sweep,
    "curves": curves,
}


def _run(parts: list[str], bench: Bench) -> Iterator[str]:
    for name in parts:
        yield f"{name}: {'met' if PARTS[name](bench) else 'NOT MET'}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", default=list(PARTS), help=f"{', '.join(PARTS)}; all unless given")
    parser.add_argument("--rate", default="25M")
    parser.add_argument("--size", default="16MiB")
    parser.add_argument("--chunk", default="64KiB")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    if unknown := set(arguments.part) - set(PARTS):
        parser.error(f"no part {min(unknown)!r}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="gradwire-servers-") as folder:
        bench = Bench(
            parse_bps(arguments.rate),
            parse_nbytes(arguments.size),
            arguments.chunk,
            arguments.workers,
            arguments.repeat,
            Path(folder),
        )
        for line in _run(arguments.part, bench):
            print(line, flush=True)


if __name__ == "__main__":
    main()

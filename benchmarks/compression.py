"""What narrower numbers and compressed allreduces save, as real packets, beside what closed forms say.

    sudo .venv/bin/python -m benchmarks.compression [--size 4MiB] [--rate 50M] [--repeat 3]
        [--only wire,topk,gtopk,hitopk]

- wire: a ring among 8 ranks, as float16 and bfloat16 over as float32: 1/2.
- topk: over a ring, p k/d for k of d numbers kept: they meet at k/d = 1/p (MSTopK, arXiv 2010.10458).
- gtopk: over a ring, 2 lg p 8k over 2(p-1)/p 4d.
- hitopk: 4 switches with 2 ranks each, whose links upwards are half as fast; payload on those of one switch,
  as the switches counted it: (m-1) RHO d 8 bytes.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.records import load_repeats
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.results.audit.runaudit import audit_run
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.dtypes import FLOAT32, DType
from gradwire.traces.units import parse_bps, parse_nbytes

P = 8
SHARES = (Fraction(1, 16), Fraction(1, 8), Fraction(1, 4))
HITOPK_SHARE = Fraction(1, 128)
LEAVES, PER_LEAF = 4, 2


class Runs:
    """Rows of allreduces of one size, each measured once."""

    def __init__(self, folder: Path, repeat: int, rate_bps: int, nbytes: int) -> None:
        self._laboratory = Laboratory(folder, RunOptions(repeat), lambda _: None, run)
        self._rate_bps, self.nbytes = rate_bps, nbytes
        self._star: dict[tuple[str, DType], Row] = {}

    def on_star(self, algorithm: str, wire: DType = FLOAT32) -> Row:
        if (algorithm, wire) not in self._star:
            spec = f"star:hosts={P},rate={self._rate_bps}"
            self._star[algorithm, wire] = self._laboratory.row(self._plan(spec, algorithm, wire))
        return self._star[algorithm, wire]

    def on_leaves(self, algorithm: str) -> tuple[Plan, Row]:
        uplink_bps = self._rate_bps // 2
        spec = (
            f"leaf-spine:leaves={LEAVES},spines=2,hosts={PER_LEAF},rate={self._rate_bps},"
            f"uplink_rate={uplink_bps}"
        )
        plan = self._plan(spec, algorithm, FLOAT32)
        return plan, self._laboratory.row(plan)

    def _plan(self, spec: str, algorithm: str, wire: DType) -> Plan:
        fabric = parse_fabric(spec)
        workload = made_allreduce(len(fabric.hosts), self.nbytes)
        experiment = Experiment(workload, "benchmarks.compression", wire=wire)
        return plan_of(Cell(fabric, algorithm, "linear", "ecmp"), experiment)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="4MiB", help="bytes of float32 numbers that each rank has")
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="wire,topk,gtopk,hitopk")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    with tempfile.TemporaryDirectory(prefix="gradwire-compression-") as folder:
        runs = Runs(
            Path(folder),
            arguments.repeat,
            parse_bps(arguments.rate),
            parse_nbytes(arguments.size) // 512 * 512,
        )
        print("over a ring of float32      measured  closed form    off  wrong  verdict", flush=True)
        for name, row, expected in _over_a_ring(runs, only):
            print(_line(name, row, runs.on_star("ring"), expected), flush=True)
        if "hitopk" in only:
            for line in _uplinks(runs):
                print(line, flush=True)


def _over_a_ring(runs: Runs, only: Sequence[str]) -> Iterator[tuple[str, Row, float]]:
    """(name, row, its time over that of a ring by closed forms)."""
    if "wire" in only:
        wires: tuple[DType, ...] = ("float16", "bfloat16")
        for wire in wires:
            yield f"ring, {wire}", runs.on_star("ring", wire), 0.5
    for share in SHARES:
        if "topk" in only:
            yield f"topk:{share}", runs.on_star(f"topk:{share}"), float(P * share)
    for share in SHARES:
        if "gtopk" in only:
            steps = 2 * math.ceil(math.log2(P))
            yield (
                f"gtopk:{share}",
                runs.on_star(f"gtopk:{share}"),
                float(steps * 8 * share / (8 * (P - 1) / P)),
            )


def _line(name: str, row: Row, ring: Row, expected: float) -> str:
    assert row.time_s
    assert ring.time_s
    measured = row.time_s.median / ring.time_s.median
    verdict = f"{row.verdict}, ring {ring.verdict}"
    off = measured / expected - 1
    return f"{name:26}  {measured:8.3f}  {expected:11.3f}  {off:+5.1%}  {row.wrong:5}  {verdict}"


def _uplinks(runs: Runs) -> Iterator[str]:
    """The payload of each switch's links upwards in a repeat, and how far the switches' counts are off."""
    plan, row = runs.on_leaves(f"hitopk:{HITOPK_SHARE}")
    assert row.folder
    folder = Path(row.folder)
    repeats = load_repeats(folder)
    audited = audit_run(folder, plan, repeats, 0)
    assert audited
    expected = (LEAVES - 1) * HITOPK_SHARE * (runs.nbytes // 4) * 8
    for leaf in range(LEAVES):
        up = [
            link
            for link in audited.agreement.links
            if link.egress.node == f"leaf{leaf}" and plan.fabric.peers[link.egress].node.startswith("spine")
        ]
        payload = sum(link.payload_nbytes for link in up) // len(repeats)
        off = sum(link.off_nbytes for link in up)
        yield (
            f"leaf{leaf} upwards: {payload:,} bytes of payload a repeat, closed form {expected}; in "
            f"{len(repeats)} repeats {off:+} bytes beside it and its framing (TCP's options); "
            f"{row.wrong} wrong, {row.verdict}"
        )


if __name__ == "__main__":
    main()

"""Is a row valid that the machine made slow?  One small job, alone and beside real-time load.

    sudo .venv/bin/python -m benchmarks.disturbed [--rounds 12] [--only NAME ...]

A ring allreduce of four hosts at 20 Mb/s is run as it is four times a round, and once beside each load:
real-time programs that keep a processor in bursts, or keep one of two all the time, normal programs, and one
agent at a time that stands still for 100 ms.  Twelve rounds are 240 rows.  Each has a line, and at the end
each load.

Done when no valid row took over 3 % longer than the quiet ones in the middle, the quiet ones are valid, and
no sum is wrong.  Bursts of 15 to 20 ms once made rows 4 to 9 % slower that were called valid.
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.traces.making.collectives import made_allreduce

FABRIC = "star:hosts=4,rate=20M"
NBYTES = 512 << 10
REPEATS = 3
MOST_SLOWER = 0.03
PRIORITY = 50  # of real-time programs, ahead of all of a run's own
AT_MOST_S = 120.0  # a program that uses up a processor ends by itself
FROZEN_S, BETWEEN_S = 0.1, 1.0
QUIET, FROZEN = "quiet", "an agent stands still 100 ms each 1.1 s"
_HEAD = f"{'load':45} rows  valid  valid rows over quiet  the others"


@dataclass(frozen=True, slots=True)
class Bursts:
    """A program on each of `processors` is busy for `busy_ms`, then sleeps for `idle_ms`."""

    busy_ms: int
    idle_ms: int
    processors: tuple[int, ...] = (0, 1)
    is_real_time: bool = True

    @property
    def name(self) -> str:
        kind = "real-time" if self.is_real_time else "normal"
        where = "" if len(self.processors) > 1 else ", one processor"
        return f"{kind}, {self.busy_ms} ms busy, {self.idle_ms} idle{where}"


LOADS = (
    *(Bursts(5, 15), Bursts(8, 30), Bursts(10, 20), Bursts(12, 100), Bursts(15, 25), Bursts(15, 45)),
    *(Bursts(20, 40), Bursts(20, 60), Bursts(22, 40), Bursts(25, 200), Bursts(30, 90)),
    *(Bursts(15, 25, (1,)), Bursts(1000, 0, (1,)), Bursts(20, 60, is_real_time=False)),
    Bursts(1000, 0, is_real_time=False),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="loads with this in them")
    arguments = parser.parse_args()
    bursts = {load.name: load for load in LOADS}
    names = [name for name in (*bursts, FROZEN) if any(some in name for some in arguments.only or (name,))]
    rows: dict[str, list[Row]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="gradwire-disturbed-") as folder:
        laboratory = Laboratory(Path(folder), RunOptions(REPEATS), lambda _: None, run)
        for number in range(1, arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}", flush=True)
            for name in _with_quiet(names):
                load = (
                    _busy(bursts[name]) if name in bursts else _freezing() if name == FROZEN else ExitStack()
                )
                with load:
                    rows[name].append(_row(laboratory))
                print(f"  {name:45} {_line(rows[name][-1])}", flush=True)
    sys.exit(judge(rows))


def _with_quiet(names: Sequence[str]) -> Iterator[str]:
    """Four quiet rows among the loads."""
    for place, name in enumerate(names):
        if place % max(1, len(names) // 4) == 0:
            yield QUIET
        yield name


def _row(laboratory: Laboratory) -> Row:
    workload = made_allreduce(4, NBYTES)
    cell = Cell(parse_fabric(FABRIC), "ring", "linear", "ecmp")
    return laboratory.row(plan_of(cell, Experiment(workload, "benchmark")))


def _line(row: Row) -> str:
    ratio = f"{row.ratio:.3f}" if row.ratio else "  -  "
    return f"{ratio} {row.verdict}{''.join(f'; {reason}' for reason in row.reasons)}"[:150]


def judge(rows: dict[str, list[Row]]) -> int:
    """Print each load's rows; how many rows are wrongly valid, wrong, or quiet and not valid."""
    quiet = median(row.ratio for row in rows[QUIET] if row.ratio)
    print(f"\nquiet rows take {quiet:.3f} of their ideal\n\n{_HEAD}")
    n_bad = 0
    for name, some in rows.items():
        slower = [(row.valid, row.ratio / quiet - 1) for row in some if row.ratio]
        valid = [share for is_valid, share in slower if is_valid]
        others = [share for is_valid, share in slower if not is_valid]
        n_bad += sum(share > MOST_SLOWER for share in valid) + sum(bool(row.wrong) for row in some)
        n_bad += sum(not row.valid for row in some) if name == QUIET else 0
        print(f"{name:45} {len(some):4}  {len(valid):5}  {_range(valid):21}  {_range(others)}")
    n_rows = sum(map(len, rows.values()))
    print(f"\n{n_rows} rows; valid and over {MOST_SLOWER:.0%} slower, wrong, or quiet and not valid: {n_bad}")
    return 1 if n_bad else 0


def _range(shares: Sequence[float]) -> str:
    return f"{min(shares):+.1%} to {max(shares):+.1%}" if shares else "none"


@contextmanager
def _busy(load: Bursts) -> Iterator[None]:
    fork = multiprocessing.get_context("fork")
    programs = [fork.Process(target=_burn, args=(load, cpu), daemon=True) for cpu in load.processors]
    for program in programs:
        program.start()
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.join()


def _burn(load: Bursts, cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    if load.is_real_time:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    end_s = time.monotonic() + AT_MOST_S
    while time.monotonic() < end_s:
        busy_until_s = time.monotonic() + load.busy_ms / 1e3
        while time.monotonic() < busy_until_s:
            pass
        time.sleep(load.idle_ms / 1e3)


@contextmanager
def _freezing() -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=_freeze, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _freeze(ended: threading.Event) -> None:
    """Let one agent after the other of this program's run stand still."""
    while not ended.wait(BETWEEN_S):
        if agents := _agents():
            agent = random.choice(agents)
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGSTOP)
            try:
                time.sleep(FROZEN_S)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(agent, signal.SIGCONT)


def _agents() -> list[int]:
    """Those that come from this program and are in another network than their parents."""
    parents, networks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(words[1])
            networks[int(folder.name)] = os.readlink(folder / "ns" / "net")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return [
        pid
        for pid in ours & networks.keys()
        if (near := networks.get(parents[pid])) and near != networks[pid] != networks[os.getpid()]
    ]


if __name__ == "__main__":
    main()

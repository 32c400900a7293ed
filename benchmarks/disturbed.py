"""Is a row called valid that the machine made slow?  One small job, alone and beside load on the processors.

    sudo .venv/bin/python -m benchmarks.disturbed [--rounds 12] [--only WORDS ...]

In each round a ring allreduce of four hosts at 20 Mb/s runs four times alone and once beside each load, in
random order.  A load is a program on every processor, or on one of them, that is busy in bursts, at real-time
or normal priority, or one agent after the other is stopped for 100 ms.  Twelve rounds are 240 rows.

Done when no valid row took over 3 % longer than those alone (their median), all rows alone are valid, no sum
is wrong, and some rows are not valid: else the loads did nothing.  Bursts of 15 to 20 ms once made rows 4 to
9 % slower that were called valid.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.emu.watch import RunFailed
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import Row
from gradwire.tools.exits import NOT_VALID
from gradwire.traces.making.collectives import made_allreduce

FABRIC, NBYTES, REPEATS = "star:hosts=4,rate=20M", 512 << 10, 3
MOST_SLOWER = 0.03
ALONE_PER_ROUND = 4
PRIORITY = 50  # of real-time programs: ahead of all that a run has
AT_MOST_S = 120.0  # a program that keeps a processor busy ends by itself
STOOD_STILL_S, BETWEEN_S = 0.1, 0.4
ALONE, STOPPED = "alone", "an agent stands still for 100 ms each 0.5 s"
SESSION = "gradwire.emu.session"
UNTHROTTLED = "-1"  # real-time programs may keep a processor from all others for good


@dataclass(frozen=True, slots=True)
class Load:
    """A program on each processor, or on the last one only, busy for `busy_ms` and asleep for `idle_ms`."""

    busy_ms: int
    idle_ms: int
    on_one: bool = False
    is_real_time: bool = True

    @property
    def name(self) -> str:
        kind = "real-time" if self.is_real_time else "normal"
        times = f"{self.busy_ms} ms busy, {self.idle_ms} idle" if self.idle_ms else "always busy"
        return f"{kind}, {times}{', one processor' if self.on_one else ''}"


LOADS = (
    Load(5, 15),
    Load(8, 30),
    Load(10, 20),
    Load(12, 100),
    Load(15, 25),
    Load(15, 45),
    Load(20, 40),
    Load(20, 60),
    Load(22, 40),
    Load(25, 200),
    Load(30, 90),
    Load(15, 25, on_one=True),
    Load(90, 10, on_one=True),  # with none idle the kernel itself gets stuck, and the run waits
    Load(20, 60, is_real_time=False),
    Load(1000, 0, is_real_time=False),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument(
        "--only", action="append", metavar="WORDS", help="loads that have these in their name"
    )
    arguments = parser.parse_args()
    if Path("/proc/sys/kernel/sched_rt_runtime_us").read_text().strip() == UNTHROTTLED:
        sys.exit(
            "real-time programs are not throttled here (kernel.sched_rt_runtime_us): they could lock it up"
        )
    loads = {load.name: load for load in LOADS}
    names = [name for name in (*loads, STOPPED) if any(words in name for words in arguments.only or (name,))]
    random, rows = Random(1), defaultdict[str, list[Row | None]](list)
    with tempfile.TemporaryDirectory(prefix="gradwire-disturbed-") as folder:
        laboratory = Laboratory(Path(folder), RunOptions(REPEATS), lambda _: None, run)
        laboratory.calibration(parse_fabric(FABRIC))  # without a load
        for number in range(1, arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}", flush=True)
            order = [*names, *[ALONE] * ALONE_PER_ROUND]
            random.shuffle(order)
            for name in order:
                with beside(loads.get(name), name == STOPPED):
                    rows[name].append(measured(laboratory))
                print(f"  {name:45} {line(rows[name][-1])}", flush=True)
    sys.exit(judge(rows))


def measured(laboratory: Laboratory) -> Row | None:
    """None if the run failed."""
    cell = Cell(parse_fabric(FABRIC), "ring", "linear", "ecmp")
    try:
        return laboratory.row(plan_of(cell, Experiment(made_allreduce(4, NBYTES), "benchmark")))
    except RunFailed as error:
        print(f"  {error}", flush=True)
        return None


def line(row: Row | None) -> str:
    if row is None or row.ratio is None:
        return "failed"
    return f"{row.ratio:.3f} {'; '.join((row.verdict, *row.reasons))}"[:150]


def judge(rows: Mapping[str, Sequence[Row | None]]) -> int:
    """Print how far the rows beside each load are from those alone; the exit code."""
    alone = [row.ratio for row in rows[ALONE] if row and row.valid and row.ratio]
    if not alone:
        print("no row was valid that ran alone, so nothing can be said")
        return NOT_VALID
    usual = median(alone)
    print(f"\nrows alone take {usual:.3f} of their ideal; beside a load, longer than these by:")
    print(f"{'load':45} rows  valid  {'valid rows':17}  others")
    for name, each in rows.items():
        valid, others = (
            [row.ratio / usual - 1 for row in each if row and row.ratio and row.valid == is_valid]
            for is_valid in (True, False)
        )
        print(f"{name:45} {len(each):4}  {len(valid):5}  {least_to_most(valid):17}  {least_to_most(others)}")
    done = [row for each in rows.values() for row in each if row and row.ratio]
    slower = [row for row in done if row.ratio and row.ratio / usual - 1 > MOST_SLOWER]
    n_not_valid = sum(not row.valid for row in done)
    faults = {
        f"valid and over {MOST_SLOWER:.0%} slower": sum(row.valid for row in slower),
        "with wrong sums": sum(bool(row.wrong) for row in done),
        "alone and not valid": len(rows[ALONE]) - len(alone),
    }
    n_rows = sum(map(len, rows.values()))
    print(f"\n{n_rows} rows, {n_not_valid} not valid, {len(slower)} over {MOST_SLOWER:.0%} slower")
    for what, count in faults.items():
        print(f"{what}: {count}")
    return 0 if n_not_valid and not any(faults.values()) else NOT_VALID


def least_to_most(shares: Sequence[float]) -> str:
    return f"{min(shares):+.1%} to {max(shares):+.1%}" if shares else "none"


@contextmanager
def beside(load: Load | None, agents_stop: bool) -> Iterator[None]:
    """With its programs running.  Raise RuntimeError if they did not run all the time."""
    processors = sorted(os.sched_getaffinity(0)) if load else []
    fork = multiprocessing.get_context("fork")
    programs = [
        fork.Process(target=keep_busy, args=(load, cpu, os.getpid()), daemon=True)
        for cpu in (processors[-1:] if load and load.on_one else processors)
    ]
    try:
        for program in programs:
            program.start()
        with stopping_agents() if agents_stop else nullcontext():
            yield
        if not all(program.is_alive() for program in programs):
            raise RuntimeError("a program that should keep a processor busy has ended")
    finally:
        for program in programs:
            program.kill()
            program.join()


def keep_busy(load: Load, cpu: int, parent: int) -> None:
    os.sched_setaffinity(0, {cpu})
    if load.is_real_time:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    end_s = time.monotonic() + AT_MOST_S
    while time.monotonic() < end_s and os.getppid() == parent:
        busy_until_s = time.monotonic() + load.busy_ms / 1e3
        while time.monotonic() < busy_until_s:
            pass
        time.sleep(load.idle_ms / 1e3)


@contextmanager
def stopping_agents() -> Iterator[None]:
    """Raise RuntimeError if none was there to be stopped."""
    ended, stopped = threading.Event(), list[int]()
    thread = threading.Thread(target=stop_agents, args=(ended, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if not stopped:
        raise RuntimeError("no agent was found that could be stopped")


def stop_agents(ended: threading.Event, stopped: list[int]) -> None:
    """One after the other stands still, until `ended`."""
    random = Random(1)
    while not ended.wait(BETWEEN_S):
        if not (agents := agents_of(os.getpid())):
            continue
        with suppress(ProcessLookupError):
            agent = os.pidfd_open(random.choice(agents))
            try:
                signal.pidfd_send_signal(agent, signal.SIGSTOP)
                time.sleep(STOOD_STILL_S)
                signal.pidfd_send_signal(agent, signal.SIGCONT)
                stopped.append(agent)
            finally:
                os.close(agent)


def agents_of(pid: int) -> list[int]:
    """The agents of this process's run: the session's own children that are in their hosts' networks."""
    parents, sessions, networks = {}, set(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            networks[number] = os.readlink(folder / "ns" / "net")
            command = (folder / "cmdline").read_text(errors="replace")
            if SESSION in command and "unshare" not in command:
                sessions.add(number)
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return [
        each
        for each in sorted(sessions & below)
        if parents[each] in sessions and networks[each] != networks[parents[each]]
    ]


if __name__ == "__main__":
    main()

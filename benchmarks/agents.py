"""What a small send costs a rank: `.venv/bin/python -m benchmarks.agents [--nbytes 1024] [--sends 4000]`.

Two ranks, each a process, do allreduces one after the other on this machine's loopback, by the loop in C and
by the one in Python in turn.  Shown is the processor time of both ranks, the kernel's for them included, over
their sends, each of which one rank sends and the other receives and adds.  The best of --repeat counts.
"""

import argparse
import multiprocessing
import socket
import time
from collections.abc import Callable
from typing import Any

from gradwire.emu.replay import payload
from gradwire.emu.replay.aggregating import Aggregating
from gradwire.emu.replay.cloop import CompiledLoop
from gradwire.emu.replay.connection import RankConnection
from gradwire.emu.replay.loop import Loop
from gradwire.emu.replay.rankrepeat import RankRepeat
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nbytes", type=int, default=1024, help="of each send")
    parser.add_argument("--sends", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    plan = _plan(given.nbytes, given.sends)
    n_sends = len(plan.schedule.sends)
    loops: dict[str, Callable[[RankRepeat], Any]] = {
        "C": CompiledLoop,
        "Python": lambda own: Loop(own, Aggregating(plan, own.rank, ())),
    }
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(given.repeat):
        for name, made in loops.items():
            best[name] = min(best[name], _cpu_s(plan, made) / n_sends)
    for name, cpu_s in best.items():
        print(f"{name:8} {cpu_s * 1e6:7.1f} µs of a processor a send of {given.nbytes:,} bytes")
    print(f"C takes {best['C'] / best['Python']:.2f} of what Python takes")


def _plan(nbytes: int, n_sends: int) -> Plan:
    """As many allreduces of two ranks as have the sends: four each."""
    schedule = expand(made_allreduce(2, 2 * nbytes, count=max(1, n_sends // 4)), "ring")
    fabric = parse_fabric("star:hosts=2")
    return resolve(
        fabric,
        schedule,
        algorithm="ring",
        placement="linear",
        routes="ecmp",
        seed=0,
        transport=fabric_transport(fabric),
    )


def _cpu_s(plan: Plan, made: Callable[[RankRepeat], Any]) -> float:
    """Of both ranks together, from the common start to their ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = [socket.create_connection(server.getsockname()), server.accept()[0]]
    for end in ends:
        end.settimeout(0)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    start_ns = time.monotonic_ns() + 300_000_000
    ranks = [
        fork.Process(target=_rank, args=(plan, rank, ends[rank], made, start_ns, answers)) for rank in (0, 1)
    ]
    for rank in ranks:
        rank.start()
    cpu_s: float = sum(answers.get() for _ in ranks)
    for rank in ranks:
        rank.join()
    for end in ends:
        end.close()
    return cpu_s


def _rank(
    plan: Plan, rank: int, end: socket.socket, made: Callable[[RankRepeat], Any], start_ns: int, answers: Any
) -> None:
    own = RankRepeat.of(plan, rank, 0, [RankConnection(end, 1 - rank)], None)
    loop = made(own)
    time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / 1e9))
    before_s = time.process_time()
    loop.run(start_ns)
    if isinstance(loop, CompiledLoop):
        loop.keep_times()  # as Loop does while it runs
    cpu_s = time.process_time() - before_s
    if payload.count_wrong(plan.schedule, rank, own.buffers):
        raise RuntimeError(f"rank {rank}: wrong sums")
    answers.put(cpu_s)


if __name__ == "__main__":
    main()

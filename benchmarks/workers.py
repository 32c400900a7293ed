"""What a rank's side of aggregation costs: sendmmsg or UDP segmentation offload, turns in Python or in C.

    sudo .venv/bin/python -m benchmarks.workers [--rate 100M] [--mib 24]

Ranks on hosts of their own, each alone in a job: a small program at its switch's port (turnaround.c) sends
every contribution back as the result.  So what is measured is the hosts' work, with the kernel's share and
the links' shaping.  `woken` is a turn in Python whenever a packet is there, `rests` one after the pause that
the worker allows, `runs` the same in C (emu/aggregation/waiting.c).  The first lines are one rank on a link
that it cannot fill, the others eight at --rate.  CPUs are what the whole machine was busy: it should do
nothing else.
"""

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.emu.aggregation.worker import SEGMENTS, Worker
from gradwire.emu.interpreter import python
from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.network.net import emulated, prepare_namespace
from gradwire.emu.replay.wiring import tree_socket
from gradwire.planning.fabrics.fabric import HOST_PORT, Egress, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.transport import fabric_transport
from gradwire.planning.trees.tree import DEFAULT_ELEMENTS, Child, Node, Tree
from gradwire.traces.framing.aggregation import FIRST_PORT

SLOTS = 128  # what a tree gets at 100 Mb/s
TREE = Tree(1, (0,), (0,), FIRST_PORT, SLOTS, DEFAULT_ELEMENTS, (Node("star0", (Child(1),)),))
METHODS = {"sendmmsg": 1, "UDP_SEGMENT": SEGMENTS}
CASES = ((1, "10G"), (8, ""))  # ranks, rate: --rate where none is given
TURNS = ("woken", "rests", "runs")
LIMIT_S = 300

Figures = list[dict[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", default="100M")
    parser.add_argument("--mib", type=int, default=24, help="of float32 numbers that each rank gives")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        segments, turns, mib = arguments.rank
        rank(int(segments), turns, int(mib))
    elif arguments.inside:
        inside(arguments.inside, arguments.rate, arguments.mib)
    else:
        outside(arguments)


def outside(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="gradwire-workers-") as folder:
        program = Path(folder) / "turnaround.o"
        source = Path(__file__).with_name("turnaround.c")
        (headers,) = Path("/usr/include").glob("*-linux-gnu")
        command = ["clang", "-O2", "-g", "-target", "bpf", f"-I{headers}"]
        subprocess.run([*command, "-c", str(source), "-o", str(program)], check=True)
        options = ["--inside", str(program), "--rate", arguments.rate, "--mib", str(arguments.mib)]
        process = isolated("benchmarks.workers", options)
        try:
            process.wait(LIMIT_S)
        finally:
            stop(process)
        sys.exit(process.returncode)


def inside(program: Path, rate: str, mib: int) -> None:
    prepare_namespace()
    print(f"{'':24} turns  packets/s  of bound   CPUs  µs/packet   again", flush=True)
    for n_ranks, link_rate in CASES:
        with_hosts(program, n_ranks, link_rate or rate, mib)


def with_hosts(program: Path, n_ranks: int, rate: str, mib: int) -> None:
    fabric = parse_fabric(f"star:hosts={max(2, n_ranks)},rate={rate}")
    ends = [Egress(host, HOST_PORT) for host in fabric.hosts]
    ports = [interface(*fabric.peers[end]) for end in ends]
    names = [interface(*end) for end in ends]
    windows = Counter(dict.fromkeys([*names, *ports], TREE.slots * TREE.frame_nbytes))
    with emulated(fabric, fabric_transport(fabric), (), windows_at=windows) as net:
        for port in ports:
            tc(f"qdisc add dev {port} clsact")
            tc(f"filter add dev {port} ingress bpf da obj {program} sec classifier")
        pids = [host.pid for host in net.hosts][:n_ranks]
        for (method, segments), turns in product(METHODS.items(), TURNS):
            figures, cpus = measure(pids, segments, turns, mib)
            name = f"{n_ranks} at {rate}, {method:11} {turns:>7}"
            print(f"{name:30} {line(figures, cpus, fabric.rates[ends[0]])}", flush=True)


def tc(command: str) -> None:
    subprocess.run(["tc", *command.split()], check=True)


def measure(pids: list[int], segments: int, turns: str, mib: int) -> tuple[Figures, float]:
    """What the ranks say, and how many processors were busy until the last one was done."""
    me = python("benchmarks.workers", "--rank", *map(str, (segments, turns, mib)))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ranks = [subprocess.Popen([*enter(pid), *me], **pipes) for pid in pids]
    for each in ranks:
        assert each.stdout
        each.stdout.readline()  # it is ready
    began_s, start_ns = busy_s(), time.monotonic_ns()
    for each in ranks:
        assert each.stdin
        each.stdin.write("go\n")
        each.stdin.flush()
    figures = [json.loads(each.stdout.readline() or "{}") for each in ranks if each.stdout]
    cpus = (busy_s() - began_s) / (time.monotonic_ns() - start_ns) * 1e9
    for each in ranks:
        each.communicate(timeout=LIMIT_S)
        if each.returncode:
            sys.exit("a rank failed")
    return figures, cpus


def busy_s() -> float:
    """Of all processors since they were started."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def line(figures: Figures, cpus: float, rate_bps: int) -> str:
    rates = [each["packets"] / each["s"] for each in figures]
    share = min(rates) / (rate_bps / 8 / TREE.frame_nbytes)
    cost_us = cpus / sum(rates) * 1e6
    again = sum(each["again"] for each in figures)
    return f"{min(rates):10,.0f} {share:9.2f} {cpus:6.2f} {cost_us:10.2f} {again:7.0f}"


def rank(segments: int, turns: str, mib: int) -> None:
    """One sum, whose result must be what went out: its numbers are integers below 2^24."""
    n = mib * (1 << 18)
    data, into = np.arange(n, dtype=np.float32) % 1021, np.zeros(n, np.float32)
    behind = {Egress("star0", 1): (0,)}
    with tree_socket(TREE) as sock, select.epoll() as poll:
        poll.register(sock.fileno(), select.EPOLLIN)
        worker = Worker(sock, TREE, 0, 12_000_000, ranks_behind=behind, segments=segments)
        worker.begin(data, into, n)
        print("ready", flush=True)
        sys.stdin.readline()
        start_ns, writes = time.monotonic_ns(), False
        while not worker.step(time.monotonic_ns()):
            if writes != worker.wants_to_send:
                writes = worker.wants_to_send
                poll.modify(sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if writes else 0))
            if turns == "runs":
                if worker.run(poll.fileno(), start_ns + LIMIT_S * 10**9):
                    break
            else:
                if turns == "rests":
                    time.sleep(worker.pause_ns / 1e9)
                poll.poll(max(0.0, ((worker.due_ns or 0) - time.monotonic_ns()) / 1e9))
        seconds, counts = (time.monotonic_ns() - start_ns) / 1e9, worker.counts()
        figures = {"s": seconds, "packets": counts.received, "again": counts.retransmitted}
        print(json.dumps(figures), flush=True)
        worker.close()
    if not np.array_equal(data, into):
        sys.exit("wrong results")


if __name__ == "__main__":
    main()

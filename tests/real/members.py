"""The members of a tree in one process, their hosts and switches in the kernel, and raw sockets beside them.

Used `inside`.  Who is not stepped is as good as stopped; what a raw socket sends comes from its host's port.
"""

import ctypes
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from gradwire.emu.aggregation.worker import Worker, WorkerFailed
from gradwire.emu.interpreter import python
from gradwire.emu.replay.aggregating import round_trip_ns
from gradwire.emu.replay.sums import Floats
from gradwire.emu.replay.wiring import tree_socket
from gradwire.emu.switch.running import PIN, ports_file
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import AGGREGATOR_IP, AGGREGATOR_MAC, interface
from gradwire.planning.plan import Plan
from gradwire.planning.trees.treecheck import ranks_below
from tests.made_workers import check
from tests.real import lab
from tests.real.test_switch import scratch

ALL_PROTOCOLS = 3
LIMIT_S = 30.0
_CLONE_NEWNET = 0x40000000


@contextmanager
def at(host: str) -> Iterator[None]:
    """What is opened meanwhile is opened on the host."""
    libc = ctypes.CDLL(None, use_errno=True)
    back = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{host}", os.O_RDONLY)
    try:
        assert libc.setns(there, _CLONE_NEWNET) == 0
        yield
    finally:
        assert libc.setns(back, _CLONE_NEWNET) == 0
        os.close(back)
        os.close(there)


def raw(host: str, protocol: int = 0) -> socket.socket:
    """A raw socket hears nothing without a protocol."""
    with at(host):
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
        link.bind((interface(host, 0), protocol))
    return link


@contextmanager
def summing(plan: Plan) -> Iterator["Members"]:
    """The plan's switches, with its rules and losses, and a worker for each rank of its first tree."""
    with scratch() as folder, ExitStack() as stack:
        lab.cable_up(plan.fabric)
        for host in plan.fabric.hosts:
            far = ["ip", "neigh", "add", AGGREGATOR_IP, "lladdr", AGGREGATOR_MAC, "dev", interface(host, 0)]
            lab.run(*lab.on(host, *far))
        plans.save(plan, folder / "plan.json")
        command = python("gradwire.controller", str(folder / "plan.json"))
        command += ["--port", str(lab.OPENFLOW_PORT)]
        controller = stack.enter_context(lab.running(command, folder / "controller.log"))
        members = Members(plan, folder, controller)
        stack.callback(members.close)
        members.start_agent()
        controller.await_line("ready")
        yield members


class Members:
    """`workers` by rank; those in `stopped` are not stepped."""

    def __init__(self, plan: Plan, folder: Path, controller: lab.Child) -> None:
        self.plan, self.folder, self.controller = plan, folder, controller
        self.tree = plan.trees[0]
        self.stopped: set[int] = set()
        self._agent: ExitStack = ExitStack()
        self._stack = ExitStack()
        self.sockets: dict[int, socket.socket] = {}
        self.into: dict[int, Floats] = {}  # of the last sum
        self.workers: dict[int, Worker] = {}
        for rank in self.tree.members:
            self.begin_anew(rank)

    def start_agent(self) -> None:
        """The agent of the switches."""
        ports = ports_file(self.plan.fabric, self.plan.losses, loss_seed=self.plan.seed)
        (self.folder / "ports.json").write_text(json.dumps(ports))
        agent = self._agent.enter_context(
            lab.running(lab.agent_command(self.folder), self.folder / "agent.log")
        )
        for word in ("attached", "connected"):
            agent.await_line(word)

    def replace_agent(self) -> None:
        """Kill the agent, take away what it has left, start another: the controller tells it all again."""
        self._agent.close()
        Path(PIN).unlink()
        fabric = self.plan.fabric
        ports = [interface(switch, port) for switch in fabric.switches for port in fabric.ports[switch]]
        lab.run("tc", "-batch", "-", stdin="".join(f"qdisc del dev {name} clsact\n" for name in ports))
        self.start_agent()

    def begin_anew(self, rank: int) -> None:
        """Another process of the rank, which knows nothing of the first."""
        if rank in self.sockets:
            self.workers[rank].close()
            self.sockets[rank].close()
        with at(self.plan.placement[rank]):
            sock = self.sockets[rank] = tree_socket(self.tree)
        self.workers[rank] = Worker(
            sock,
            self.tree,
            rank,
            round_trip_ns(self.plan, self.tree),
            ranks_behind=ranks_below(self.plan.fabric, self.plan.placement, self.tree),
        )

    def close(self) -> None:
        self._agent.close()
        for rank, sock in self.sockets.items():
            self.workers[rank].close()
            sock.close()

    def counted(self) -> dict[str, dict[str, int]]:
        """What each switch has counted."""
        pools = lab.statistics(self.controller, self.folder / "switches.json")["pools"]
        return {pool["switch"]: pool["counts"] for pool in pools}

    def add_up(
        self, data: dict[int, Floats], disturb: Callable[[int], None] = lambda turn: None
    ) -> dict[int, str]:
        """One sum.  Returns what went wrong by rank: the worker's complaint, or that the sum is wrong."""
        n = len(data[0])
        self.into = into = {rank: np.full(n, np.nan, np.float32) for rank in self.tree.takers}
        for rank, worker in self.workers.items():
            worker.begin(data[rank], into[rank], n)
        complaints, ended = self._ended(disturb)
        for rank in ended:
            try:
                check(data, {rank: into[rank]}, self.tree.elements, self.tree.slots)
            except AssertionError as error:
                complaints[rank] = f"wrong: {error}"
        return complaints

    def _ended(self, disturb: Callable[[int], None]) -> tuple[dict[int, str], set[int]]:
        """Until each worker has its sum or has complained."""
        complaints: dict[int, str] = {}
        ended: set[int] = set()
        deadline, turn = time.monotonic() + LIMIT_S, 0
        while left := self.workers.keys() - self.stopped - ended - complaints.keys():
            disturb(turn)
            for rank in sorted(self.workers.keys() - self.stopped - complaints.keys()):
                try:
                    if self.workers[rank].step(time.monotonic_ns()):
                        ended.add(rank)
                except WorkerFailed as failed:
                    complaints[rank] = str(failed)
            turn += 1
            time.sleep(0.0005)
            if time.monotonic() > deadline:
                return complaints | dict.fromkeys(left, "hangs"), ended
        return complaints, ended

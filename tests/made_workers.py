"""Switches made of the model (planning.openflow.pool) between workers; cables lose, double and reorder."""

import heapq
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from random import Random
from typing import Self

import numpy as np

from gradwire.emu.aggregation.worker import Worker
from gradwire.emu.replay.sums import Floats, Ints, agreed, block_exponents, bounds, to_floats, to_ints
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.openflow.entries import FROM_PARENT
from gradwire.planning.openflow.pool import Pool, Sent
from gradwire.planning.openflow.rules import aggregate
from gradwire.planning.trees.tree import Child, Node, Tree
from gradwire.traces.framing.aggregation import HEADER_NBYTES, decode, encode

DELAY_NS = 50_000  # of a cable
LIMIT_NS = 600_000_000_000
UP = 99


def star(
    n_ranks: int, elements: int = 8, slots: int = 8, givers: Sequence[int] = (), takers: Sequence[int] = ()
) -> Tree:
    """All ranks at one switch, rank r at port r + 1."""
    gives, takes = tuple(givers or range(n_ranks)), tuple(takers or range(n_ranks))
    children = tuple(Child(rank + 1, rank in gives, rank in takes) for rank in range(n_ranks))
    return Tree(7, gives, takes, 0xBEE0, slots, elements, (Node("root0", children),))


def two_levels(per_leaf: Sequence[int], elements: int = 8, slots: int = 8) -> Tree:
    """Leaves of this many ranks each below one root: their port UP leads to it, its ports 1, 2, … to them."""
    ranks = tuple(range(sum(per_leaf)))
    root = Node("root0", tuple(Child(leaf + 1) for leaf in range(len(per_leaf))))
    leaves = (
        Node(f"leaf{leaf}", tuple(Child(port + 1) for port in range(n)), parent_port=UP)
        for leaf, n in enumerate(per_leaf)
    )
    return Tree(7, ranks, ranks, 0xBEE0, slots, elements, (root, *leaves))


def ranks_behind(tree: Tree) -> dict[Egress, tuple[int, ...]]:
    """Ranks hang on leaves in ascending order; on the root, if there is no leaf."""
    root, *leaves = tree.nodes
    rank, found = count(), dict[Egress, tuple[int, ...]]()
    for number, node in enumerate(leaves or [root]):
        here = {Egress(node.switch, child.port): (next(rank),) for child in node.children}
        found |= here
        if leaves:
            found[Egress("root0", number + 1)] = tuple(rank for (rank,) in here.values())
    return found


class Lab:
    """Workers of all ranks of `tree`, its switches, and one clock."""

    def __init__(
        self, tree: Tree, loss: float = 0, doubled: float = 0, jitter_ns: int = 0, seed: int = 0
    ) -> None:
        self.tree = tree
        self.behind = ranks_behind(tree)
        at = tree.nodes[-1].switch.rstrip("0123456789")  # hosts are at switches of this name
        self.place = {ranks[0]: port for port, ranks in self.behind.items() if port.node.startswith(at)}
        self.random = Random(seed)
        self.loss, self.doubled, self.jitter_ns = loss, doubled, jitter_ns
        self.now_ns = 10**9
        self.delay_ns = DELAY_NS
        self.dead: set[int] = set()  # ranks whose packets do not arrive any more
        self.pools = {node.switch: Pool(aggregate(tree, node)) for node in tree.nodes}
        self.order = count()
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.stack = ExitStack()
        self.workers: dict[int, Worker] = {}
        self.peers: dict[int, socket.socket] = {}
        self.finished: dict[int, list[int]] = {rank: [] for rank in tree.members}
        for rank in tree.members:
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            for end in ends:
                self.stack.enter_context(end).setblocking(False)
            self.peers[rank] = ends[1]
            self.workers[rank] = Worker(ends[0], tree, rank, 4 * DELAY_NS, ranks_behind=self.behind)
            self.stack.callback(self.workers[rank].close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def rebuild(self) -> None:
        """The same tree with slots that are empty, in the next epoch."""
        self.tree = replace(self.tree, epoch=self.tree.epoch + 1)
        self.pools = {node.switch: Pool(aggregate(self.tree, node)) for node in self.tree.nodes}

    def run(self, until: Callable[[], bool]) -> None:
        while not until():
            self.step()
            assert self.now_ns < LIMIT_NS, "the sums do not come to an end"

    def step(self) -> None:
        """Everybody does what is due; then it is as late as the next event."""
        for rank in self.workers:
            self.work(rank)
        due = [ns for worker in self.workers.values() if (ns := worker.due_ns) is not None]
        next_ns = min([*due, *(event[0] for event in self.events[:1])], default=self.now_ns)
        self.now_ns = max(self.now_ns + 1, next_ns)
        while self.events and self.events[0][0] <= self.now_ns:
            heapq.heappop(self.events)[2]()

    def work(self, rank: int) -> None:
        """Step until its socket takes all; what it sends sets off."""
        while True:
            self.finished[rank] += self.workers[rank].step(self.now_ns)
            while (packet := received(self.peers[rank])) is not None:
                if rank not in self.dead:
                    self.travel(lambda packet=packet: self.from_host(rank, packet))  # type: ignore[misc]
            if not self.workers[rank].wants_to_send:
                return

    def travel(self, arrive: Callable[[], None]) -> None:
        for _ in range(1 + (self.random.random() < self.doubled)):
            if self.random.random() >= self.loss:
                when = self.now_ns + self.delay_ns + self.random.randint(0, self.jitter_ns)
                heapq.heappush(self.events, (when, next(self.order), arrive))

    def from_host(self, rank: int, packet: bytes) -> None:
        switch, port = self.place[rank]
        self.at_switch(switch, port - 1, packet)

    def at_switch(self, switch: str, child: int, packet: bytes) -> None:
        header = decode(packet)
        assert header is not None
        elements = struct.unpack(f"!{header.n_elements}i", packet[HEADER_NBYTES:])
        for sent in self.pools[switch].receive(child, header, elements):
            self.travel(lambda sent=sent: self.from_switch(switch, sent))  # type: ignore[misc]

    def from_switch(self, switch: str, sent: Sent) -> None:
        packet = encode(sent.header) + struct.pack(f"!{len(sent.elements)}i", *sent.elements)
        if sent.port == UP:
            self.at_switch("root0", int(switch.removeprefix("leaf")), packet)
        elif switch == "root0" and len(self.pools) > 1:
            self.at_switch(f"leaf{sent.port - 1}", FROM_PARENT, packet)
        else:
            self.deliver(self.behind[Egress(switch, sent.port)][0], packet)

    def deliver(self, rank: int, packet: bytes) -> None:
        """A socket pair has room for a few packets only."""
        try:
            self.peers[rank].send(packet)
        except BlockingIOError:
            self.work(rank)
            self.peers[rank].send(packet)


def received(sock: socket.socket) -> bytes | None:
    try:
        return sock.recv(1 << 16)
    except BlockingIOError:
        return None


def numbers(seed: int, n: int, elements: int) -> Floats:
    """Normal ones; magnitudes differ from block to block by up to 2^60, some blocks are zeros."""
    random = np.random.default_rng(seed)
    n_blocks = -(-n // elements)
    scale = np.ldexp(random.integers(0, 4, n_blocks).clip(0, 1) * 1.0, random.integers(-30, 30, n_blocks))
    values: Floats = (random.standard_normal(n) * np.repeat(scale, elements)[:n]).astype(np.float32)
    return values


def reference(data: Sequence[Floats], exponents: Ints, elements: int) -> Floats:
    """The sum of the scaled integers, block by block, by the specification's words."""
    result = np.zeros(len(data[0]), np.float32)
    for block, exponent in enumerate(exponents.tolist()):
        here = slice(block * elements, (block + 1) * elements)
        sums = sum(to_ints(each[here], exponent, len(data)).astype(np.int64) for each in data)
        assert np.abs(sums).max() <= 1 << 30
        result[here] = to_floats(np.asarray(sums, np.int32), exponent, len(data))
    return result


def begin(lab: Lab, data: dict[int, Floats]) -> dict[int, Floats]:
    """One more sum at all ranks; the arrays in which the takers will have it."""
    n = len(next(iter(data.values())))
    into = {rank: np.full(n, np.nan, np.float32) for rank in lab.tree.takers}
    for rank, worker in lab.workers.items():
        worker.begin(data.get(rank), into.get(rank), n)
    return into


def check(data: dict[int, Floats], into: dict[int, Floats], elements: int, slots: int = 8) -> None:
    givers = list(data.values())
    exact = np.sum(np.asarray(givers, np.float64), axis=0)
    exponents = agreed([block_exponents(each, elements) for each in givers], slots)
    expected = reference(givers, exponents, elements)
    for result in into.values():
        np.testing.assert_array_equal(result, expected)
        assert (
            np.abs(result.astype(np.float64) - exact) <= bounds(result, exponents, elements, len(givers))
        ).all()

"""Agents with workers as real processes; a thread with the model of a switch serves them."""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from gradwire.emu.aggregation.worker import Worker
from gradwire.emu.replay import fleet, processes
from gradwire.emu.replay.aggregating import Seat
from gradwire.emu.watch import Watch
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.openflow.entries import FROM_PARENT
from gradwire.planning.openflow.pool import Pool, Sent
from gradwire.planning.openflow.rules import aggregate
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check
from gradwire.planning.trees.tree import Node, Tree
from gradwire.planning.trees.treecheck import ranks_below
from gradwire.traces.framing.aggregation import HEADER_NBYTES, Header, decode, encode

RTT_NS = 5_000_000
Drop = Callable[[int, Header], bool]
"""Whether a packet from or to this rank is lost."""


class Switches:
    """The switches of the plan's trees, on the far ends of the ranks' sockets."""

    def __init__(self, plan: Plan, drop: Drop) -> None:
        self.plan, self.drop = plan, drop
        self.near: dict[tuple[int, int], socket.socket] = {}  # by group and rank
        self.far: dict[tuple[int, int], socket.socket] = {}
        self.trees = list(plan.trees)
        for group, tree in enumerate(plan.trees):
            for rank in tree.members:
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                for sock in pair:
                    sock.setblocking(False)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                self.near[group, rank], self.far[group, rank] = pair
        self.pools = {group: pools(tree) for group, tree in enumerate(self.trees)}
        self.rank_at = {host: rank for rank, host in enumerate(plan.placement)}

    def rebuild(self, group: int) -> None:
        self.trees[group] = replace(self.trees[group], epoch=self.trees[group].epoch + 1)
        self.pools[group] = pools(self.trees[group])

    def serve(self, until: threading.Event) -> None:
        with select.epoll() as poll:
            for sock in self.far.values():
                poll.register(sock.fileno(), select.EPOLLIN)
            while not until.is_set():
                if poll.poll(0.05):
                    for (group, rank), sock in self.far.items():
                        self.drain(group, rank, sock)

    def drain(self, group: int, rank: int, sock: socket.socket) -> None:
        while (packet := received(sock)) is not None:
            header = decode(packet)
            assert header is not None
            if not self.drop(rank, header):
                host = Egress(self.plan.placement[rank], 0)
                self.arrive(group, self.plan.fabric.peers[host], packet)

    def arrive(self, group: int, port: Egress, packet: bytes) -> None:
        """At this port of a switch."""
        node = next(node for node in self.trees[group].nodes if node.switch == port.node)
        header = decode(packet)
        assert header is not None
        elements = struct.unpack(f"!{header.n_elements}i", packet[HEADER_NBYTES:])
        for sent in self.pools[group][node.switch].receive(child_at(node, port.port), header, elements):
            self.leave(group, Egress(port.node, sent.port), sent)

    def leave(self, group: int, port: Egress, sent: Sent) -> None:
        packet = encode(sent.header) + struct.pack(f"!{len(sent.elements)}i", *sent.elements)
        peer = self.plan.fabric.peers[port]
        if peer.node not in self.rank_at:
            self.arrive(group, peer, packet)
        elif not self.drop(self.rank_at[peer.node], sent.header):
            self.far[group, self.rank_at[peer.node]].send(packet)


def pools(tree: Tree) -> dict[str, Pool]:
    return {node.switch: Pool(aggregate(tree, node)) for node in tree.nodes}


def child_at(node: Node, port: int) -> int:
    if port == node.parent_port:
        return FROM_PARENT
    return [child.port for child in node.children].index(port)


def received(sock: socket.socket) -> bytes | None:
    try:
        return sock.recv(1 << 16)
    except BlockingIOError:
        return None


def nothing_lost(rank: int, header: Header) -> bool:
    del rank, header
    return False


@contextmanager
def running(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, drop: Drop = nothing_lost, patience_s: float = 5
) -> Iterator[tuple[fleet.Fleet, Switches]]:
    """The plan's agents with sockets that end at `Switches`; TCP by addresses of 127.0.0.0/8."""
    flows = [replace(f, src_ip=f"127{f.src_ip[2:]}", dst_ip=f"127{f.dst_ip[2:]}") for f in plan.flows]
    check(plan)
    plan = replace(plan, flows=tuple(flows))
    switches = Switches(plan, drop)

    def take_seats(plan: Plan, rank: int) -> list[Seat]:
        seats = []
        for group, tree in enumerate(plan.trees):
            if rank in tree.members:
                sock = switches.near[group, rank]
                behind = ranks_below(plan.fabric, plan.placement, tree)
                patience_ns = int(patience_s * 1e9)
                worker = Worker(sock, tree, rank, RTT_NS, ranks_behind=behind, patience_ns=patience_ns)
                seats.append(Seat(group, tree, sock, worker))
        return seats

    monkeypatch.setattr(processes, "take_seats", take_seats)
    over = threading.Event()
    here = dict.fromkeys(plan.fabric.hosts, os.getpid())
    with ExitStack() as stack:
        for sock in (*switches.near.values(), *switches.far.values()):
            stack.callback(sock.close)
        agents = stack.enter_context(processes.started(plan, here, Watch()))
        thread = threading.Thread(target=switches.serve, args=(over,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        agents.connect()
        yield agents, switches

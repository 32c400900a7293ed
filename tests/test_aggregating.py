"""Agents with workers: real processes; their switches are the model (emu.aggregation.pool) in a thread."""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random

import pytest

from emu.aggregation.pool import Pool, Sent
from emu.aggregation.tree import Node, Tree, aggregate
from emu.aggregation.treecheck import ranks_below
from emu.aggregation.worker import Worker
from emu.fabrics.fabric import Egress
from emu.plan import Plan
from emu.plancheck import check
from emu.replay import agent, aggregating, fleet
from emu.replay.aggregating import Seat
from emu.replay.outcome import Outcome
from emu.switch.table.entries import FROM_PARENT
from emu.watch import RunFailed, Watch
from tests.made_tree_plans import TWO_LEVELS, star_tree, summed, tree_plan, two_level_tree
from traces.framing.aggregation import HEADER_NBYTES, Header, Kind, decode, encode
from traces.schedules.expand import expand
from traces.schedules.schedule import Gate
from traces.workload import made_allreduce

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="setns, even into one's own namespace, needs root")

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
        self.pools = {g: pools(tree) for g, tree in enumerate(self.trees)}
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

    monkeypatch.setattr(fleet, "take_seats", take_seats)
    over = threading.Event()
    here = dict.fromkeys(plan.fabric.hosts, os.getpid())
    with ExitStack() as stack:
        for sock in (*switches.near.values(), *switches.far.values()):
            stack.callback(sock.close)
        agents = stack.enter_context(fleet.started(plan, here, Watch()))
        thread = threading.Thread(target=switches.serve, args=(over,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        agents.connect()
        yield agents, switches


def run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, repeats: int = 1, drop: Drop = nothing_lost
) -> list[list[Outcome]]:
    with running(plan, monkeypatch, drop) as (agents, _):
        outcomes = [agents.run(repeat, 20) for repeat in range(repeats)]
        agents.end()
    return outcomes


SIZES = (4 * 64 * 100, 40, 4 * 1000)


def test_every_repeat_ends_with_right_sums_and_each_chunk_is_sent_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = tree_plan(TWO_LEVELS, summed(two_level_tree(), 4, SIZES, gap_ns=1_000_000), [two_level_tree()])
    n_data = 100 + 1 + -(-1000 // 64)
    for number, outcomes in enumerate(run(plan, monkeypatch, repeats=2)):
        for outcome in outcomes:
            assert (outcome.wrong, outcome.sent_nbytes) == (0, 0)
            figures, times = outcome.aggregated, outcome.times
            assert figures is not None
            assert figures.sent == figures.received == n_data + len(SIZES) + (number == 0)  # primes, one sync
            assert [error.op for error in figures.errors] == [0, 1, 2]
            assert all(0 < error.rms <= error.largest <= error.bound for error in figures.errors)
            assert list(times.begun_ns) == list(times.aggregated_ns) == [0, 1, 2]
            assert times.aggregated_ns[0] + 1_000_000 <= times.begun_ns[1] < times.aggregated_ns[1]


def test_only_the_server_gets_what_workers_push(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = star_tree((0, 1, 2, 3), server=2)
    (outcomes,) = run(tree_plan("star:hosts=4", summed(tree, 4, SIZES), [tree]), monkeypatch)
    assert [outcome.wrong for outcome in outcomes] == [0] * 4
    n_errors = [len(outcome.aggregated.errors) for outcome in outcomes if outcome.aggregated]
    assert n_errors == [0, 0, 3, 0]


def test_hosts_go_on_with_the_sums_of_their_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = expand(made_allreduce(4, 4 * 5000, count=3), "ina:leaf", leaves=((0, 1), (2, 3)))
    nodes = [
        Node("leaf0", star_tree((0, 1)).nodes[0].children),
        Node("leaf1", star_tree((0, 1)).nodes[0].children),
    ]
    trees = [
        replace(star_tree(ranks, number=number), nodes=(nodes[number],))
        for number, ranks in enumerate(schedule.groups[g][0] for g in range(2))
    ]
    for outcomes in run(tree_plan(TWO_LEVELS, schedule, trees), monkeypatch, repeats=2):
        assert [outcome.wrong for outcome in outcomes] == [0] * 4
        assert all(outcome.sent_nbytes and outcome.aggregated for outcome in outcomes)


def test_a_wrong_sum_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(self: Pool, held: Sequence[int], more: Sequence[int]) -> tuple[int, ...]:
        del self
        return tuple(a + 2 * b for a, b in zip(held, more, strict=True))

    monkeypatch.setattr(Pool, "_sum", doubled)
    tree = star_tree((0, 1))
    (outcomes,) = run(tree_plan("star:hosts=2", summed(tree, 2, SIZES), [tree]), monkeypatch)
    assert all(outcome.wrong > sum(SIZES) / 4 / 2 for outcome in outcomes)


def test_with_one_packet_in_ten_lost_each_way_the_sums_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(7)
    tree = two_level_tree(slots=32)
    plan = tree_plan(TWO_LEVELS, summed(tree, 4, SIZES), [tree])
    (outcomes,) = run(plan, monkeypatch, drop=lambda rank, header: draw.random() < 0.1)
    assert [outcome.wrong for outcome in outcomes] == [0] * 4
    assert all(outcome.aggregated and outcome.aggregated.retransmitted > 5 for outcome in outcomes)


def test_a_rank_that_is_done_contributes_again_when_its_tree_is_built_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rank 1 never hears of the first epoch's last results, and after it the old switches answer no more."""
    tree = star_tree((0, 1))
    plan = tree_plan("star:hosts=2", summed(tree, 2, [4 * 64 * 20]), [tree])
    last = 21  # after sync and prime

    def drop(rank: int, header: Header) -> bool:
        return rank == 1 and header.kind == Kind.RESULT and header.epoch == 0 and header.chunk >= last

    with running(plan, monkeypatch, drop) as (agents, switches):
        timer = threading.Timer(0.5, switches.rebuild, args=(0,))
        timer.start()
        outcomes = agents.run(0, 10)
        agents.end()
        timer.join()
    first, second = (outcome.times.done_ns - outcome.times.start_ns for outcome in outcomes)
    assert first < 300_000_000 < second
    assert [outcome.wrong for outcome in outcomes] == [0, 0]


def test_a_rank_that_stops_in_the_middle_is_named_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = two_level_tree()
    plan = tree_plan(TWO_LEVELS, summed(tree, 4, [4 * 64 * 50]), [tree])

    def drop(rank: int, header: Header) -> bool:
        return rank == 3 and header.chunk > 10

    with (
        running(plan, monkeypatch, drop, patience_s=0.6) as (agents, _),
        pytest.raises(RunFailed, match=r"nothing comes from (rank 3|ranks 2, 3)|no switch answers"),
    ):
        agents.run(0, 10)


def test_ranks_that_compute_for_longer_than_any_patience_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent, "STALL_S", 0.5)
    tree = star_tree((0, 1))
    schedule = summed(tree, 2, [400, 400])
    schedule = replace(schedule, gates=(Gate(1, 0, (0,), 1_200_000_000), Gate(1, 1, (0,))))
    with running(tree_plan("star:hosts=2", schedule, [tree]), monkeypatch, patience_s=0.7) as (agents, _):
        outcomes = agents.run(0, 10)
        agents.end()
    assert [outcome.wrong for outcome in outcomes] == [0, 0]
    assert outcomes[1].aggregated is not None
    assert outcomes[1].aggregated.statuses > 0


def test_the_first_timeout_is_about_a_window_of_the_slowest_cable() -> None:
    tree = two_level_tree(slots=100, elements=256)
    plan = tree_plan(f"{TWO_LEVELS},rate=100M,uplink_rate=50M", summed(tree, 4, [400]), [tree])
    assert aggregating.round_trip_ns(plan, tree) == pytest.approx(100 * 1090 * 8 / 50e6 * 1e9)

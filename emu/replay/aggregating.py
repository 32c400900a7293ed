"""A rank's side of the aggregation trees: a socket and a worker each, open as long as its connections.

The stream of a tree goes on from one repeat to the next.  A rank that is done goes on listening (`serve`):
if a tree is built again, what it has contributed may be wanted again.
"""

import select
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.aggregation.figures import RankFigures, SumError
from gradwire.emu.aggregation.worker import PATIENCE_NS, SEGMENTS, Worker
from gradwire.emu.replay import payload, sums
from gradwire.emu.replay.wiring import tree_socket
from gradwire.planning.failures import outage_s
from gradwire.planning.plan import Plan
from gradwire.planning.transport import longest_round_trip_s
from gradwire.planning.trees.tree import Tree, child_ports
from gradwire.planning.trees.treecheck import ranks_below


@dataclass(frozen=True, slots=True)
class Seat:
    """A rank's place in the tree of group `group`."""

    group: int
    tree: Tree
    sock: socket.socket
    worker: Worker

    @property
    def fd(self) -> int:
        return self.sock.fileno()


def take_seats(plan: Plan, rank: int) -> list[Seat]:
    """A seat in each tree that has the rank as a member, in the network namespace of its host.

    As many packets go out together as a TCP segment may be long.
    """
    patience_ns = PATIENCE_NS + int(outage_s(plan.failures) * 1e9)
    seats = []
    for group, tree in enumerate(plan.trees):
        if rank in tree.members:
            sock = tree_socket(tree)
            worker = Worker(
                sock,
                tree,
                rank,
                round_trip_ns(plan, tree),
                ranks_behind=ranks_below(plan.fabric, plan.placement, tree),
                patience_ns=patience_ns,
                segments=min(SEGMENTS, plan.transport.gso_max_nbytes // tree.frame_nbytes),
            )
            seats.append(Seat(group, tree, sock, worker))
    return seats


def round_trip_ns(plan: Plan, tree: Tree) -> int:
    """About what a window of the tree's slots takes on the slowest of its cables, there and back."""
    rates = plan.fabric.rates
    window_s = tree.slots * tree.frame_nbytes * 8 / min(rates[port] for port in child_ports(tree))
    return int((window_s + longest_round_trip_s(plan.fabric)) * 1e9)


class Aggregating:
    """The aggregations of one rank in one repeat."""

    def __init__(self, plan: Plan, rank: int, seats: Sequence[Seat]) -> None:
        self._schedule = plan.schedule
        self._rank = rank
        self._seats = {seat.fd: seat for seat in seats}
        self._seat_of = {plan.schedule.groups[seat.group]: seat for seat in seats}
        self._results = {  # full, so that their pages are made now
            number: np.full(plan.schedule.ops[each.op].nbytes, 0, np.uint8)
            for number, each in enumerate(plan.schedule.aggregations)
            if rank in each.takers
        }
        self._under_way: dict[tuple[int, int], int] = {}  # by socket and the worker's position
        self._touched: set[int] = set()  # sockets of workers that have something new to do
        self._writing: set[int] = set()
        for seat in seats:
            seat.worker.forget()  # every rank has finished what came before
        self._before = self._after = counted(seats)

    @property
    def outstanding(self) -> bool:
        return bool(self._under_way)

    def due_ns(self, latest_ns: int) -> int:
        """When `step` must be called; not after `latest_ns`."""
        if self._touched:
            return 0
        due = (seat.worker.due_ns for seat in self._seats.values())
        return min([latest_ns, *(ns for ns in due if ns is not None)])

    def run(self, poll: select.epoll, until_ns: int) -> list[int] | None:
        """Let a single busy worker wait and go on by itself; returns what is finished, None without one.

        Not for longer than the others have nothing to do: one whose sums are over asks for new trees.
        Several rest while none of them need listen: results come in bunches then, and do not wake us one by
        one.  Raise WorkerFailed.
        """
        busy = {fd for fd, _ in self._under_way}
        if not busy or self._touched:
            return None
        if len(busy) == 1:
            (fd,) = busy
            others = (seat.worker.due_ns for other, seat in self._seats.items() if other != fd)
            until_ns = min([until_ns, *(ns for ns in others if ns is not None)])
            return self._taken(fd, self._seats[fd].worker.run(poll.fileno(), until_ns))
        time.sleep(min(self._seats[fd].worker.pause_ns for fd in busy) / 1e9)
        return None

    def begin(self, number: int, buffers: dict[int, NDArray[np.uint8]]) -> None:
        """Give the operation's buffer, which must not change any more; `step` will say when it is summed."""
        aggregation = self._schedule.aggregations[number]
        seat = self._seat_of[aggregation.givers, aggregation.takers]
        data = buffers[aggregation.op].view(np.float32)
        into = self._results.get(number)
        position = seat.worker.begin(
            data if self._rank in aggregation.givers else None,
            None if into is None else into.view(np.float32),
            len(data),
        )
        self._under_way[seat.fd, position] = number
        self._touched.add(seat.fd)

    def result(self, number: int) -> NDArray[np.uint8] | None:
        """The sum, once it is there; None for one that the rank does not take."""
        return self._results.get(number)

    def register(self, poll: select.epoll) -> None:
        for fd in self._seats:
            poll.register(fd, select.EPOLLIN)

    def watch(self, poll: select.epoll) -> None:
        """Have the poll wake up for room to send where a worker waits for it, and only there."""
        for fd, seat in self._seats.items():
            if seat.worker.wants_to_send != (fd in self._writing):
                self._writing ^= {fd}
                poll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if fd in self._writing else 0))

    def step(self, ready: Collection[int]) -> list[int]:
        """Let workers go on: those with `ready` sockets, those that are due.  Returns what is finished.

        Raise WorkerFailed.
        """
        now_ns = time.monotonic_ns()
        finished: list[int] = []
        for fd, seat in self._seats.items():
            due_ns = seat.worker.due_ns
            if fd in ready or fd in self._touched or (due_ns is not None and due_ns <= now_ns):
                self._touched.discard(fd)
                finished += self._taken(fd, seat.worker.step(now_ns))
        return finished

    def _taken(self, fd: int, positions: Iterable[int]) -> list[int]:
        return [self._under_way.pop((fd, position)) for position in positions]

    def end(self) -> None:
        """What is done from now on is for others that are not done yet; `figures` leave it out."""
        self._after = counted(self._seats.values())

    def figures(self) -> tuple[int, RankFigures]:
        """How many elements of the sums are wrong, and what was done for them up to `end`."""
        wrong, errors = 0, []
        for n_wrong, error in self._checked():
            wrong += n_wrong
            errors.append(error)
        done = {name: n - self._before[name] for name, n in self._after.items()}
        return wrong, RankFigures(**done, errors=tuple(errors))

    def _checked(self) -> Iterator[tuple[int, SumError]]:
        """Of what only switches added up; the rest is checked when its sends are over, as any allreduce."""
        alone = payload.summed_by_switches(self._schedule)
        for number, result in self._results.items():
            aggregation = self._schedule.aggregations[number]
            if aggregation.op in alone:
                seat = self._seat_of[aggregation.givers, aggregation.takers]
                yield sums.checked(aggregation, result.view(np.float32), seat.tree)


def counted(seats: Iterable[Seat]) -> dict[str, int]:
    """The workers' counters together, by the names of `RankFigures`."""
    names = [field.name for field in fields(RankFigures) if field.name != "errors"]
    totals = dict.fromkeys(names, 0)
    for seat in seats:
        counts = seat.worker.counts()
        for name in names:
            totals[name] += getattr(counts, name)
    return totals


def serve(seats: Sequence[Seat], until_fd: int) -> None:
    """Answer for what was contributed until there is something to read: others may not be done yet."""
    with select.epoll() as poll:
        poll.register(until_fd, select.EPOLLIN)
        for seat in seats:
            poll.register(seat.fd, select.EPOLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(_timeout_s(seats))}
            if until_fd in ready:
                return
            now_ns = time.monotonic_ns()
            for seat in seats:
                seat.worker.step(now_ns)


def _timeout_s(seats: Iterable[Seat]) -> float | None:
    due = [ns for seat in seats if (ns := seat.worker.due_ns) is not None]
    return max(0.0, (min(due) - time.monotonic_ns()) / 1e9) if due else None

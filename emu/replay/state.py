"""What one rank may do next: its view of the schedule's DAG.  No sockets, no clock.

The agent tells what has happened (`finished`, `opened`, `asked`, `aggregated`) and gets back what has become
possible.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from gradwire.traces.schedules.locks import Queues
from gradwire.traces.schedules.schedule import ReduceGroup, Schedule


@dataclass
class Possible:
    """Sends (ids) whose data may leave, receives (ids) that may be announced, gaps to wait (those of what
    the rank computes among them), and aggregations (positions) to begin, in this order.  `done` are the
    operations that have just been completed at the rank.
    """

    sends: list[int] = field(default_factory=list)
    receives: list[int] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)  # (op, gap_ns)
    aggregations: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)


class RankState:
    """Counts, for every send and receive of `rank`, what it still waits for; `n_done` of the rank's `n_ops`
    operations are done.

    An aggregation in which the rank takes part begins when the gate of its operation is open and all earlier
    ones of its group have begun here; the operation's sends and receives come after it.  What the rank
    computes is complete when its gate is open.  A receive that takes a lock waits for that as well.
    """

    def __init__(self, schedule: Schedule, rank: int) -> None:
        self._mine = schedule.sends.of_rank(rank)
        self._rank = rank
        self._left: dict[int, int] = {}  # what a send or receive of ours waits for, its op's gate included
        self._waiters: defaultdict[int, list[int]] = defaultdict(list)
        self._of_op: defaultdict[int, list[int]] = defaultdict(list)
        self._queues = Queues([lock for lock in schedule.locks if lock.rank == rank])
        for number, send in self._mine.items():
            before = send.needs if send.src == rank else send.ready
            self._left[number] = len(before) + 1 + (send.op in self._queues)
            self._of_op[send.op].append(number)
            for other in before:
                self._waiters[other].append(number)
        self._aggregation_of: dict[int, int] = {}  # by op
        self._next_of: defaultdict[ReduceGroup, deque[int]] = defaultdict(deque)  # not begun yet, in order
        self._may_begin: set[int] = set()
        self._aggregations = schedule.aggregations
        for number, aggregation in enumerate(schedule.aggregations):
            if rank in aggregation.members:
                self._aggregation_of[aggregation.op] = number
                self._next_of[aggregation.givers, aggregation.takers].append(number)
                self._of_op.setdefault(aggregation.op, [])  # an operation of ours, if without sends
        self.uncomputed = {
            op for op, made in enumerate(schedule.ops) if made.kind == "compute" and made.root == rank
        }
        for op in self.uncomputed:
            self._of_op.setdefault(op, [])
        self._op_left = {op: len(self._of_op[op]) + (op in self._aggregation_of) for op in self._of_op}
        self._op_left |= dict.fromkeys(self.uncomputed, 1)
        self._gates = {gate.op: gate for gate in schedule.gates if gate.rank == rank}
        self._gate_left = dict.fromkeys(self._of_op, 0)
        self._op_waiters: defaultdict[int, list[int]] = defaultdict(list)
        for op, gate in self._gates.items():
            if op not in self._of_op:
                continue
            after = [other for other in gate.after if other in self._of_op]
            self._gate_left[op] = len(after)
            for other in after:
                self._op_waiters[other].append(op)
        self.n_ops, self.n_done = len(self._op_left), 0
        self.unfinished = set(self._mine)
        self.unaggregated = set(self._aggregation_of.values())

    @property
    def is_done(self) -> bool:
        return not (self.unfinished or self.unaggregated or self.uncomputed)

    def begin(self) -> Possible:
        """The common start."""
        possible = Possible()
        for op, left in self._gate_left.items():
            if not left:
                self._pass_gate(op, possible)
        return possible

    def opened(self, op: int) -> Possible:
        """The compute gap before `op` has passed, or the rank has computed it."""
        possible = Possible()
        if op in self.uncomputed:
            self.uncomputed.remove(op)
            self._count_down(op, possible)
        else:
            self._open(op, possible)
        return possible

    def aggregated(self, number: int) -> Possible:
        """An aggregation is over at this rank: what it takes of the sum is there."""
        self.unaggregated.remove(number)
        op = self._aggregations[number].op
        possible = Possible()
        self._satisfied(self._of_op[op], possible)
        self._count_down(op, possible)
        return possible

    def asked(self, number: int) -> Possible:
        """The source of a receive is ready to send it: it asks for its lock, if it takes one."""
        possible = Possible()
        if (op := self._mine[number].op) in self._queues:
            self._granted(self._queues.ask(op), possible)
        return possible

    def finished(self, number: int) -> Possible:
        """A receive has arrived and been added, or a send has been handed to the kernel."""
        self.unfinished.remove(number)
        possible = Possible()
        self._satisfied(self._waiters[number], possible)
        self._count_down(self._mine[number].op, possible)
        return possible

    def _count_down(self, op: int, possible: Possible) -> None:
        """One thing less to do of `op`; what waited for all of it may go on."""
        self._op_left[op] -= 1
        if not self._op_left[op]:
            self.n_done += 1
            possible.done.append(op)
            self._granted(self._queues.complete(op, self._rank), possible)
            for later in self._op_waiters[op]:
                self._gate_left[later] -= 1
                if not self._gate_left[later]:
                    self._pass_gate(later, possible)

    def _pass_gate(self, op: int, possible: Possible) -> None:
        gap_ns = self._gates[op].gap_ns if op in self._gates else 0
        if gap_ns or op in self.uncomputed:
            possible.gaps.append((op, gap_ns))
        else:
            self._open(op, possible)

    def _open(self, op: int, possible: Possible) -> None:
        """Its sends may begin; if there is an aggregation, that, as soon as it is the group's next."""
        number = self._aggregation_of.get(op)
        if number is None:
            self._satisfied(self._of_op[op], possible)
            return
        self._may_begin.add(number)
        waiting = self._next_of[self._aggregations[number].givers, self._aggregations[number].takers]
        while waiting and waiting[0] in self._may_begin:
            possible.aggregations.append(waiting.popleft())

    def _satisfied(self, numbers: Iterable[int], possible: Possible) -> None:
        for number in numbers:
            self._left[number] -= 1
            send = self._mine[number]
            if not self._left[number]:
                ours = send.src == self._rank
                (possible.sends if ours else possible.receives).append(number)
            elif self._left[number] == 1 and send.op in self._queues:
                self._granted(self._queues.prepare(send.op), possible)

    def _granted(self, op: int | None, possible: Possible) -> None:
        """An operation has got its lock, if any has."""
        if op is not None:
            self._satisfied(self._of_op[op], possible)

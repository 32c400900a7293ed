"""What one rank may do next: the schedule's DAG as that rank sees it.  No sockets, no clock.

The agent tells what has happened (`finished`, `opened`) and gets back what has become possible.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from traces.schedules.schedule import Schedule


@dataclass
class Possible:
    """Sends (ids) whose data may leave, receives (ids) that may be announced, gaps to wait."""

    sends: list[int] = field(default_factory=list)
    receives: list[int] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)  # (op, gap_ns)


class RankState:
    """Counts, for every send and receive of `rank`, what it still waits for."""

    def __init__(self, schedule: Schedule, rank: int) -> None:
        self._mine = {
            number: send for number, send in enumerate(schedule.sends) if rank in (send.src, send.dst)
        }
        self._rank = rank
        self._left: dict[int, int] = {}  # what a send or receive of ours waits for, its op's gate included
        self._waiters: defaultdict[int, list[int]] = defaultdict(list)
        self._of_op: defaultdict[int, list[int]] = defaultdict(list)
        for number, send in self._mine.items():
            before = send.needs if send.src == rank else send.ready
            self._left[number] = len(before) + 1
            self._of_op[send.op].append(number)
            for other in before:
                self._waiters[other].append(number)
        self._op_left = {op: len(numbers) for op, numbers in self._of_op.items()}
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
        self.unfinished = set(self._mine)

    def begin(self) -> Possible:
        """The common start."""
        possible = Possible()
        for op, left in self._gate_left.items():
            if not left:
                self._pass_gate(op, possible)
        return possible

    def opened(self, op: int) -> Possible:
        """The compute gap before `op` has passed."""
        possible = Possible()
        self._satisfied(self._of_op[op], possible)
        return possible

    def finished(self, number: int) -> Possible:
        """A receive has arrived and been added, or a send has been handed to the kernel."""
        self.unfinished.remove(number)
        possible = Possible()
        self._satisfied(self._waiters[number], possible)
        op = self._mine[number].op
        self._op_left[op] -= 1
        if not self._op_left[op]:
            for later in self._op_waiters[op]:
                self._gate_left[later] -= 1
                if not self._gate_left[later]:
                    self._pass_gate(later, possible)
        return possible

    def _pass_gate(self, op: int, possible: Possible) -> None:
        gap_ns = self._gates[op].gap_ns if op in self._gates else 0
        if gap_ns:
            possible.gaps.append((op, gap_ns))
        else:
            self._satisfied(self._of_op[op], possible)

    def _satisfied(self, numbers: Iterable[int], possible: Possible) -> None:
        for number in numbers:
            self._left[number] -= 1
            if not self._left[number]:
                ours = self._mine[number].src == self._rank
                (possible.sends if ours else possible.receives).append(number)

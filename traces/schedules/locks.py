"""Locks: what a rank does one after the other, in the order in which it is asked to.

An asynchronous parameter server answers the worker that comes first.  Who that is depends on the network, so
a schedule does not say it: a *lock* names the sections that exclude each other, and who comes first is
decided when the schedule is carried out.  Agents and the model share the rule that is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Lock:
    """Of what is in its `sections`, `rank` does one at a time, first come, first served.

    A section is (operation that takes the lock, operation that frees it).  The first is a message to the
    rank, which announces that it will receive it when it has the lock; it asks for the lock when its source
    has said that it is ready.  The lock is free again when the second is complete at the rank.
    """

    rank: int
    sections: tuple[tuple[int, int], ...]

    def moved(self, n_ops: int, n_ranks: int) -> "Lock":
        """The same in a schedule before which this many operations and ranks have been put."""
        sections = tuple((first + n_ops, last + n_ops) for first, last in self.sections)
        return replace(self, rank=self.rank + n_ranks, sections=sections)


@dataclass(slots=True)
class _Queue:
    """Who has asked for a lock, in this order, and the operation that frees it; None: it is free."""

    asked: list[int] = field(default_factory=list)
    freed_by: int | None = None


class Queues:
    """The locks of a schedule under way, by their operations.

    An operation gets its lock when it has asked and is prepared, before all that asked after it.
    """

    def __init__(self, locks: Sequence[Lock]) -> None:
        self._last = {first: last for lock in locks for first, last in lock.sections}
        self._rank = {first: lock.rank for lock in locks for first, _ in lock.sections}
        self._queues = {lock.rank: _Queue() for lock in locks}
        self._prepared: set[int] = set()

    def __contains__(self, op: int) -> bool:
        return op in self._last

    def prepare(self, op: int) -> int | None:
        """An operation waits for nothing but its lock at its rank.  Returns who gets the lock now, if any."""
        self._prepared.add(op)
        return self._grant(self._rank[op])

    def ask(self, op: int) -> int | None:
        """The source of an operation is ready; returns as `prepare`."""
        self._queues[self._rank[op]].asked.append(op)
        return self._grant(self._rank[op])

    def complete(self, op: int, rank: int) -> int | None:
        """An operation is complete at a rank; returns as `prepare`."""
        queue = self._queues.get(rank)
        if queue is None or queue.freed_by != op:
            return None
        queue.freed_by = None
        return self._grant(rank)

    def _grant(self, rank: int) -> int | None:
        queue = self._queues[rank]
        if queue.freed_by is not None:
            return None
        for op in queue.asked:
            if op in self._prepared:
                queue.asked.remove(op)
                queue.freed_by = self._last[op]
                return op
        return None

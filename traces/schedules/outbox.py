"""Newest first: which send of a rank leaves next, where one of its sends is under way at a time.

Intel's MLSL serves the newest request first, as backward passes end with the layer that the next forward
pass needs first (arXiv 1801.08030).  It does so phase by phase: a send that is under way is not interrupted.
Operations are numbered in the order in which they begin, so the newest has the highest number.  All ranks
have that same order, so none waits for another in a circle: what goes first is never held back anywhere.

An operation that goes first keeps the link free between its steps: while something of it is on its way to a
rank that has more of it to send, that rank begins nothing older.  On its way is what both ends are ready for.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Literal

Order = Literal["fifo", "newest-first"]
FIFO: Order = "fifo"  # each send leaves when it may
NEWEST_FIRST: Order = "newest-first"
ORDERS = (FIFO, NEWEST_FIRST)

Slot = tuple[int, int]
"""The destination of sends, and what else they share: those of one slot leave in the order of offers."""


def parse_order(text: str) -> Order:
    """An order by its name."""
    for order in ORDERS:
        if text == order:
            return order
    raise ValueError(f"there is no order {text!r}: choose {' or '.join(ORDERS)}")


class Outbox:
    """The sends of one rank that may leave; `ops` has the operation of each send that the rank makes."""

    def __init__(self, ops: Iterable[int]) -> None:
        self._to_send = Counter(ops)
        self._coming: Counter[int] = Counter()
        self._waiting: dict[Slot, deque[tuple[int, int]]] = {}
        self._is_busy = False

    def offer(self, slot: Slot, op: int, send: int) -> None:
        """A send may leave as far as all else is concerned."""
        self._waiting.setdefault(slot, deque()).append((op, send))

    def coming(self, op: int) -> None:
        """Something of an operation is on its way to the rank."""
        self._coming[op] += 1

    def came(self, op: int) -> None:
        self._coming[op] -= 1

    def over(self) -> None:
        """The kernel has taken all of the send that was under way."""
        self._is_busy = False

    def next(self) -> int | None:
        """The send that leaves now, if any: then it is under way."""
        if self._is_busy or not self._waiting:
            return None
        slot, (op, send) = max(
            ((slot, sends[0]) for slot, sends in self._waiting.items()),
            key=lambda each: (each[1][0], -each[1][1]),
        )
        if any(count > 0 and newer > op and self._to_send[newer] for newer, count in self._coming.items()):
            return None
        self._waiting[slot].popleft()
        if not self._waiting[slot]:
            del self._waiting[slot]
        self._to_send[op] -= 1
        self._is_busy = True
        return send

"""`--order newest-first`: which send of a rank leaves next, with one operation under way at a time.

Intel's MLSL serves the newest request first, as backward passes end with the layer that the next forward
pass needs first (arXiv 1801.08030).  It does so phase by phase: a send that is under way is not interrupted.
Operations are numbered in the order in which they begin, so the newest has the highest number.  All ranks
have that same order, so none waits for another in a circle: what goes first is never held back anywhere.

Of the operation under way a rank may send to each other rank at once, one send to each.  If it sent to one
at a time, all ranks that push to several servers would push to the same one first, and share its link.

An operation that goes first keeps the link free between its steps: while something of it is on its way to a
rank that has more of it to send, that rank begins nothing older.  On its way is what both ends are ready for.
The notices that say so take a while themselves, so a rank is patient: it begins something older only when
nothing of what is newer has happened to it for some milliseconds.
"""

from collections import Counter, deque
from collections.abc import Iterable
from math import inf
from typing import Literal

from gradwire.traces.units import one_of

Order = Literal["fifo", "newest-first"]
FIFO: Order = "fifo"  # each send leaves when it may
NEWEST_FIRST: Order = "newest-first"
ORDERS = (FIFO, NEWEST_FIRST)
PATIENCE_S = (
    0.005  # a receiver's notice was there 0.3 to 2.5 ms after the step before, with 16 ranks on 2 CPUs
)

Slot = tuple[int, int]
"""The destination of sends, and what else they share: those of one slot leave in the order of offers."""


def parse_order(text: str) -> Order:
    """An order by its name."""
    return one_of("order", text, ORDERS)


class Outbox:
    """The sends of one rank that may leave; `ops` has the operation of each send that the rank makes.

    Times are in seconds.  `ask_again_s` is when `next` may have another answer though nothing happens.
    """

    def __init__(self, ops: Iterable[int], patience_s: float = 0.0) -> None:
        self._patience_s = patience_s
        self._happened_s: dict[int, float] = {}  # by operation of which there is more to send
        self.ask_again_s = inf
        self._to_send = Counter(ops)
        self._coming: Counter[int] = Counter()
        self._ready_at_one_end: set[int] = set()  # receives
        self._waiting: dict[Slot, deque[tuple[int, int]]] = {}
        self._under_way: dict[int, tuple[int, Slot]] = {}  # by send: its operation and slot

    def offer(self, slot: Slot, op: int, send: int) -> None:
        """A send may leave as far as all else is concerned."""
        self._waiting.setdefault(slot, deque()).append((op, send))

    def end_ready(self, receive: int, op: int, now_s: float) -> None:
        """One end of a receive has become ready for it; when both are, it is on its way."""
        if receive in self._ready_at_one_end:
            self.coming(op, now_s)
        self._ready_at_one_end ^= {receive}

    def coming(self, op: int, now_s: float) -> None:
        """Something of an operation is on its way to the rank."""
        self._coming[op] += 1
        self._happened_s[op] = now_s

    def came(self, op: int, now_s: float) -> None:
        self._coming[op] -= 1
        self._happened_s[op] = now_s

    def over(self, send: int) -> None:
        """The kernel has taken all of a send that was under way."""
        del self._under_way[send]

    def next(self, now_s: float) -> int | None:
        """The send that leaves now, if any: then it is under way."""
        self.ask_again_s = inf
        found = self._first()
        if found is None:
            return None
        op, slot = found
        if any(count > 0 and newer > op and self._to_send[newer] for newer, count in self._coming.items()):
            return None
        newer_s = [at_s for newer, at_s in self._happened_s.items() if newer > op and self._to_send[newer]]
        if newer_s and now_s < max(newer_s) + self._patience_s:
            self.ask_again_s = max(newer_s) + self._patience_s
            return None
        _, send = self._waiting[slot].popleft()
        if not self._waiting[slot]:
            del self._waiting[slot]
        self._to_send[op] -= 1
        self._happened_s[op] = now_s
        self._under_way[send] = op, slot
        return send

    def _first(self) -> tuple[int, Slot] | None:
        """The newest operation of which a send is next in its slot, and the slot of its first such send; None
        while sends of another operation are under way, or one in each such slot.
        """
        if not self._waiting:
            return None
        newest = max(sends[0][0] for sends in self._waiting.values())
        if any(op != newest for op, _ in self._under_way.values()):
            return None
        taken = {slot for _, slot in self._under_way.values()}
        free = [
            (sends[0][1], slot)
            for slot, sends in self._waiting.items()
            if sends[0][0] == newest and slot not in taken
        ]
        return (newest, min(free)[1]) if free else None

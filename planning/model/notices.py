"""How many sends ahead receivers announce that they are ready, as the agents do (emu.replay.slots)."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Hashable

from gradwire.traces.schedules.pacing import ANNOUNCED_AHEAD


class Notices:
    """By lane, the sends of a slot from one rank to another: how many are announced that have not come, and
    which might be but have to wait until half of those have.  In lanes of `both_ways`, whose receivers send
    to their sources in the slot as well, none has to wait.
    """

    def __init__(self, both_ways: Collection[Hashable] = ()) -> None:
        self._both_ways = both_ways
        self._n_ahead: Counter[Hashable] = Counter()
        self._waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)

    def ready(self, lane: Hashable, item: int) -> list[int]:
        """The receiver is ready for an item; returns those to announce now."""
        self._waiting[lane].append(item)
        return self._next(lane)

    def came(self, lane: Hashable) -> list[int]:
        """An item that was announced has come; returns those to announce now."""
        self._n_ahead[lane] -= 1
        return self._next(lane)

    def _next(self, lane: Hashable) -> list[int]:
        waiting = self._waiting[lane]
        if lane in self._both_ways:
            announced = [*waiting]
            waiting.clear()
            return announced
        if not waiting or self._n_ahead[lane] > ANNOUNCED_AHEAD // 2:
            return []
        announced = [
            waiting.popleft() for _ in range(min(len(waiting), ANNOUNCED_AHEAD - self._n_ahead[lane]))
        ]
        self._n_ahead[lane] += len(announced)
        return announced

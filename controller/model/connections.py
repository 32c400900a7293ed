"""Connections that send: the bytes of each go in order, as in TCP, at its fair share of the links.

Of an item, bytes that are sent without a break, two moments matter.  TCP has *taken* it when its last byte is
in the socket's buffer: then its sender goes on.  It has *left* when its last byte has.  With B bytes of
buffer an item that ends at byte E of the stream has been taken when E - B bytes have left.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from controller.model.fairshare import FairShares

ROUNDING_NBYTES = 1e-3  # what rounding may leave of bytes that have left
LEFT, TAKEN = range(2)


class Event(NamedTuple):
    """An item of a flow has LEFT, or is TAKEN."""

    kind: int
    item: int
    flow: int


class Connections:
    """All connections, and trees of aggregations, by the number of their flow.

    Bytes are counted since a connection last had nothing to send; `rates` are payload in bytes per second.
    """

    def __init__(
        self, paths: Sequence[Sequence[int]], capacity: Sequence[float], buffer_nbytes: float
    ) -> None:
        n_flows = len(paths)
        self._shares = FairShares(paths, capacity)
        self._buffer = buffer_nbytes
        self.rates = [0.0] * n_flows
        self.begun_s = [0.0] * n_flows  # when it last began to send
        self.queued = [0.0] * n_flows  # bytes of all its items since then
        self._passed = [0.0] * n_flows  # bytes that had left at `_since_s`
        self._since_s = [0.0] * n_flows
        # Of LEFT and TAKEN: (bytes, item), which happens to the item when so many bytes have left.
        self._marks: list[tuple[deque[tuple[float, int]], ...]] = [
            (deque(), deque()) for _ in paths
        ]  # LEFT, TAKEN
        self._held: set[int] = set()
        self._touched: dict[int, None] = {}  # flows whose next mark or rate may have changed
        self._due: list[tuple[float, int, int]] = []  # (when, flow, its round), of old rounds too
        self._round = [0] * n_flows  # counts how often a flow's next mark was worked out

    def add(self, flow: int, item: int, nbytes: float, now_s: float) -> list[Event]:
        """An item becomes ready to be sent; returns what happens to it at once."""
        lefts, takens = self._marks[flow]
        if lefts:
            self._pass(flow, now_s)
        else:
            self.begun_s[flow] = self._since_s[flow] = now_s
            self._passed[flow] = self.queued[flow] = 0.0
        self.queued[flow] += nbytes
        lefts.append((self.queued[flow], item))
        takens.append((self.queued[flow] - self._buffer, item))
        return self._events(flow)

    def hold(self, flow: int) -> None:
        """Nothing of it leaves until it is let go: what it sends waits behind that of others."""
        self._held.add(flow)

    def let_go(self, flow: int) -> None:
        self._held.remove(flow)
        self._touched[flow] = None

    def is_sending(self, flow: int) -> bool:
        return bool(self._marks[flow][LEFT])

    def passed(self, flow: int, now_s: float) -> float:
        """How many bytes have left."""
        return min(self.queued[flow], self._passed[flow] + (now_s - self._since_s[flow]) * self.rates[flow])

    def next_s(self, now_s: float) -> float:
        """When the next item is taken or leaves; infinity if none will."""
        self._share(now_s)
        while self._due and self._is_old(self._due[0]):
            heappop(self._due)
        return self._due[0][0] if self._due else inf

    def happened(self, now_s: float) -> list[Event]:
        """What happens now, or is away from it by no more than rounding."""
        events = []
        while self._due:
            when_s, flow, _ = self._due[0]
            if not self._is_old(self._due[0]):
                if (when_s - now_s) * self.rates[flow] > ROUNDING_NBYTES:
                    break
                self._pass(flow, now_s)
                self._passed[flow] = max(self._passed[flow], self._next_mark(flow))
                self._round[flow] += 1
                events += self._events(flow)
            heappop(self._due)
        return events

    def _events(self, flow: int) -> list[Event]:
        self._touched[flow] = None
        passed = self._passed[flow] + ROUNDING_NBYTES
        events = []
        for kind in (TAKEN, LEFT):
            marks = self._marks[flow][kind]
            while marks and marks[0][0] <= passed:
                events.append(Event(kind, marks.popleft()[1], flow))
        return events

    def _next_mark(self, flow: int) -> float:
        return min(marks[0][0] for marks in self._marks[flow] if marks)

    def _pass(self, flow: int, now_s: float) -> None:
        self._passed[flow] = self.passed(flow, now_s)
        self._since_s[flow] = now_s

    def _may_send(self, flow: int) -> bool:
        return self.is_sending(flow) and flow not in self._held

    def _is_old(self, due: tuple[float, int, int]) -> bool:
        return self._round[due[1]] != due[2]

    def _share(self, now_s: float) -> None:
        """Work out the rates again of all whom those concern that began to send or have sent all."""
        touched, self._touched = self._touched, {}
        if not touched:
            return
        began = [flow for flow in touched if self._may_send(flow) and not self.rates[flow]]
        ended = [flow for flow in touched if self.rates[flow] and not self.is_sending(flow)]
        for flow in ended:
            self.rates[flow] = 0.0
        for flow, rate in self._shares.change(began, ended) if began or ended else ():
            self._pass(flow, now_s)
            self.rates[flow] = rate
            touched[flow] = None
        for flow in touched:
            self._round[flow] += 1
            if self._may_send(flow):
                when_s = self._since_s[flow] + (self._next_mark(flow) - self._passed[flow]) / self.rates[flow]
                heappush(self._due, (when_s, flow, self._round[flow]))

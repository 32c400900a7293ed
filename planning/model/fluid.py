"""Connections that share links: each sends its bytes in order, as TCP does, at its fair rate.

No packets and no queues.  An item, bytes that are sent without a break, has arrived when its last byte has
left; notices take no time.  TCP has taken it when its last byte is in the sender's socket, which is filled
and emptied as planning.model.segments says.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from gradwire.planning.model.fairshare import FairShares
from gradwire.planning.model.loops import ROUNDING_NBYTES
from gradwire.planning.model.network import EventKind, NetworkEvent
from gradwire.planning.model.socketbuffer import Socket

NO_SOCKET = Socket.of(0, 1)


class FluidNetwork:
    """All connections, and trees of aggregations, by the number of their flow.

    Bytes are counted since a connection last had nothing to send; rates are payload in bytes per second.
    `socket` is that of each sender.
    """

    def __init__(
        self,
        paths: Sequence[Sequence[int]],
        capacity: Sequence[float],
        socket: Socket = NO_SOCKET,
    ) -> None:
        n_flows = len(paths)
        self._socket = socket
        self._shares = FairShares(paths, capacity)
        self._rates = [0.0] * n_flows
        self._queued = [0.0] * n_flows  # bytes of all items since it had nothing to send
        self._passed = [0.0] * n_flows  # bytes that had left at `_since_s`
        self._since_s = [0.0] * n_flows
        self._ends: list[deque[tuple[float, int]]] = [deque() for _ in paths]  # (bytes with it, item)
        self._takes: list[deque[tuple[float, int]]] = [deque() for _ in paths]  # likewise, of what is TAKEN
        self._filled_from = [0.0] * n_flows  # what had left when its sender filled the socket
        self._touched: dict[int, None] = {}  # flows whose next end or rate may have changed
        self._due: list[tuple[float, int, int]] = []  # (when, flow, its round), of old rounds too
        self._round = [0] * n_flows  # counts how often a flow's next end was worked out

    def add(self, flow: int, item: int, nbytes: float, now_s: float) -> list[NetworkEvent]:
        """An item becomes ready to be sent; returns what happens at once."""
        if self._ends[flow]:
            self._pass(flow, now_s)
        else:
            self._since_s[flow] = now_s
            self._passed[flow] = self._queued[flow] = 0.0
        self._queued[flow] += nbytes
        self._ends[flow].append((self._queued[flow], item))
        self._takes[flow].append((self._taken_nbytes(flow), item))
        return self._left(flow)

    def _taken_nbytes(self, flow: int) -> float:
        """How much has left when all that is queued is in the socket, or has left as well."""
        if not self._takes[flow]:
            self._filled_from[flow] = self._passed[flow]
        taken_nbytes = self._socket.taken_nbytes(self._filled_from[flow], self._queued[flow])
        return min(self._queued[flow], taken_nbytes)

    def receiver_ready(self, _flow: int, item: int) -> list[NetworkEvent]:
        return [NetworkEvent(EventKind.NOTICE, item)]

    def sender_ready(self, _flow: int, item: int) -> list[NetworkEvent]:
        return [NetworkEvent(EventKind.ASKED, item)]

    def advance(self, now_s: float, until_s: float) -> tuple[float, list[NetworkEvent]]:
        """Go on to when the next item leaves; what is away from it by no more than rounding happens too."""
        self._share(now_s)
        while self._due and self._is_old(self._due[0]):
            heappop(self._due)
        now_s = max(now_s, min(self._due[0][0] if self._due else inf, until_s))
        events = []
        while self._due:
            when_s, flow, _ = self._due[0]
            if not self._is_old(self._due[0]):
                if (when_s - now_s) * self._rates[flow] > ROUNDING_NBYTES:
                    break
                self._pass(flow, now_s)
                self._passed[flow] = max(self._passed[flow], self._next_nbytes(flow))
                self._round[flow] += 1
                events += self._left(flow)
            heappop(self._due)
        return now_s, events

    def _left(self, flow: int) -> list[NetworkEvent]:
        self._touched[flow] = None
        events = []
        for what, waiting in ((EventKind.TAKEN, self._takes[flow]), (EventKind.ARRIVED, self._ends[flow])):
            while waiting and waiting[0][0] <= self._passed[flow] + ROUNDING_NBYTES:
                events.append(NetworkEvent(what, waiting.popleft()[1]))
        return events

    def _next_nbytes(self, flow: int) -> float:
        """How much of a connection has left when the next item of it has been taken or has arrived."""
        return min(waiting[0][0] for waiting in (self._takes[flow], self._ends[flow]) if waiting)

    def _pass(self, flow: int, now_s: float) -> None:
        passed = self._passed[flow] + (now_s - self._since_s[flow]) * self._rates[flow]
        self._passed[flow] = min(self._queued[flow], passed)
        self._since_s[flow] = now_s

    def _is_old(self, due: tuple[float, int, int]) -> bool:
        return self._round[due[1]] != due[2]

    def _share(self, now_s: float) -> None:
        """Work out the rates again of all whom those concern that began to send or have sent all."""
        touched, self._touched = self._touched, {}
        if not touched:
            return
        began = [flow for flow in touched if self._ends[flow] and not self._rates[flow]]
        ended = [flow for flow in touched if self._rates[flow] and not self._ends[flow]]
        for flow in ended:
            self._rates[flow] = 0.0
        for flow, rate in self._shares.change(began, ended) if began or ended else ():
            self._pass(flow, now_s)
            self._rates[flow] = rate
            touched[flow] = None
        for flow in touched:
            self._round[flow] += 1
            if self._ends[flow]:
                left = self._next_nbytes(flow) - self._passed[flow]
                heappush(self._due, (self._since_s[flow] + left / self._rates[flow], flow, self._round[flow]))

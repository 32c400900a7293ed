"""What a notice waits behind: data on its own connection, and the queues on its path.

A notice has next to no bytes but it keeps its place: behind the data that its own connection still has to
send, and at each link behind the data of others that wait there.  The fluid model has rates but no queues;
here the queues follow from the rates.  A connection that began to send at t hands its bytes over as fast as
the links let them on.  With H bytes handed to TCP, S of them through the link that holds the connection up,
window W, and u_k the rate of the slowest of its first k links, what came out of link k by now is

    out_k = min(H, S + W, u_k (now - t))    before the link that holds the connection up, S from there on,

and what waits at link k is out_(k-1) - out_k.  Nothing limits what comes to its own host's port but the
kernel, which lets a connection have no more than a few segments wait there (TCP small queues).
"""

from collections.abc import Sequence
from math import inf

from controller.model.connections import Connections

SAME_TIME_S = 1e-12  # times that differ by less are the same, but for rounding
_FULL = 1 - 1e-6  # of its capacity: such a link holds up those that use it
# Linux lets a socket have two segments and a millisecond's worth wait below TCP (tcp_small_queue_check).
PORT_SEGMENTS = 2


class Queues:
    """The queues in front of all links; `capacity` is in bytes of payload per second."""

    def __init__(
        self,
        paths: Sequence[Sequence[int]],
        capacity: Sequence[float],
        window_nbytes: float,
        segment_nbytes: float,
        connections: Connections,
    ) -> None:
        self._paths = paths
        self._capacity = capacity
        self._window = window_nbytes
        self._port = PORT_SEGMENTS * segment_nbytes
        self._connections = connections
        self._latest = [(-1.0, 0.0)] * len(paths)  # when it was last handed bytes, how many then
        self._users: list[dict[int, None]] = [{} for _ in capacity]  # links -> flows that send

    def hand(self, flow: int, nbytes: float, now_s: float) -> None:
        """A connection is handed bytes."""
        for link in self._paths[flow]:
            self._users[link][flow] = None
        last_s, just_now = self._latest[flow]
        self._latest[flow] = (now_s, nbytes + just_now if now_s - last_s < SAME_TIME_S else nbytes)

    def pause(self, flow: int) -> None:
        """It has sent all that it was handed."""
        for link in self._paths[flow]:
            self._users[link].pop(flow, None)

    def next_wait_s(self, flow: int, hop: int, now_s: float) -> tuple[float, int]:
        """How long a notice on a connection waits at the first link, from number `hop` of its path on, where
        anything waits, and the number of the link after it.

        A rank writes what it announces before what it sends at the same instant, so on its own connection a
        notice is ahead of data that was handed over just now.
        """
        last_s, just_now = self._latest[flow]
        behind = just_now if now_s - last_s < SAME_TIME_S else 0.0
        connections = self._connections
        if hop == 0 and connections.rates[flow]:
            ahead = connections.queued[flow] - behind - connections.passed(flow, now_s)
            return max(0.0, ahead) / connections.rates[flow], len(self._paths[flow])
        but = flow if now_s - connections.begun_s[flow] < SAME_TIME_S else None
        for number, link in enumerate(self._paths[flow][hop:], start=hop):
            if (before := self._before(link, now_s, but)) > 0:
                return before / self._capacity[link], number + 1
        return 0.0, len(self._paths[flow])

    def data_wait_s(self, flow: int, hop: int, now_s: float) -> tuple[float, int]:
        """The same for what a connection begins to send: how long it waits before it has its fair share.

        What stands before it goes first.  Inside the fabric its own first window follows, into which others
        put only what the link let them send while it came in: at the rate A of the slowest link before, so
        it has A / (A + C) of its rate C, and not a half.  As a fair share begins with a half, that begins
        earlier than by what stands before by (1 - C / A) of the window.
        """
        path = self._paths[flow]
        access = min(self._capacity[link] for link in path[: max(1, hop)])
        for number, link in enumerate(path[hop:], start=hop):
            capacity = self._capacity[link]
            if (before := self._before(link, now_s, but=flow)) > 0:
                window = min(self._connections.queued[flow], self._window)
                ahead = before - window * max(0.0, 1 - capacity / access)
                if ahead > 0:
                    return ahead / capacity, number + 1
            access = min(access, capacity)
        return 0.0, len(path)

    def _before(self, link: int, now_s: float, but: int | None) -> float:
        """Bytes of all connections, or all but one, that wait at a link."""
        return sum(self._waiting(flow, link, now_s) for flow in self._users[link] if flow != but)

    def _waiting(self, flow: int, link: int, now_s: float) -> float:
        """Bytes of a connection that wait at a link of its path."""
        connections = self._connections
        through = connections.passed(flow, now_s)
        most = min(connections.queued[flow], through + self._window)
        if most <= through:
            return 0.0
        came, slowest = most, inf
        for number, each in enumerate(self._paths[flow]):
            slowest = min(slowest, self._capacity[each])
            holds_up = self._is_full(each)
            gone = through
            if not holds_up:
                gone = max(gone, min(most, slowest * (now_s - connections.begun_s[flow])))
            if each == link:
                return min(came - gone, self._port) if number == 0 else came - gone
            if holds_up:
                return 0.0
            came = gone
        return 0.0

    def _is_full(self, link: int) -> bool:
        rates = self._connections.rates
        return sum([rates[flow] for flow in self._users[link]]) >= self._capacity[link] * _FULL

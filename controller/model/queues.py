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

from collections.abc import Callable, Sequence
from math import inf

_FULL = 1 - 1e-6  # of its capacity: such a link holds up those that use it
# Linux lets a socket have two segments and a millisecond's worth wait below TCP (tcp_small_queue_check).
PORT_SEGMENTS = 2


class Queues:
    """The queues in front of all links; `capacity` and `rates`, those of all connections now, are in bytes of
    payload per second.  `through` says how much of what a connection is sending now has left.
    """

    def __init__(
        self,
        paths: Sequence[Sequence[int]],
        capacity: Sequence[float],
        window_nbytes: float,
        segment_nbytes: float,
        rates: Sequence[float],
        through: Callable[[int], float],
    ) -> None:
        self._paths = paths
        self._capacity = capacity
        self._window = window_nbytes
        self._port = PORT_SEGMENTS * segment_nbytes
        self._rates = rates
        self._under_way = through
        n_flows = len(paths)
        self._since_s = [0.0] * n_flows  # since when a connection sends without a pause
        self._handed = [0.0] * n_flows  # bytes that TCP was handed since then
        self._ended = [0.0] * n_flows  # of those the bytes of sends that have ended
        self._latest = [(-1.0, 0.0)] * n_flows  # when it was last handed bytes, and how many at that instant
        self._users: list[dict[int, None]] = [{} for _ in capacity]  # links -> flows that send

    def begin(self, flow: int, now_s: float) -> None:
        """A connection begins to send after a pause."""
        self._since_s[flow] = now_s
        self._handed[flow] = self._ended[flow] = 0.0
        for link in self._paths[flow]:
            self._users[link][flow] = None

    def hand(self, flow: int, nbytes: float, now_s: float) -> None:
        self._handed[flow] += nbytes
        last_s, just_now = self._latest[flow]
        self._latest[flow] = (now_s, nbytes + just_now if last_s == now_s else nbytes)

    def end_send(self, flow: int, nbytes: float) -> None:
        self._ended[flow] += nbytes

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
        path = self._paths[flow]
        last_s, just_now = self._latest[flow]
        behind = just_now if last_s == now_s else 0.0
        if hop == 0 and self._rates[flow]:
            ahead = self._handed[flow] - behind - self._through(flow)
            return max(0.0, ahead) / self._rates[flow], len(path)
        for number in range(hop, len(path)):
            link = path[number]
            waiting = sum(
                self._waiting(other, link, now_s)
                for other in self._users[link]
                if other != flow or self._since_s[flow] < now_s
            )
            if waiting > 0:
                return waiting / self._capacity[link], number + 1
        return 0.0, len(path)

    def _through(self, flow: int) -> float:
        return min(self._handed[flow], self._ended[flow] + self._under_way(flow))

    def _waiting(self, flow: int, link: int, now_s: float) -> float:
        """Bytes of a connection that wait at a link of its path."""
        through = self._through(flow)
        most = min(self._handed[flow], through + self._window)
        if most <= through:
            return 0.0
        came, slowest = most, inf
        for number, each in enumerate(self._paths[flow]):
            slowest = min(slowest, self._capacity[each])
            holds_up = self._is_full(each)
            gone = through
            if not holds_up:
                gone = max(gone, min(most, slowest * (now_s - self._since_s[flow])))
            if each == link:
                return min(came - gone, self._port) if number == 0 else came - gone
            if holds_up:
                return 0.0
            came = gone
        return 0.0

    def _is_full(self, link: int) -> bool:
        rates = self._rates
        return sum([rates[flow] for flow in self._users[link]]) >= self._capacity[link] * _FULL

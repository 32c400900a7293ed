"""The costs of hosts in the model: latency of each message, and processors that handle one after the other.

All emulated hosts share the processors of one machine, so what a message costs depends on how many other
ranks have something to do at that moment.  Here that is a queue: a rank that has messages to handle waits for
a free processor, handles one, and goes to the end of the queue if it has more.
"""

from collections import deque
from dataclasses import dataclass
from math import inf
from random import Random
from typing import NamedTuple

import numpy as np

from gradwire.planning.transport import Transport, held_nbytes

# How long after an arrival what it releases leaves, with segments (planning.model.segments).  Of the segments
# that left within 60 µs of one in live jobs, the middle half left 14 to 32 µs after it on one machine (800 of
# them, median 22), and 10 to 23 on a faster one (11,900, median 15).
RELEASE_S = 20e-6
# How late a timer wakes a port that may send again, where processors rested.  In a replay on one machine with
# two processors half of 354 notices, of 36 µs at 25 Mb/s, were followed by their data within 16 µs, a quarter
# within 8, a quarter after 60 to 150: timers were 20 µs late or more, and by turns much later.  So it is
# drawn from this range, as evenly as can be.
LATE_S = (20e-6, 80e-6)
# A processor that has nothing to do polls for so long before the host gives it away; woken after that it is
# late.  Assumed, not measured: KVM's default (halt_poll_ns; Documentation/virt/kvm/halt-polling.rst, Linux).
POLLED_S = 200e-6
# By when, of what a replay's hosts computed, so great a share had ended late: of 12,300 on a machine with two
# processors that had little else to do.
LATE_COMPUTING_S = (
    (0.0, 5e-6),
    (0.5, 34e-6),
    (0.9, 70e-6),
    (0.95, 109e-6),
    (0.98, 224e-6),
    (0.99, 332e-6),
    (0.999, 857e-6),
    (1.0, 2.017e-3),
)
_SHARES, _COMPUTED_LATE_S = np.array(LATE_COMPUTING_S).T


@dataclass(frozen=True, slots=True)
class HostCosts:
    """`wire_s` is the latency of a message of a few bytes from a rank to its peer, without what either does.

    A rank keeps a processor busy for `start_s` at the start, and for `message_s` with each notice and each
    send that comes in; bytes cost nothing of their own, for they are handled while more of them come in.
    A processor that had nothing to do for POLLED_S begins `wake_s` late.
    `segment_nbytes` is what TCP hands on at once, 0 if links are shared as fluids are and notices wait behind
    nothing.  `buffer_nbytes` matters only with segments: it is the memory that a sender's socket holds, whose
    send is over for it when TCP has taken the last byte.

    With `seed` each of these times of a processor is drawn for itself, from half to one and a half of it:
    ranks that all take exactly as long keep step, or meet again and again, as real ones do not.  What a rank
    computes then ends late, as timers do (LATE_COMPUTING_S).  0: none is drawn, and nothing is late.
    `release_s` is how long after an arrival what it releases leaves, with segments, and `late_s` from where
    to where a timer is late that wakes a port.
    """

    wire_s: float
    start_s: float
    message_s: float
    n_cpus: int
    segment_nbytes: float = 0.0
    buffer_nbytes: float = 0.0
    seed: int = 0
    release_s: float = RELEASE_S
    wake_s: float = 0.0
    late_s: tuple[float, float] = LATE_S


def costs_with(
    transport: Transport, *, wire_s: float, start_s: float, message_s: float, n_cpus: int, wake_s: float = 0.0
) -> HostCosts:
    """The costs of hosts whose connections are set up as `transport` says."""
    return HostCosts(
        wire_s,
        start_s,
        message_s,
        n_cpus,
        segment_nbytes=transport.gso_max_nbytes,
        buffer_nbytes=held_nbytes(transport),
        wake_s=wake_s,
    )


class Work(NamedTuple):
    """Something for a rank to do: what it leads to is `number`'s, of this `kind`."""

    kind: int
    number: int
    work_s: float


class Processors:
    """`n_cpus` processors; each rank has one thread.  Ranks that have work take turns, first come first, on
    the processor that was free last; one that was free for POLLED_S begins `wake_s` late.
    """

    def __init__(self, n_cpus: int, seed: int = 0, wake_s: float = 0.0) -> None:
        self._random = Random(seed) if seed else None
        self._wake_s = wake_s
        self._free_since_s = [-inf] * n_cpus
        self._todo: dict[int, deque[Work]] = {}
        self._turns: deque[int] = deque()  # ranks that have work and are not at it
        self._busy: set[int] = set()

    def computed_late_s(self) -> float:
        """How late what a rank computes ends."""
        if not self._random:
            return 0.0
        return float(np.interp(self._random.random(), _SHARES, _COMPUTED_LATE_S))

    def add(self, rank: int, work: Work) -> None:
        if self._random:
            work = work._replace(work_s=work.work_s * (0.5 + self._random.random()))
        todo = self._todo.setdefault(rank, deque())
        if not todo and rank not in self._busy:
            self._turns.append(rank)
        todo.append(work)

    def begun(self, now_s: float) -> list[tuple[int, Work]]:
        """The ranks that begin now, and what each does."""
        begun = []
        while self._free_since_s and self._turns:
            rank = self._turns.popleft()
            work = self._todo[rank].popleft()
            if now_s - self._free_since_s.pop() > POLLED_S:
                work = work._replace(work_s=self._wake_s + work.work_s)
            self._busy.add(rank)
            begun.append((rank, work))
        return begun

    def end(self, rank: int, now_s: float) -> None:
        """The rank is done with what it began."""
        self._free_since_s.append(now_s)
        self._busy.remove(rank)
        if self._todo[rank]:
            self._turns.append(rank)

"""An operation: a whole collective or a single message, with the times when each rank began and ended it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.algorithms import UNKNOWN, Recognised
from gradwire.traces.workload import Shape, Turn

ALLTOALLS = ("alltoall", "alltoallv", "alltoallw")  # names of `Operation.what`
OperationKind = Literal["allreduce", "broadcast", "message"]
# Where nobody says: the largest segment of gloo's ring.  Linux lets a buffer grow up to 4 MiB (tcp_wmem).
SOCKET_BUFFER_NBYTES = 1 << 20
# Of its buffer what a socket holds when it takes more: who found it full goes on when a third is free
# (`sk_stream_is_writeable` in include/net/sock.h), so between two thirds and all.
HELD = 5 / 6
Trees = tuple[Shape | None, Shape | None]  # up, down


@dataclass(frozen=True)
class Operation:
    """`begun` is when each rank's first byte of it was sent, `done` when it was complete for the application
    there: what it receives had arrived, and the last message that it sends had been handed to the kernel.

    A message has `src` and `dst`, a broadcast its root as `src`.  `what` is gloo's name of the
    collective that a message belongs to, or `send`.  `is_usual`: its sends are those of gloo's own
    algorithm for it; else it is replayed by the one that is `recognised`.  `trees` are the shapes of those by
    which data went up to the root and down from it, as far as it went by trees.
    Of a message `data_ns` is when its first byte of data left, `ready_ns` when its destination said that it
    could come, if that was seen.  `turns` are the exchanges of a collective whose two ways took turns.
    With `rendezvous` its messages waited for answers to their announcements.
    """

    kind: OperationKind
    what: str
    tag: int
    nbytes: int
    src: int
    dst: int
    begun: dict[int, int]
    done: dict[int, int]
    is_usual: bool = True
    recognised: Recognised = UNKNOWN
    trees: Trees | None = None
    is_whole: bool = True
    data_ns: int | None = None
    ready_ns: int | None = None
    turns: tuple[Turn, ...] = ()
    rendezvous: bool = False

    @property
    def is_of_alltoall(self) -> bool:
        """Whether it is a message of an alltoall, of even or uneven blocks."""
        return self.kind == "message" and self.what in ALLTOALLS

    @property
    def begin_ns(self) -> int:
        return min(self.begun.values())

    @property
    def end_ns(self) -> int:
        return max(self.done.values())


def handed_over_ns(messages: Messages) -> npt.NDArray[np.int64]:
    """When the source had given each message to its kernel, as near as packets show it.

    A send is complete when the socket has taken the bytes, not when the last of them leaves a slow interface.
    What the socket buffer can take is taken as soon as the message begins to be sent.  Of a larger message
    the rest is taken as it arrives, at an even pace: the last when all but what the buffer holds has arrived.
    Where nobody says how large buffers were the captures show only the end of those.
    """
    if messages.socket_nbytes is None:
        return np.where(messages.nbytes <= SOCKET_BUFFER_NBYTES, messages.first_ns, messages.last_ns)
    held = HELD * messages.socket_nbytes
    arrived = np.maximum(0.0, 1 - held / np.maximum(1, messages.nbytes))
    took_ns = np.maximum(0, messages.received_ns - messages.first_ns) * arrived
    taken_ns: npt.NDArray[np.int64] = messages.first_ns + took_ns.astype(np.int64)
    return np.minimum(messages.last_ns, taken_ns)


def earliest(ranks: npt.NDArray[np.int32], times: npt.NDArray[np.int64]) -> dict[int, int]:
    return {int(rank): int(times[ranks == rank].min()) for rank in np.unique(ranks)}


def latest(ranks: npt.NDArray[np.int32], times: npt.NDArray[np.int64]) -> dict[int, int]:
    return {int(rank): int(times[ranks == rank].max()) for rank in np.unique(ranks)}

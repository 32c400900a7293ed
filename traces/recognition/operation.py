"""An operation: one collective whole, or one message, with when each rank began it and was done."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from traces.recognition.algorithms import UNKNOWN, Recognised
from traces.workload import Shape

Kind = Literal["allreduce", "broadcast", "message"]
Trees = tuple[Shape | None, Shape | None]  # up, down


@dataclass(frozen=True)
class Operation:
    """`begun` is when each rank's first byte of it was sent, `done` when its last was sent or had
    arrived there.

    A message has `src` and `dst`, a broadcast its root as `src`.  `what` is gloo's name of the
    collective that a message belongs to, or `send`.  `is_usual`: its sends are those of gloo's own
    algorithm for it; else it is replayed by the one that is `recognised`.  `trees` are the shapes of those by
    which data went up to the root and down from it, as far as it went by trees.
    """

    kind: Kind
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

    @property
    def begin_ns(self) -> int:
        return min(self.begun.values())

    @property
    def end_ns(self) -> int:
        return max(self.done.values())


def earliest(ranks: npt.NDArray[np.int32], times: npt.NDArray[np.int64]) -> dict[int, int]:
    return {int(rank): int(times[ranks == rank].min()) for rank in np.unique(ranks)}


def latest(ranks: npt.NDArray[np.int32], times: npt.NDArray[np.int64]) -> dict[int, int]:
    return {int(rank): int(times[ranks == rank].max()) for rank in np.unique(ranks)}

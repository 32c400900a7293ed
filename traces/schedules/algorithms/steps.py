"""Sends in the making, step after step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gradwire.traces.schedules.sends import Send


class Transfer(NamedTuple):
    """What is to become a send; `needs` are the ids of sends whose data it carries on."""

    src: int
    dst: int
    offset: int
    nbytes: int
    needs: tuple[int, ...] = ()


@dataclass
class Steps:
    """The sends of one operation; a transfer of 0 bytes is left out, and so is a step without transfers.

    With `paced`, a rank begins a step, and is ready to receive in it, when it is done with the last step in
    which it sent or received: otherwise a fast pair's next step would compete with the steps that others are
    still in.  Without, sends wait only for their data.
    """

    paced: bool = True
    made: list[Send] = field(default_factory=list)
    n_steps: int = 0
    _done: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def step(self, transfers: Sequence[Transfer], *, reduce: bool) -> list[int | None]:
        """The id of the send of each transfer, None of one that is left out."""
        ids: list[int | None] = []
        here: dict[int, list[int]] = {}
        for src, dst, offset, nbytes, data in transfers:
            if not nbytes:
                ids.append(None)
                continue
            number = len(self.made)
            needs = tuple(sorted({*data, *(self._done.get(src, ()) if self.paced else ())}))
            ready = self._done.get(dst, ()) if self.paced else ()
            self.made.append(Send(0, src, dst, offset, nbytes, reduce, needs, ready, self.n_steps))
            ids.append(number)
            for rank in (src, dst):
                here.setdefault(rank, []).append(number)
        self._done |= {rank: tuple(some) for rank, some in here.items()}
        self.n_steps += bool(transfers)
        return ids

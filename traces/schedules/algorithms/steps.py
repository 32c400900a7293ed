"""Builds the sends of a schedule step by step."""

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

    They wait only for what they name; traces.schedules.pacing finds what else they have to wait for.
    """

    made: list[Send] = field(default_factory=list)
    n_steps: int = 0

    def step(self, transfers: Sequence[Transfer], *, reduce: bool) -> list[int | None]:
        """The id of the send of each transfer, None of one that is left out."""
        ids: list[int | None] = []
        for src, dst, offset, nbytes, needs in transfers:
            if not nbytes:
                ids.append(None)
                continue
            ids.append(len(self.made))
            self.made.append(Send(0, src, dst, offset, nbytes, reduce, needs, step=self.n_steps))
        self.n_steps += bool(transfers)
        return ids

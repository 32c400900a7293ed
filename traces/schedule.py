"""A schedule: which rank sends which bytes to whom, and what each send waits for.

The unit is the *send*, one chunk from one rank to another.  Sends belong to *operations* (a
collective, or a point-to-point message); an operation has one buffer of `nbytes` on every rank
that takes part.  A schedule says nothing of hosts, links or time: only what must come before what.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

OpKind = Literal["allreduce", "broadcast", "message"]


@dataclass(frozen=True, slots=True)
class Send:
    """One chunk in flight; its id is its position in `Schedule.sends`.

    With `reduce` the receiver adds it to its own copy, without it the receiver's copy is replaced.
    `needs` are sends that come before it at its source: one that the source receives must have
    arrived and been added, one that the source itself makes must have been handed to its kernel.
    `ready` is the same at the destination, for the moment when that announces that it will receive.
    """

    op: int
    src: int
    dst: int
    offset: int
    nbytes: int
    reduce: bool
    needs: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()
    step: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """A collective or a message; its id is its position in `Schedule.ops`."""

    kind: OpKind
    nbytes: int
    tag: int = 0
    root: int = 0  # the rank whose data it spreads: a broadcast's root, a message's source
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """`op` may begin at `rank` `gap_ns` after all of `after` (operations) are complete there."""

    op: int
    rank: int
    after: tuple[int, ...] = ()
    gap_ns: int = 0


@dataclass(frozen=True)
class Schedule:
    """All that `n_ranks` ranks send, as a DAG.  A rank without a gate for an op begins it at once."""

    n_ranks: int
    ops: tuple[Op, ...]
    sends: tuple[Send, ...]
    gates: tuple[Gate, ...] = field(default=())

    @property
    def payload_nbytes(self) -> int:
        return sum(send.nbytes for send in self.sends)


def sent_nbytes(schedule: Schedule) -> list[int]:
    """Payload bytes that each rank sends."""
    sent = [0] * schedule.n_ranks
    for send in schedule.sends:
        sent[send.src] += send.nbytes
    return sent


def contributions(sends: Sequence[Send], n_ranks: int, cuts: Iterable[int]) -> list[dict[int, Counter[int]]]:
    """What each rank holds at the end: have[rank][start of a piece] counts whose data is in it.

    `cuts` are the starts of the pieces of the buffer that no send divides.  An all-reduce is right
    when every count is exactly one for every rank.  The sends are carried out in the order of their
    ids, each reading what its source holds at that moment; its `needs` must therefore come first.
    """
    starts = sorted(set(cuts))
    have = [{start: Counter([rank]) for start in starts} for rank in range(n_ranks)]
    for number, send in enumerate(sends):
        if any(need >= number for need in send.needs):
            raise ValueError(f"send {number} needs a later one: {send.needs}")
        for start in starts:
            if send.offset <= start < send.offset + send.nbytes:
                data = have[send.src][start]
                held = have[send.dst][start]
                have[send.dst][start] = held + data if send.reduce else Counter(data)
    return have

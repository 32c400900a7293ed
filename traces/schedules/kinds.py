"""Kinds of operations: what each rank holds before and after one, a contract that every algorithm must keep.

To add a kind is to add an entry to CONTRACTS, beside the names in the files' schemas (CONTRIBUTING.md).
Costs are of n ranks with a buffer of S bytes each.  A collective's pre- and postcondition are MSCCL's way to
say what it is (Cowan et al., MSCCLang, ASPLOS 2023); bus-bandwidth factors are NCCL's (nccl-tests,
doc/PERFORMANCE.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

OpKind = Literal["allreduce", "broadcast", "reduce", "message", "compute"]


class Data(Enum):
    """What a rank's buffer holds."""

    NOTHING = auto()
    OWN = auto()  # what the rank has made itself
    ROOTS = auto()  # the root's own
    SUM = auto()  # of all ranks' own, element by element, as float32


@dataclass(frozen=True, slots=True)
class Contract:
    """`before` and `after` are what the root holds, and what the others do.

    `each_nbytes(n, S)` must go out of every rank's host and come into it at least, however good the
    algorithm; None where that differs from rank to rank.  `payload_nbytes(n, S)` is what all ranks send
    together at least.
    """

    before: tuple[Data, Data]
    after: tuple[Data, Data]
    payload_nbytes: Callable[[int, int], int]
    each_nbytes: Callable[[int, int], float] | None = None
    is_collective: bool = True

    @property
    def adds(self) -> bool:
        """Whether data are added, so that sizes are of whole elements."""
        return Data.SUM in self.after

    def takers(self, givers: Sequence[int], root: int) -> tuple[int, ...]:
        """Who has the sum at the end, if `givers` are those that have something to add."""
        return tuple(givers) if self.after[1] is Data.SUM else (root,)

    def busbw_factor(self, n_ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth."""
        return self.each_nbytes(n_ranks, 1) if self.each_nbytes else 1.0


def _to_all(n_ranks: int, nbytes: int) -> int:
    return (n_ranks - 1) * nbytes


CONTRACTS: dict[OpKind, Contract] = {
    # 2(n-1)/n S: Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009.
    "allreduce": Contract(
        before=(Data.OWN, Data.OWN),
        after=(Data.SUM, Data.SUM),
        payload_nbytes=lambda n, nbytes: 2 * (n - 1) * nbytes,
        each_nbytes=lambda n, nbytes: 2 * (n - 1) * nbytes / n,
    ),
    "broadcast": Contract((Data.OWN, Data.NOTHING), (Data.ROOTS, Data.ROOTS), _to_all),
    # Only switches do it: pushes to one server that they add up on the way.
    "reduce": Contract((Data.NOTHING, Data.OWN), (Data.SUM, Data.OWN), _to_all),
    "message": Contract(
        (Data.OWN, Data.NOTHING), (Data.ROOTS, Data.ROOTS), lambda _, nbytes: nbytes, is_collective=False
    ),
    "compute": Contract(
        (Data.NOTHING, Data.NOTHING), (Data.NOTHING, Data.NOTHING), lambda *_: 0, is_collective=False
    ),
}

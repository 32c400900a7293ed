"""What an algorithm may know of the network that its ranks are on, and of what is in its buffer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt

from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.dtypes import DType
from gradwire.traces.schedules.kinds import BlockSizes, narrowing

Leaves = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Hints:
    """`leaves` has the ranks under each first switch, `graph` the switches and links between them.

    `grid` is (rows, columns) of a grid of the ranks, of which rank r is in row r div columns; None: the most
    square one.  `host_bps` is the rate of the slowest host's link, `rates_bps` has that of each rank's.
    `keys` are the elements of each tensor in the buffer, in their order there; empty if nobody said.
    `send_delay_s` is for how long each send is held back, as on a slow core.
    `sizes` are those of an alltoall of uneven blocks: what each rank has for each; empty: blocks of one size.
    """

    leaves: Leaves = ()
    graph: Graph | None = None
    grid: tuple[int, int] | None = None
    host_bps: int = 100_000_000
    rates_bps: Sequence[int] = ()
    keys: Sequence[int] = ()
    sizes: BlockSizes = ()
    send_delay_s: float = 0.0


NO_HINTS = Hints()


def as_float32(nbytes: int, hints: Hints, dtype: DType) -> tuple[int, Hints]:
    """What an algorithm is asked, which cuts float32, for `nbytes` of `dtype`: as many numbers, on links
    that are as many times faster as these are smaller.
    """
    factor = narrowing(dtype)
    return nbytes * factor, replace(hints, host_bps=hints.host_bps * factor)


def grid_of(n_ranks: int, hints: Hints) -> tuple[int, int]:
    """Rows and columns; of a prime number of ranks there is one row."""
    if hints.grid is not None and hints.grid[0] * hints.grid[1] == n_ranks:
        return hints.grid
    rows = next(rows for rows in range(isqrt(n_ranks), 0, -1) if n_ranks % rows == 0)
    return rows, n_ranks // rows

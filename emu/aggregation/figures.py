"""What aggregation did at one rank in one repeat: packets, and how exact the sums are.  Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SumError:
    """How far a sum that switches made is from that of all ranks' numbers in float64.

    `bound` is what an element may be off at most: half a unit of the scaled integers per giver, and half a
    unit of the float32 in which the result stands, at the largest scale of the operation's blocks.
    """

    op: int
    largest: float
    rms: float
    bound: float


@dataclass(frozen=True, slots=True)
class RankFigures:
    """`sent` counts packets that went out for the first time, bare ones too; `received` those whose result
    was new, `duplicates` those whose result was there already.  `statuses` are answers of a switch that the
    sum is not complete yet, `moves` how often a tree was built anew under way.
    """

    sent: int = 0
    retransmitted: int = 0
    received: int = 0
    duplicates: int = 0
    statuses: int = 0
    moves: int = 0
    errors: tuple[SumError, ...] = ()

"""Results of aggregation at one rank in one repeat: packets, and how exact the sums are.  Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SumError:
    """How far a sum that switches made is from that of all ranks' numbers in float64.

    `bound` is what an element may be off at most: half a unit of the scaled integers per giver, and half a
    unit of the float32 that the result is, at the largest scale of the operation's blocks.
    """

    op: int
    largest: float
    rms: float
    bound: float


@dataclass(frozen=True, slots=True)
class RankFigures:
    """`sent` counts packets that went out for the first time, bare ones too; `received` those whose result
    was new, `duplicates` those whose result was there already.  `statuses` are answers of a switch that the
    sum is not complete yet, `moves` how often a tree was built again under way.
    """

    sent: int = 0
    retransmitted: int = 0
    received: int = 0
    duplicates: int = 0
    statuses: int = 0
    moves: int = 0
    errors: tuple[SumError, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregationRow:
    """What aggregation did in a run, in a repeat (the median of those that count).

    `slots` is the most that the trees have at one switch, `elements` the most in a packet.
    `additions_per_result` is contributions added at all switches over sums completed at roots: a tree's
    number of links that carry sums upwards.  `contributions` are packets that hosts sent for the first time,
    `retransmitted` those sent again.  Errors are those of the sum that came nearest to its bound.
    `saturated` counts elements that an int32 could not hold: by construction none.  What only switches count
    is None where they have not, or where the trees have moved.
    """

    trees: int
    slots: int
    elements: int
    additions_per_result: float | None
    contributions: int
    retransmitted: int
    statuses: int
    moves: int
    largest_error: float
    rms_error: float
    error_bound: float
    saturated: int | None

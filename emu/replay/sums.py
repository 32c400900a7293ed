"""Real numbers for switches to add up, and how far their sum may be off.

Switches add integers, so a float32 that they are given is rounded first.  Small integers would show nothing
of that; these numbers do: normal ones whose magnitude differs from block to block and from rank to rank, with
blocks of zeros among them.  Yet their sum is known without a second addition: every rank's block is the same
few normal numbers times a factor of its own, both of 12 significant bits, so that each product is a float32
and the sum of the factors times the numbers is a float64, exactly.

The arithmetic of worker.c is here in numpy, float32 numbers as the integers that switches add up.  A tensor
goes in *blocks*, one packet's elements each.  The exponent e of a block is the smallest with |x| < 2^e for
all x of all givers; the first blocks, one for each slot, have the largest of theirs in common. The scale is
2^k with k = 30 - ceil(log2 givers) - e: integers are at most 2^30 / givers, so no sum leaves an int32.  Each
giver adds an error of half a unit 2^-k at most.

Runs need the exponents and the bounds, to judge sums by; the rest is what worker.c is tested against.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from gradwire.emu.aggregation.figures import SumError
from gradwire.planning.trees.tree import Tree
from gradwire.traces.framing.aggregation import NO_PEAK
from gradwire.traces.schedules.schedule import Aggregation

_PERIOD = 9973  # prime: the numbers of a block come back at another place of it
_BLOCK = 256  # elements of one magnitude; packets have 64, 256 or 2,048 elements
_PIECE = 1 << 18  # elements that are looked at together; whole blocks and whole packets
_SIGNIFICANT_BITS = 12
_LEAST_SCALE, _MOST_SCALE = -40, 8  # of a block, as a power of two
_RANK_SCALES = 7  # a rank's own numbers are up to 2^-6 of the block's
_ZERO_BLOCKS, _ZERO_OF_RANK = 1 / 32, 1 / 16
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

SUM_BITS = 30  # a sum is at most 2^30: it fits, and so does what rounding adds


def numbers(op: int, rank: int, n_elements: int) -> NDArray[np.float32]:
    """What `rank` has to give to operation `op`."""
    factors = _factors(op, rank, _n_blocks(n_elements)).astype(np.float32)
    repeated = np.resize(_normals(op).astype(np.float32), len(factors) * _BLOCK)
    return (repeated.reshape(-1, _BLOCK) * factors[:, None]).reshape(-1)[:n_elements]


def checked(aggregation: Aggregation, result: NDArray[np.float32], tree: Tree) -> tuple[int, SumError]:
    """How many elements of `result` are off by more than they may be, and how far they are off.

    The scales are worked out from what the ranks had to give, so workers that agreed on a wrong one show.
    What is not a number is wrong and has no error.
    """
    n_givers = len(aggregation.givers)
    of_first = _exponent_of_first(aggregation, len(result), tree)
    wrong, largest, squares, most = 0, 0.0, 0.0, 0.0
    for begin, expected, peaks in _expected(aggregation, len(result)):
        got = result[begin : begin + len(expected)]
        exponents = block_exponents(peaks, tree.elements)
        exponents[: max(0, tree.slots - begin // tree.elements)] = of_first
        finite = np.isfinite(got)
        error = np.where(finite, np.abs(got.astype(np.float64) - expected), 0)
        allowed = np.where(finite, bounds(got, exponents, tree.elements, n_givers), 0)
        wrong += int(np.count_nonzero(~finite | (error > allowed)))
        largest = max(largest, float(error.max()))
        squares += float(error @ error)
        most = max(most, float(allowed.max()))
    rms = float(np.sqrt(squares / max(1, len(result))))
    return wrong, SumError(aggregation.op, largest, rms, most)


def _exponent_of_first(aggregation: Aggregation, n_elements: int, tree: Tree) -> int:
    """The first packets, one for each slot, have one scale together: that of the largest number in them."""
    window = tree.slots * tree.elements
    pieces = takewhile(lambda piece: piece[0] < window, _expected(aggregation, n_elements))
    largest = max((peaks[: window - begin].max() for begin, _, peaks in pieces), default=0)
    return int(block_exponents(np.array([largest], np.float32), 1)[0])


def _expected(
    aggregation: Aggregation, n_elements: int
) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float32]]]:
    """For each piece: where it begins, the sum of all givers' numbers, the largest of them each."""
    op, n_blocks = aggregation.op, _n_blocks(n_elements)
    total, largest = np.zeros(n_blocks), np.zeros(n_blocks)
    for rank in aggregation.givers:
        factors = _factors(op, rank, n_blocks)
        total += factors
        np.maximum(largest, np.abs(factors), out=largest)
    normals = _normals(op)
    for begin in range(0, n_elements, _PIECE):
        count = min(_PIECE, n_elements - begin)
        piece = normals[np.arange(begin, begin + count) % _PERIOD]
        blocks = slice(begin // _BLOCK, _n_blocks(begin + count))
        sums, peaks = (piece * np.repeat(factors[blocks], _BLOCK)[:count] for factors in (total, largest))
        yield begin, sums, np.abs(peaks).astype(np.float32)


def _n_blocks(n_elements: int) -> int:
    return -(-n_elements // _BLOCK)


def _normals(op: int) -> NDArray[np.float64]:
    return _rounded(np.random.default_rng((op,)).standard_normal(_PERIOD))


def _factors(op: int, rank: int, n_blocks: int) -> NDArray[np.float64]:
    """One for each block: 0, or of 12 significant bits, and the block's magnitude times the rank's."""
    of_block, of_rank = np.random.default_rng((op, 0)), np.random.default_rng((op, 1, rank))
    scale = of_block.integers(_LEAST_SCALE, _MOST_SCALE + 1, n_blocks)
    scale -= of_rank.integers(0, _RANK_SCALES, n_blocks)
    factors = np.ldexp(_rounded(of_rank.uniform(-1, 1, n_blocks)), scale)
    is_zero = (of_block.random(n_blocks) < _ZERO_BLOCKS) | (of_rank.random(n_blocks) < _ZERO_OF_RANK)
    factors[is_zero] = 0
    return factors


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    mantissas, exponents_ = np.frexp(values)
    steps = 1 << _SIGNIFICANT_BITS
    return np.ldexp(np.round(mantissas * steps) / steps, exponents_)


def block_exponents(data: Floats, elements: int) -> Ints:
    """Of each block of `elements`, the last one shorter; NO_PEAK for one of zeros.

    Raise ValueError for a NaN or an infinity.
    """
    starts = np.arange(0, len(data), elements)
    largest = np.maximum.reduceat(np.abs(data), starts) if len(data) else np.zeros(0, np.float32)
    if not np.isfinite(largest).all():
        raise ValueError(
            f"element {np.flatnonzero(~np.isfinite(data))[0]} is not a finite number, so it cannot be added"
        )
    _, exponents = np.frexp(largest.astype(np.float64))
    return np.where(largest > 0, exponents, NO_PEAK).astype(np.int32)


def agreed(exponents: Sequence[Ints], slots: int) -> Ints:
    """What all use, given each giver's exponents: the first `slots` blocks share the prime chunk's."""
    largest: Ints = np.max(exponents, axis=0)
    largest[:slots] = largest[:slots].max(initial=NO_PEAK)
    return largest


def scale_log2(exponent: int, n_givers: int) -> int:
    """k: numbers are multiplied by 2^k and rounded.  Of a block of zeros it does not matter."""
    return SUM_BITS - (n_givers - 1).bit_length() - exponent


def to_ints(block: Floats, exponent: int, n_givers: int) -> Ints:
    """Rounded half to even."""
    if exponent == NO_PEAK:
        return np.zeros(len(block), np.int32)
    scaled = np.ldexp(block.astype(np.float64), scale_log2(exponent, n_givers))
    return np.rint(scaled).astype(np.int32)


def to_floats(sums: Ints, exponent: int, n_givers: int) -> Floats:
    """The value of the sum of givers' integers; infinite where float32 has no room, as its own sum."""
    if exponent == NO_PEAK:
        return np.zeros(len(sums), np.float32)
    with np.errstate(over="ignore"):
        return np.ldexp(sums.astype(np.float64), -scale_log2(exponent, n_givers)).astype(np.float32)


def bounds(result: Floats, exponents: Ints, elements: int, n_givers: int) -> Doubles:
    """How far each element may be from the exact sum, given the agreed exponents of the result's blocks.

    Half a unit of the scaled integers per giver, and half a unit of float32 at the result.
    """
    shift = scale_log2(0, n_givers)
    units = np.where(exponents == NO_PEAK, 0.0, np.ldexp(1.0, np.maximum(exponents, -148) - shift))
    per_element = np.repeat(units, elements)[: len(result)]
    _, magnitudes = np.frexp(np.where(np.isfinite(result), result, 0))
    magnitudes = np.where(result == 0, -125, np.maximum(magnitudes, -125))  # subnormals are 2^-149 apart
    half_ulps = np.ldexp(0.5, magnitudes - 24)
    return np.where(np.isfinite(result), n_givers / 2 * per_element + half_ulps, np.inf)

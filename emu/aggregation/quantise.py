"""Float32 numbers as the integers that switches add up: the arithmetic of worker.c, in numpy.

A tensor goes in *blocks*, one packet's elements each.  The exponent e of a block is the smallest with
|x| < 2^e for all x of all givers; the first blocks, one for each slot, have the largest of theirs in common.
The scale is 2^k with k = 30 - ceil(log2 givers) - e: integers are at most 2^30 / givers, so no sum leaves an
int32.  Each giver adds an error of half a unit 2^-k at most.

Runs need the exponents and the bounds, to judge sums by; the rest is what worker.c is tested against.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from traces.framing.aggregation import NO_PEAK

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

SUM_BITS = 30  # a sum is at most 2^30: it fits, and so does what rounding adds


def block_exponents(data: Floats, elements: int) -> Ints:
    """Of each block of `elements`, the last one shorter; NO_PEAK for one of zeros.

    Raise ValueError for a NaN or an infinity.
    """
    starts = np.arange(0, len(data), elements)
    largest = np.maximum.reduceat(np.abs(data), starts) if len(data) else np.zeros(0, np.float32)
    if not np.isfinite(largest).all():
        raise ValueError(f"element {np.flatnonzero(~np.isfinite(data))[0]} is not a number that can be added")
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
    """What the sum of givers' integers stands for; infinite where float32 has no room, as its own sum."""
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

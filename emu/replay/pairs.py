"""Pairs of an index and a value, as compressed allreduces send them, ascending by index.

Adding and merging are compiled: numpy takes 10 ns for a pair, which on few processors would be a tenth of a
run's time, and none of it the network's.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.packets.jit import compiled

PAIR = np.dtype([("index", "<i4"), ("value", "<f4")])
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def largest(numbers: Floats, n_kept: int) -> NDArray[np.intp]:
    """The places of the largest by size, ascending; of equal ones the first."""
    sizes = np.abs(numbers)
    least = np.partition(sizes, len(sizes) - n_kept)[len(sizes) - n_kept]
    above = np.flatnonzero(sizes > least)
    equal = np.flatnonzero(sizes == least)[: n_kept - len(above)]
    return np.sort(np.concatenate((above, equal)))


def packed(numbers: Floats, n_kept: int, first: int = 0) -> Bytes:
    """The pairs of the largest, as bytes; indices are counted from `first` on."""
    places = largest(numbers, n_kept)
    pairs = np.empty(n_kept, PAIR)
    pairs["index"], pairs["value"] = places + first, numbers[places]
    return pairs.view(np.uint8)


def add_pairs(dense: Floats, pairs: Bytes) -> None:
    """Add the values of all pairs at their indices."""
    read = pairs.view(PAIR)
    _add(dense, read["index"], read["value"])


def merge_pairs(own: Bytes, others: Bytes) -> None:
    """Add others' pairs to as many of one's own, in place, and keep the largest."""
    mine, theirs = own.view(PAIR), others.view(PAIR)
    indices, sums = np.empty(2 * len(mine), np.int32), np.empty(2 * len(mine), np.float32)
    n_sums = _merge(mine["index"], mine["value"], theirs["index"], theirs["value"], indices, sums)
    kept = largest(sums[:n_sums], len(mine))
    mine["index"], mine["value"] = indices[kept], sums[kept]


@compiled
def _add(dense: Any, indices: Any, values: Any) -> None:
    for place in range(len(indices)):
        dense[indices[place]] += values[place]


@compiled
def _merge(one: Any, ones: Any, other: Any, others: Any, indices: Any, sums: Any) -> int:
    """The indices that either has, ascending, and the sums of their values; returns how many."""
    a, b, n_sums = 0, 0, 0
    while a < len(one) or b < len(other):
        is_ones = b == len(other) or (a < len(one) and one[a] <= other[b])
        is_others = a == len(one) or (b < len(other) and other[b] <= one[a])
        indices[n_sums] = one[a] if is_ones else other[b]
        sums[n_sums] = (ones[a] if is_ones else np.float32(0)) + (others[b] if is_others else np.float32(0))
        a, b, n_sums = a + is_ones, b + is_others, n_sums + 1
    return n_sums

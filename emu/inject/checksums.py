"""Internet checksums (RFC 1071) of many packets at once."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def folded(sums: Ints) -> Ints:
    """Sums of 16-bit words, with the carries added in until none is left."""
    for _ in range(3):  # 48 bits need no more
        sums = (sums & 0xFFFF) + (sums >> 16)
    return sums


def complement(sums: Ints) -> Ints:
    """The checksum of what has these sums."""
    return folded(sums) ^ 0xFFFF


def word_sums(octets: npt.NDArray[np.uint8], cuts: Ints) -> Ints:
    """The sum of the big-endian 16-bit words from each of `cuts` to the next; the last has to the end.

    `cuts` ascend and are even, as is the number of octets.
    """
    words = octets.view(">u2")
    sums: Ints = np.add.reduceat(words, cuts // 2, dtype=np.int64)
    return sums


def pseudo_header_sums(src: Ints, dst: Ints, protocol: Ints, nbytes: Ints) -> Ints:
    """Of TCP's and UDP's pseudo headers (RFC 9293, 3.1); `nbytes` is the length of the segment."""
    sums: Ints = (src >> 16) + (src & 0xFFFF) + (dst >> 16) + (dst & 0xFFFF) + protocol + nbytes
    return sums

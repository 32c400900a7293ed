"""How much the kernel holds for a tcpdump that writes late."""

import re

RINGS_SHARE = 8  # of the free memory, all rings together take one part in so many
MAX_RING_KIB, MIN_RING_KIB = 256 * 1024, 8 * 1024  # the most: two seconds of 1 Gb/s


def ring_kib(n_hosts: int, free_nbytes: int) -> int:
    """Each host's ring: an equal share of what memory allows."""
    return max(MIN_RING_KIB, min(MAX_RING_KIB, free_nbytes // RINGS_SHARE // n_hosts // 1024))


def free_nbytes(meminfo: str) -> int:
    """The memory that is available, from /proc/meminfo's text."""
    (kib,) = re.findall(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(kib) * 1024

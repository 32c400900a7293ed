"""How much the kernel holds for a tcpdump that writes late, and what tcpdump says of its own captures."""

import re
from dataclasses import dataclass

RINGS_SHARE = 8  # of the free memory, all rings together take one part in so many
MAX_RING_KIB, MIN_RING_KIB = 256 * 1024, 8 * 1024  # the most: two seconds of 1 Gb/s

_COUNT = re.compile(
    r"^(\d{1,18}) packets? (captured|received by filter|dropped by kernel|dropped by interface)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Counts:
    """tcpdump's own figures of one host, in packets."""

    captured: int
    received: int
    dropped: int


def counts(said: str) -> Counts | None:
    """From what tcpdump wrote at its end; None if it came to none."""
    found = {what: int(number) for number, what in _COUNT.findall(said)}
    if not {"captured", "received by filter", "dropped by kernel"} <= set(found):
        return None
    dropped = found["dropped by kernel"] + found.get("dropped by interface", 0)
    return Counts(found["captured"], found["received by filter"], dropped)


def ring_kib(n_hosts: int, free_nbytes: int) -> int:
    """Each host's ring: an equal share of what memory allows."""
    return max(MIN_RING_KIB, min(MAX_RING_KIB, free_nbytes // RINGS_SHARE // n_hosts // 1024))


def free_nbytes(meminfo: str) -> int:
    """The memory that is available, from /proc/meminfo's text."""
    (kib,) = re.findall(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(kib) * 1024

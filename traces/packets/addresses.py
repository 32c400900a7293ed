"""The distinct addresses of a capture, numbered in order of appearance, in a hash table that numba fills."""

from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

import numpy as np

from gradwire.traces.packets.columns import Counts, Ints, Longs, Octets

MAX_ADDRESSES = 1 << 20  # no training job has as many hosts; a scan or an attack has


class Table(NamedTuple):
    """Open addressing: `slots` hold a position + 1, 0 is free; twice as many slots as positions.

    An address is 128 bits, `high` and `low`; IPv4 has only `low`, and `version` tells them apart.
    """

    slots: Counts
    high: Longs
    low: Longs
    version: Octets
    used: Ints  # [how many positions]


class Addresses:
    """Grows from one decoding to the next; positions never change."""

    def __init__(self) -> None:
        self.table = Table(  # zeros: memory that is not used is not there
            slots=np.zeros(2 * MAX_ADDRESSES, np.int32),
            high=np.zeros(MAX_ADDRESSES, np.uint64),
            low=np.zeros(MAX_ADDRESSES, np.uint64),
            version=np.zeros(MAX_ADDRESSES, np.uint8),
            used=np.zeros(1, np.int64),
        )
        self._texts: list[str] = []

    def texts(self) -> tuple[str, ...]:
        """The addresses as people write them, by position."""
        for position in range(len(self._texts), int(self.table.used[0])):
            low = int(self.table.low[position])
            if self.table.version[position] == 4:
                self._texts.append(str(IPv4Address(low)))
            else:
                self._texts.append(str(IPv6Address(int(self.table.high[position]) << 64 | low)))
        return tuple(self._texts)

"""How much of what a sender writes its socket holds, and when a sender that filled it goes on."""

from math import ceil, floor
from typing import NamedTuple

from gradwire.traces.tcpmemory import FILLED, SEGMENT_OVERHEAD_NBYTES


class Socket(NamedTuple):
    """How many of a connection's bytes a sender's full socket holds, and how many leave it before the sender
    that filled it goes on.
    """

    full_nbytes: float
    freed_nbytes: float

    @classmethod
    def of(cls, buffer_nbytes: float, segment_nbytes: float) -> "Socket":
        """Of so much of the kernel's memory; with none of it each byte is gone when it has arrived."""
        if not buffer_nbytes:
            return cls(0.0, 1.0)
        weight = segment_nbytes + SEGMENT_OVERHEAD_NBYTES
        n_full, n_left = ceil(buffer_nbytes / weight), floor(buffer_nbytes * FILLED / weight)
        return cls(n_full * segment_nbytes, (n_full - n_left) * segment_nbytes)

    def taken_nbytes(self, filled_from_nbytes: float, written_nbytes: float) -> float:
        """How much has left when all that is written is in the socket, or has left as well.

        `filled_from_nbytes` had left when its sender filled it.
        """
        beyond = written_nbytes - filled_from_nbytes - self.full_nbytes
        return filled_from_nbytes + max(0, ceil(beyond / self.freed_nbytes)) * self.freed_nbytes

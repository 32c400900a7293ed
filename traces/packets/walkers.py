"""The interface of a file format's walker: it steps from packet to packet and says where each one is."""

from typing import NamedTuple, Protocol

from gradwire.traces.packets.columns import Octets, Records
from gradwire.traces.packets.packets import Interface

ROWS_PER_WALK = 1 << 18
MAX_RECORD_NBYTES = 1 << 20  # tcpdump's largest snaplen is 256 KiB; more is a broken length


class Walked(NamedTuple):
    """`at` is where to go on: beyond the data if something there is to be skipped.  `fault` says what is
    wrong there, if the file cannot be read further.  No rows and no fault: more data is needed.
    """

    records: Records
    at: int
    fault: str


class Walker(Protocol):
    """Made from the beginning of a file; it is given all of the file, piece after piece."""

    start: int  # where the first walk begins

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """Those known so far; ones that are known already change in `dropped` only."""
        ...

    def walk(self, data: Octets, at: int) -> Walked:
        """Up to ROWS_PER_WALK packets that are whole in `data`, from byte `at` on."""
        ...

"""The switch's counters, and what it must read of the machine to answer requests.  Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gradwire.emu.kernel.queues import Transmitted
from gradwire.planning.openflow.pool import Event


@dataclass(frozen=True, slots=True)
class Received:
    """What came in through a port, in packets of the wire, and what was not sent on.

    `missed_packets` matched no rule; they are among `dropped_packets`.  `lost_packet_ins` should have
    gone to a controller too, but came faster than they were taken.  `lost_in` and `lost_out` are what
    the cable has lost, by plan, before it came in here and after it went out; it is not among `packets`.
    """

    packets: int
    nbytes: int
    missed_packets: int
    dropped_packets: int
    lost_packet_ins: int = 0
    lost_in: int = 0
    lost_out: int = 0


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """An interface's MAC address; `is_up`: its cable carries; `is_enabled`: nobody has taken it down."""

    mac: bytes
    is_up: bool
    is_enabled: bool


class Instruments(Protocol):
    """What must be read of the world to answer."""

    def flow_counts(self, flow: int) -> tuple[int, int]:
        """(packets, bytes) that a flow entry matched."""

    def group_counts(self, counter: int, n_buckets: int) -> list[tuple[int, int]]:
        """(packets, bytes) of a group, then of each of its buckets."""

    def pool_counts(self, pool: int) -> Mapping[Event, int]:
        """What the pool's aggregation job has counted."""

    def received(self, interface: str) -> Received: ...

    def transmitted(self, interface: str) -> Transmitted | None:
        """None if the port has no queueing discipline that counts."""

    def link(self, interface: str) -> InterfaceState: ...

    def now_ns(self) -> int: ...

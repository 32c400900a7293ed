"""What a rank's loop, in C or in Python, gets for one repeat, and where it leaves what it did."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.replay import payload
from gradwire.emu.replay.board import Place
from gradwire.emu.replay.centre_values import Access
from gradwire.emu.replay.connection import RankConnection
from gradwire.emu.replay.outcome import RankTimes
from gradwire.planning.failures import outage_s, show_failures
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.names import AS_CAPTURED
from gradwire.traces.schedules.schedule import Schedule, longest_quiet_s

STALL_S = 15.0  # no event at all for so long, with nothing to compute or to mend, is a fault, not a slow link


@dataclass
class RankRepeat:
    """One rank's part of one repeat: its connections by peer, its buffers by operation.

    `place` is where the rank says how far it is, if somebody watches; silence for longer than `stall_s` is a
    fault.  What `is_as_captured` has its messages on the wire as the captured library does.  `accesses` are
    those to the rank's centres, in their order.
    """

    schedule: Schedule
    rank: int
    repeat: int
    connections: dict[int, RankConnection]
    buffers: dict[int, NDArray[np.uint8]]
    place: Place | None
    stall_s: float
    by_plan: str
    is_as_captured: bool = False
    times: RankTimes = field(default_factory=RankTimes)
    accesses: list[Access] = field(default_factory=list)

    @classmethod
    def of(
        cls, plan: Plan, rank: int, repeat: int, connections: Sequence[RankConnection], place: Place | None
    ) -> "RankRepeat":
        """With buffers as they are before the repeat."""
        stall_s = STALL_S + outage_s(plan.failures) + longest_quiet_s(plan.schedule, rank)
        if plan.schedule.send_delay_ns:  # all others may be waiting one after the other
            stall_s += plan.prediction.fluid_s
        failures = f"; planned failures: {show_failures(plan.fabric, plan.failures)}" if plan.failures else ""
        by_peer = {connection.peer: connection for connection in connections}
        buffers = payload.buffers(plan.schedule, rank)
        as_captured = plan.algorithm == AS_CAPTURED
        return cls(plan.schedule, rank, repeat, by_peer, buffers, place, stall_s, failures, as_captured)

    def waiting_for(self, number: int, n_unfinished: int) -> str:
        """What a rank says that has heard nothing for too long, of its first send or receive not over."""
        src, dst = int(self.schedule.sends.src[number]), int(self.schedule.sends.dst[number])
        what = f"to rank {dst}" if src == self.rank else f"from rank {src}"
        return (
            f"nothing happened for {self.stall_s:.0f} s; the rank waits for send {number} {what} "
            f"(unfinished sends: {n_unfinished}){self.by_plan}"
        )

"""The replay agent: one process per rank, in its host's network namespace.

Closed loop: a send leaves when what it needs has arrived, its rank has computed what comes before it and the
receiver has said that it is ready.  Nothing is sent at recorded times.
"""

import time
from collections.abc import Sequence
from io import FileIO

from gradwire.emu.replay import centre_values, cloop, payload
from gradwire.emu.replay.aggregating import Aggregating, Seat
from gradwire.emu.replay.board import Place
from gradwire.emu.replay.cloop import CompiledLoop
from gradwire.emu.replay.connection import RankConnection, totals
from gradwire.emu.replay.loop import Loop
from gradwire.emu.replay.outcome import Outcome, Stalled
from gradwire.emu.replay.rankrepeat import RankRepeat
from gradwire.planning.plan import Plan

_DRAIN_S = 0.001


class RankAgent:
    """One rank's side of one repeat of the schedule."""

    def __init__(
        self,
        plan: Plan,
        rank: int,
        connections: list[RankConnection],
        seats: Sequence[Seat],
        repeat: int,
        place: Place | None = None,
    ) -> None:
        """`place` is where the rank says how far it is, if somebody watches."""
        self._schedule = plan.schedule
        self._own = RankRepeat.of(plan, rank, repeat, connections, place)
        self._aggregating = Aggregating(plan, rank, seats)
        self._loop = (
            CompiledLoop(self._own) if cloop.is_for(plan.schedule) else Loop(self._own, self._aggregating)
        )
        self._sent_nbytes = self._retransmits = 0

    @property
    def accesses(self) -> list[centre_values.Access]:
        """Those to the rank's centres, in their order."""
        return self._own.accesses

    def run(self, start_ns: int) -> None:
        """Wait for the common start, do the whole schedule."""
        connections, times = self._own.connections.values(), self._own.times
        before = totals(connections)
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as scheduled:
            ran_before_ns, waited_before_ns = _scheduled_ns(scheduled)
            self._loop.run(start_ns)
            times.done_ns = time.monotonic_ns()
            ran_ns, waited_ns = _scheduled_ns(scheduled)
            times.cpu_ns = ran_ns - ran_before_ns
            times.run_delay_ns = waited_ns - waited_before_ns
        self._aggregating.end()
        self._drain()
        after = totals(connections)
        self._sent_nbytes = after.payload_nbytes - before.payload_nbytes
        self._retransmits = after.retransmits - before.retransmits

    def outcome(self, accesses: Sequence[centre_values.Access] = ()) -> Outcome:
        """Check the data of what was run: much work, which the ranks that still run would feel.

        `accesses` are those that all ranks have logged.
        """
        wrong, figures = self._aggregating.figures()
        wrong += centre_values.count_wrong(self._schedule, self._own.rank, self._own.buffers, accesses)
        return Outcome(
            times=self._own.times,
            wrong=wrong + payload.count_wrong(self._schedule, self._own.rank, self._own.buffers),
            sent_nbytes=self._sent_nbytes,
            retransmits=self._retransmits,
            aggregated=figures if self._schedule.aggregations else None,
        )

    def _drain(self) -> None:
        """Wait until TCP has sent all that it was handed, so that it has counted all of it."""
        deadline = time.monotonic() + self._own.stall_s
        while any(connection.unacknowledged_nbytes() for connection in self._own.connections.values()):
            if time.monotonic() > deadline:
                raise Stalled(
                    f"nobody acknowledged sent data for {self._own.stall_s:.0f} s{self._own.by_plan}"
                )
            time.sleep(_DRAIN_S)


def _scheduled_ns(scheduled: FileIO) -> tuple[int, int]:
    """The first two figures of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst): how long a
    thread ran, and how long it was ready to run and did not.
    """
    scheduled.seek(0)
    ran_ns, waited_ns, *_ = scheduled.readall().split()
    return int(ran_ns), int(waited_ns)

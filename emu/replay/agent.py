"""The replay agent: one process per rank, in its host's network namespace.

Closed loop: a send leaves when what it needs has arrived, its rank has computed what comes before it and the
receiver has said that it is ready.  Nothing is sent at recorded times.
"""

import time
from collections.abc import Sequence

from gradwire.emu.replay import centre_values, cloop, payload
from gradwire.emu.replay.aggregating import Aggregating, Seat
from gradwire.emu.replay.board import Finish, Place
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
        finish: Finish | None = None,
    ) -> None:
        """`place` is where the rank says how far it is, if somebody watches; at the `finish` it waits for the
        others of its machine.
        """
        self._schedule = plan.schedule
        self._own = RankRepeat.of(plan, rank, repeat, connections, place)
        self._aggregating = Aggregating(plan, rank, seats)
        self._loop: CompiledLoop | Loop = (
            CompiledLoop(self._own, finish)
            if cloop.is_for(plan.schedule)
            else Loop(self._own, self._aggregating)
        )
        self._before = totals(connections)

    @property
    def accesses(self) -> list[centre_values.Access]:
        """Those to the rank's centres, in their order."""
        return self._own.accesses

    def run(self, start_ns: int) -> None:
        """Wait for the common start, do the whole schedule."""
        self._loop.run(start_ns)
        self._aggregating.end()

    def outcome(self, accesses: Sequence[centre_values.Access] = ()) -> Outcome:
        """Count what was sent and check the data of what was run: much work, for when all ranks are done.

        `accesses` are those that all ranks have logged.  Raise Stalled.
        """
        self._drain()
        after = totals(self._own.connections.values())
        if isinstance(self._loop, CompiledLoop):
            self._loop.keep_times()
        wrong, figures = self._aggregating.figures()
        wrong += centre_values.count_wrong(self._schedule, self._own.rank, self._own.buffers, accesses)
        return Outcome(
            times=self._own.times,
            wrong=wrong + payload.count_wrong(self._schedule, self._own.rank, self._own.buffers),
            sent_nbytes=after.payload_nbytes - self._before.payload_nbytes,
            retransmits=after.retransmits - self._before.retransmits,
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

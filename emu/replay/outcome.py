"""What a rank's agent reports about one repeat, or why it cannot continue."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.emu.aggregation.figures import RankFigures


class Stalled(Exception):
    """Nothing happened for longer than the plan explains; the text says what was waited for."""


@dataclass(slots=True)
class RankTimes:
    """Monotonic ns of one repeat, filled in as it happens: per send of ours (queued, handed), per receive
    (arrived), per aggregation of ours by its position (begun, aggregated), per operation that we compute
    (computing, computed).
    """

    start_ns: int = 0
    began_ns: int = 0
    done_ns: int = 0
    queued_ns: dict[int, int] = field(default_factory=dict)
    handed_ns: dict[int, int] = field(default_factory=dict)
    arrived_ns: dict[int, int] = field(default_factory=dict)
    late_gap_ns: int = 0  # the worst lateness of computing's end
    cpu_ns: int = 0  # how long the rank had a CPU
    run_delay_ns: int = 0  # how long the rank was ready to run, and others had the CPUs
    begun_ns: dict[int, int] = field(default_factory=dict)
    aggregated_ns: dict[int, int] = field(default_factory=dict)
    computing_ns: dict[int, int] = field(default_factory=dict)
    computed_ns: dict[int, int] = field(default_factory=dict)

    def wait(self, start_ns: int) -> None:
        """Sleep until the common start: no spinning, as the other ranks share these processors."""
        while (left_ns := start_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)
        self.start_ns, self.began_ns = start_ns, time.monotonic_ns()

    def end(self, before: tuple[int, int]) -> None:
        """The rank is done; before the start `scheduled_ns` said this."""
        self.done_ns = time.monotonic_ns()
        ran_ns, waited_ns = scheduled_ns()
        self.cpu_ns, self.run_delay_ns = ran_ns - before[0], waited_ns - before[1]


def scheduled_ns() -> tuple[int, int]:
    """How long this thread ran, and how long it was ready to run and did not: the first two figures of
    /proc/thread-self/schedstat (Documentation/scheduler/sched-stats.rst).
    """
    ran_ns, waited_ns, *_ = Path("/proc/thread-self/schedstat").read_bytes().split()
    return int(ran_ns), int(waited_ns)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`aggregated` is None if the plan has no trees."""

    times: RankTimes
    wrong: int
    sent_nbytes: int  # by TCP_INFO: what was acknowledged, framing taken off
    retransmits: int
    aggregated: RankFigures | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a rank cannot go on; `blamed` are the ranks that the text names as the cause, ascending."""

    text: str
    blamed: tuple[int, ...] = ()

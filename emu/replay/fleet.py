"""All replay agents of a run, controlled through pipes: a message to all, an answer from each.

Those of this machine are started in emu.replay.processes; those of others are controlled through one
connection to each (emu.machines).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection as Pipe
from typing import Any, Protocol

from gradwire.emu.replay.board import FinishLine
from gradwire.emu.replay.outcome import Complaint, Outcome
from gradwire.emu.watch import RunFailed, Watch, is_stopped
from gradwire.traces.units import show_first

_BLAME_S = 0.5  # when an agent dies or stops, the others complain; time for that death to show, and for all
_SHOWN = 4  # ranks
_MANY = 16  # agents
_REST_S = 0.005  # between two looks at what so many say: each look keeps an agent from its processor
# From when the common start is said until it comes: 8 agents know it within 2 ms, and the meter has begun.
START_MARGIN_NS = 30_000_000
START_MARGIN_OF_AN_AGENT_NS = 600_000
START_MARGIN_OF_A_MACHINE_NS = 70_000_000  # which hears of it by ssh
FAILED = "failed"  # what a member says that cannot go on


class Member(Protocol):
    """The agents of `ranks`, which get each message together, and whose answers come together."""

    @property
    def ranks(self) -> Sequence[int]: ...

    @property
    def name(self) -> str:
        """Whose complaints these are, as `rank 3`."""

    @property
    def process_name(self) -> str:
        """What ends if they are gone, as `the agent of rank 3`."""

    def fileno(self) -> int: ...

    def send(self, message: Any) -> None:
        """Raise BrokenPipeError if they are gone."""

    def recv(self) -> tuple[str, Any]:
        """What they answer, and a value for each rank; of `failed` the complaint.  Raise EOFError or
        ConnectionResetError if they are gone.
        """


@dataclass(frozen=True)
class Agent:
    """The agent of one rank on this machine."""

    rank: int
    pipe: "Pipe[Any, Any]"
    process: Any = None

    @property
    def ranks(self) -> tuple[int]:
        return (self.rank,)

    @property
    def name(self) -> str:
        return f"rank {self.rank}"

    @property
    def process_name(self) -> str:
        return f"the agent of rank {self.rank}"

    def fileno(self) -> int:
        return self.pipe.fileno()

    def send(self, message: Any) -> None:
        self.pipe.send(message)

    def recv(self) -> tuple[str, Any]:
        said, value = self.pipe.recv()
        return said, value if said == FAILED else [value]


class Fleet:
    """The agents' side of a run; a message to all, an answer from each."""

    def __init__(
        self,
        agents: Sequence[Agent],
        watch: Watch,
        others: Sequence[Member] = (),
        watched: ExitStack | None = None,
        line: FinishLine | None = None,
    ) -> None:
        """`agents` are those of this machine, in their order at the `line`, `others` those elsewhere;
        `watched` is what `watch` is over, and ends when the agents are let go.
        """
        self._line = line or FinishLine(len(agents))
        self._agents = agents
        self._members: list[Member] = [*agents, *others]
        self._watch = watch
        self._watched = watched or ExitStack()

    @property
    def pids(self) -> dict[int, int]:
        """The process ids of this machine's agents, by rank."""
        return {agent.rank: agent.process.pid for agent in self._agents}

    def connect(self, timeout_s: float = 30.0) -> None:
        self.gather("listening", timeout_s)
        self.tell("connect")
        self.gather("connected", timeout_s)

    def run(
        self,
        repeat: int,
        timeout_s: float,
        begin: Callable[[int], object] | None = None,
        end: Callable[[], object] | None = None,
    ) -> list[Outcome]:
        """One repeat on all ranks; the outcomes by rank.

        `begin` is called with the common start (CLOCK_MONOTONIC) before it comes; `end` is called when the
        last rank is done, before any of them checks its data.
        """
        self.tell(("run", repeat))
        self.gather("prepared", timeout_s)
        start_ns = time.monotonic_ns() + self._start_margin_ns()
        self.tell(("start", start_ns))
        if begin is not None:
            begin(start_ns)
        accesses = list(chain.from_iterable(self.gather("done", timeout_s)))
        if end is not None:
            end()
        self.tell(("check", accesses))
        outcomes: list[Outcome] = self.gather("outcome", timeout_s)
        return outcomes

    def _start_margin_ns(self) -> int:
        others = len(self._members) - len(self._agents)
        return (
            START_MARGIN_NS
            + START_MARGIN_OF_AN_AGENT_NS * len(self._agents)
            + START_MARGIN_OF_A_MACHINE_NS * others
        )

    def end(self) -> None:
        """Let the agents go; they must have nothing left to do."""
        self._watched.close()
        self.tell("end")

    def tell(self, message: object) -> None:
        for member in self._members:
            try:
                member.send(message)
            except BrokenPipeError:
                self._watch.wait([], _BLAME_S)
                raise RunFailed(f"{member.process_name} is gone") from None

    def gather(self, kind: str, timeout_s: float) -> list[Any]:
        """What all ranks answer, by rank.  Raise RunFailed."""
        answers: dict[int, Any] = {}
        waiting = {member.fileno(): member for member in self._members}
        deadline = time.monotonic() + timeout_s
        while waiting:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                missing = sorted(rank for member in waiting.values() for rank in member.ranks)
                raise RunFailed(f"{self._silent(missing)} did not report {kind!r} within {timeout_s:.0f} s")
            if len(waiting) > _MANY:
                time.sleep(_REST_S)
            for member in self._watch.wait(list(waiting.values()), left_s):
                said, values = self._heard(member)
                if said == FAILED:
                    raise RunFailed(self._most_exact(member, values))
                if said != kind:
                    raise RunFailed(f"{member.name} sent {said!r} instead of {kind!r}")
                answers |= zip(member.ranks, values, strict=True)
                del waiting[member.fileno()]
        return [answers[rank] for rank in sorted(answers)]

    def _silent(self, missing: list[int]) -> str:
        """Which ranks, and if some are stopped, that: the others may only wait for them.  Those that wait at
        their line are left out.
        """
        waiting = {each.rank for number, each in enumerate(self._agents) if self._line.is_there(number)}
        missing = [rank for rank in missing if rank not in waiting] or missing
        stopped = self._stopped(missing)
        return _ranks(missing) + (f" (stopped: {_ranks(stopped)})" if stopped else "")

    def _stopped(self, ranks: Iterable[int]) -> list[int]:
        """Those of the ranks whose agent is here, and stopped."""
        here = {agent.rank: agent.process for agent in self._agents if agent.process}
        return [rank for rank in ranks if rank in here and is_stopped(here[rank].pid)]

    def _heard(self, member: Member) -> tuple[str, Any]:
        try:
            return member.recv()
        except (EOFError, ConnectionResetError):
            self._watch.wait([], _BLAME_S)
            raise RunFailed(f"{member.process_name} is gone") from None

    def _most_exact(self, first: Member, complaint: Complaint) -> str:
        """Of a first complaint and those that follow soon, the one that blames the fewest ranks.

        One that blames no rank by number is reported only if none of them does, and one that blames a stopped
        rank alone at once: nothing can be more exact.  Raise RunFailed if a process has ended, or does
        meanwhile: its death is the cause of the complaints.
        """
        complaints = {first.fileno(): complaint}
        names = {member.fileno(): member.name for member in self._members}
        deadline = time.monotonic() + _BLAME_S
        while (left_s := deadline - time.monotonic()) > 0:
            for fd, each in complaints.items():
                if len(each.blamed) == 1 and self._stopped(each.blamed):
                    self._watch.wait([], 0)
                    return f"{names[fd]}: {each.text}"
            others = [member for member in self._members if member.fileno() not in complaints]
            for member in self._watch.wait(others, left_s):
                said, value = self._heard(member)
                if said == FAILED:
                    complaints[member.fileno()] = value
        exact = min(complaints, key=lambda fd: len(complaints[fd].blamed) or len(self._members))
        return f"{names[exact]}: {complaints[exact].text}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {show_first(ranks, _SHOWN)}"

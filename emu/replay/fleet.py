"""All replay agents of a run: forked into their hosts' namespaces, and controlled through pipes.

Those of other machines are controlled through one connection to each (emu.machines).
"""

import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection as Pipe
from typing import Any, Protocol

from gradwire.emu.aggregation.worker import WorkerFailed
from gradwire.emu.kernel.namespaces import join
from gradwire.emu.replay import payload
from gradwire.emu.replay.agent import RankAgent
from gradwire.emu.replay.aggregating import serve, take_seats
from gradwire.emu.replay.board import Board, Finish, FinishLine, Place
from gradwire.emu.replay.connection import PeerLost
from gradwire.emu.replay.outcome import Complaint, Outcome, Stalled
from gradwire.emu.replay.wiring import connect, listen
from gradwire.emu.watch import RunFailed, Watch, is_stopped
from gradwire.planning.plan import Plan
from gradwire.traces.units import show_first

_END_S = 2.0
_BLAME_S = 0.5  # when an agent dies or stops, the others complain; time for that death to show, and for all
_SHOWN = 4  # ranks
_CROWD = 16  # agents for each processor
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


@contextmanager
def started(
    plan: Plan,
    host_pids: dict[str, int],
    watch: Watch,
    board: Board | None = None,
    others: Sequence[Member] = (),
) -> Iterator[Fleet]:
    """One agent for each rank whose host is here, in the network namespace of its host's process; each writes
    on the `board` how far it is.  `others` have the ranks whose hosts are not.
    """
    payload.load_types(plan.schedule)
    fork = multiprocessing.get_context("fork")
    agents: list[Agent] = []
    watched = ExitStack()
    try:
        here = [rank for rank, host in enumerate(plan.placement) if host in host_pids]
        line = FinishLine(len(here))
        for number, rank in enumerate(here):
            host = plan.placement[rank]
            ours, theirs = fork.Pipe()
            place = board.place(rank) if board else None
            inherited = [*(agent.pipe for agent in agents), ours]
            on = processors(number, len(here))
            process = fork.Process(
                target=_agent_main,
                args=(plan, rank, host_pids[host], theirs, inherited, place, line.place(number), on),
                daemon=True,
            )
            process.start()
            theirs.close()
            agents.append(Agent(rank, ours, process))
            assert process.pid
            watched.enter_context(watch.over(f"the agent of rank {rank} on {host}", process.pid))
        yield Fleet(agents, watch, others, watched, line)
    except BaseException:  # of a failed run none hears that it is over, and there is nothing to save
        for agent in agents:
            agent.process.kill()
        raise
    finally:
        watched.close()
        for agent in agents:
            agent.pipe.close()
        deadline = time.monotonic() + _END_S  # for all together
        for agent in agents:
            agent.process.join(max(0.0, deadline - time.monotonic()))
            if agent.process.is_alive():
                agent.process.kill()
                agent.process.join(_END_S)


def processors(number: int, n_ranks: int) -> set[int]:
    """Those that an agent may run on, of `n_ranks` on this machine: all, or one where there are so many that
    each processor is busy anyway; then neighbours share one, as waking up another costs an interrupt.
    """
    those = sorted(os.sched_getaffinity(0))
    return {those[number * len(those) // n_ranks]} if n_ranks >= _CROWD * len(those) else set(those)


def _agent_main(
    plan: Plan,
    rank: int,
    host_pid: int,
    pipe: "Pipe[Any, Any]",
    inherited: list["Pipe[Any, Any]"],
    place: Place | None,
    finish: Finish,
    on: set[int],
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    try:
        join(host_pid)
        os.sched_setaffinity(0, on)
        gc.freeze()
        gc.disable()
        # Each send that leaves at once because another has left is two calls deeper (Loop._flush).
        sys.setrecursionlimit(sys.getrecursionlimit() + 2 * len(plan.schedule.sends))
        listening = listen(plan, rank)
        pipe.send(("listening", None))
        pipe.recv()
        connections = connect(plan, rank, listening)
        seats = take_seats(plan, rank)
        pipe.send(("connected", None))
        while (message := pipe.recv()) != "end":
            agent = RankAgent(plan, rank, connections, seats, message[1], place, finish)
            pipe.send(("prepared", None))
            _, start_ns = pipe.recv()
            agent.run(start_ns)
            pipe.send(("done", agent.accesses))
            serve(seats, pipe.fileno())
            _, accesses = pipe.recv()
            pipe.send(("outcome", agent.outcome(accesses)))
            serve(seats, pipe.fileno())
    except WorkerFailed as error:
        _complain(pipe, Complaint(str(error), error.blamed))
    except (PeerLost, Stalled, OSError) as error:
        _complain(pipe, Complaint(str(error)))
    except EOFError:
        pass  # the run is over
    except Exception as error:  # noqa: BLE001 - the process ends here and must report any error
        traceback.print_exc()
        _complain(pipe, Complaint(f"a bug in gradwire: {type(error).__name__}: {error}"))
    finally:
        os._exit(0)


def _complain(pipe: "Pipe[Any, Any]", complaint: Complaint) -> None:
    """And wait until we are let go: our end must not be what the peers see first."""
    pipe.send(("failed", complaint))
    pipe.recv()

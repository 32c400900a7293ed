"""All replay agents of a run: forked into their hosts' namespaces, and controlled through pipes."""

import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from multiprocessing.connection import Connection as Pipe
from typing import Any

from gradwire.emu.aggregation.worker import WorkerFailed
from gradwire.emu.network.namespaces import join
from gradwire.emu.replay import payload
from gradwire.emu.replay.agent import RankAgent
from gradwire.emu.replay.aggregating import serve, take_seats
from gradwire.emu.replay.board import Board, Place
from gradwire.emu.replay.connection import PeerLost
from gradwire.emu.replay.outcome import Complaint, Outcome, Stalled
from gradwire.emu.replay.wiring import connect, listen
from gradwire.emu.watch import RunFailed, Watch, is_stopped
from gradwire.planning.plan import Plan
from gradwire.traces.units import show_first

_END_S = 2.0
_BLAME_S = 0.5  # when an agent dies or stops, the others complain; time for that death to show, and for all
_SHOWN = 4  # ranks
START_MARGIN_NS = 100_000_000


class Fleet:
    """The agents' side of a run; a message to all, an answer from each."""

    def __init__(
        self, processes: list[Any], pipes: list["Pipe[Any, Any]"], watch: Watch, watched: ExitStack
    ) -> None:
        self._processes = processes
        self._pipes = pipes
        self._watch = watch
        self._watched = watched

    @property
    def pids(self) -> list[int]:
        """The agents' process ids by rank."""
        return [process.pid for process in self._processes]

    def connect(self, timeout_s: float = 30.0) -> None:
        self._gather("listening", timeout_s)
        self._tell("connect")
        self._gather("connected", timeout_s)

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
        self._tell(("run", repeat))
        self._gather("prepared", timeout_s)
        start_ns = time.monotonic_ns() + START_MARGIN_NS
        self._tell(("start", start_ns))
        if begin is not None:
            begin(start_ns)
        accesses = list(chain.from_iterable(self._gather("done", timeout_s)))
        if end is not None:
            end()
        self._tell(("check", accesses))
        outcomes: list[Outcome] = self._gather("outcome", timeout_s)
        return outcomes

    def end(self) -> None:
        """Let the agents go; they must have nothing left to do."""
        self._watched.close()
        self._tell("end")

    def _tell(self, message: object) -> None:
        for rank, pipe in enumerate(self._pipes):
            try:
                pipe.send(message)
            except BrokenPipeError:
                self._watch.wait([], _BLAME_S)
                raise RunFailed(f"the agent of rank {rank} is gone") from None

    def _gather(self, kind: str, timeout_s: float) -> list[Any]:
        answers: dict[int, Any] = {}
        rank_of = {pipe.fileno(): rank for rank, pipe in enumerate(self._pipes)}
        deadline = time.monotonic() + timeout_s
        while len(answers) < len(self._pipes):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                missing = sorted(set(rank_of.values()) - set(answers))
                raise RunFailed(f"no {kind!r} message within {timeout_s:.0f} s from {self._silent(missing)}")
            waiting = [pipe for pipe in self._pipes if rank_of[pipe.fileno()] not in answers]
            for pipe in self._watch.wait(waiting, left_s):
                rank = rank_of[pipe.fileno()]
                said, answers[rank] = self._heard(pipe, rank)
                if said == "failed":
                    raise RunFailed(self._most_exact(rank, answers[rank]))
                if said != kind:
                    raise RunFailed(f"rank {rank} sent {said!r} instead of {kind!r}")
        return [answers[rank] for rank in sorted(answers)]

    def _silent(self, missing: list[int]) -> str:
        """Which ranks, and if some are stopped, that: the others may only wait for them."""
        stopped = [rank for rank in missing if self._processes and is_stopped(self._processes[rank].pid)]
        return _ranks(missing) + (f" (stopped: {_ranks(stopped)})" if stopped else "")

    def _heard(self, pipe: "Pipe[Any, Any]", rank: int) -> tuple[str, Any]:
        try:
            said, value = pipe.recv()
        except (EOFError, ConnectionResetError):
            self._watch.wait([], _BLAME_S)
            raise RunFailed(f"the agent of rank {rank} is gone") from None
        return said, value

    def _most_exact(self, first: int, complaint: Complaint) -> str:
        """Of a first complaint and those that follow soon, the one that blames the fewest ranks.

        One that blames no rank by number is reported only if none of them does.  Raise RunFailed if a
        process ends meanwhile: its death is the cause of the complaints.
        """
        complaints = {first: complaint}
        deadline = time.monotonic() + _BLAME_S
        while (left_s := deadline - time.monotonic()) > 0:
            others = {pipe: rank for rank, pipe in enumerate(self._pipes) if rank not in complaints}
            for pipe in self._watch.wait([*others], left_s):
                said, value = self._heard(pipe, others[pipe])
                if said == "failed":
                    complaints[others[pipe]] = value
        exact = min(complaints, key=lambda rank: len(complaints[rank].blamed) or len(self._pipes))
        return f"rank {exact}: {complaints[exact].text}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {show_first(ranks, _SHOWN)}"


@contextmanager
def started(
    plan: Plan, host_pids: dict[str, int], watch: Watch, board: Board | None = None
) -> Iterator[Fleet]:
    """One agent per rank, in the network namespace of its host's process; each writes on the `board` how far
    it is.
    """
    payload.load_types(plan.schedule)
    fork = multiprocessing.get_context("fork")
    processes: list[Any] = []
    pipes: list[Pipe[Any, Any]] = []
    watched = ExitStack()
    try:
        for rank, host in enumerate(plan.placement):
            ours, theirs = fork.Pipe()
            place = board.place(rank) if board else None
            process = fork.Process(
                target=_agent_main,
                args=(plan, rank, host_pids[host], theirs, [*pipes, ours], place),
                daemon=True,
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
            assert process.pid
            watched.enter_context(watch.over(f"the agent of rank {rank} on {host}", process.pid))
        yield Fleet(processes, pipes, watch, watched)
    except BaseException:  # of a failed run none hears that it is over, and there is nothing to save
        for process in processes:
            process.kill()
        raise
    finally:
        watched.close()
        for pipe in pipes:
            pipe.close()
        deadline = time.monotonic() + _END_S  # for all together
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(_END_S)


def _agent_main(
    plan: Plan,
    rank: int,
    host_pid: int,
    pipe: "Pipe[Any, Any]",
    inherited: list["Pipe[Any, Any]"],
    place: Place | None,
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    try:
        join(host_pid)
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
            agent = RankAgent(plan, rank, connections, seats, message[1], place)
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

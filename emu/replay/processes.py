"""The replay agents of this machine: a process for each rank, forked into its host's network namespace."""

import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from typing import Any

from gradwire.emu.aggregation.worker import WorkerFailed
from gradwire.emu.kernel.namespaces import join
from gradwire.emu.replay import payload
from gradwire.emu.replay.agent import RankAgent
from gradwire.emu.replay.aggregating import serve, take_seats
from gradwire.emu.replay.board import Board, Finish, FinishLine, Place
from gradwire.emu.replay.connection import PeerLost
from gradwire.emu.replay.fleet import FAILED, Agent, Fleet, Member
from gradwire.emu.replay.outcome import Complaint, Stalled
from gradwire.emu.replay.wiring import connect, listen
from gradwire.emu.watch import Watch
from gradwire.planning.plan import Plan

_END_S = 2.0
_CROWD = 16  # agents for each processor


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
    pipe.send((FAILED, complaint))
    pipe.recv()

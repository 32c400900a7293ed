"""Writes plans for the drivers of other engines, SimGrid and ns-3, and runs the drivers.

A driver reads columns of 8 bytes a number on standard input, and writes times on standard output; meanwhile
it says on standard error what share of the bytes has arrived.  What waits for what is in the columns of
`planning.model.bulk` (progress.h); how long what is sent takes is the engine's.
"""

import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Thread, Timer
from typing import IO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradwire.planning.model.bulk import columns
from gradwire.planning.model.loops import Lists
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.traces.schedules.outbox import FIFO

OnProgress = Callable[[float], None]
"""Called now and then with the share of the plan's bytes that has arrived, 0 to 1."""
PATIENCE_S = 3600.0
MOST_SAID = 500  # letters of a driver's last words

Column = NDArray[np.float64] | NDArray[np.int64]


def check(plan: Plan, engine: str, option: str) -> None:
    """Raise Refused for what no driver carries out; `engine` is its name, `option` what asks for it."""
    schedule = plan.schedule
    for has, what in (
        (schedule.aggregations, "sums in switches"),
        (schedule.locks, "servers that answer whoever comes first"),
        (schedule.order != FIFO, "an order of sends"),
        (plan.failures, "cables that fail"),
        (plan.losses, "losses"),
    ):
        if has:
            raise Refused(f"gradwire does not give {what} to {engine}: leave out {option}")


def waiting(plan: Plan) -> tuple[list[int], list[Column]]:
    """The numbers of flows, sends, gates and parts, and the columns that say what waits for what."""
    sending, gates = columns(plan.schedule, plan.flows)
    return [len(plan.flows), len(sending.flow), len(gates.part), len(gates.left)], [
        integers(sending.flow),
        sending.nbytes.astype(np.float64),
        np.array([plan.schedule.send_delay_ns / 1e9]),
        integers(sending.waits),
        *_lists(sending.releases),
        integers(sending.src_part),
        integers(sending.dst_part),
        integers(gates.part),
        gates.gap_s.astype(np.float64),
        integers(gates.waits),
        *_lists(gates.holds),
        integers(gates.left),
        *_lists(gates.opens),
    ]


def integers(column: ArrayLike) -> NDArray[np.int64]:
    """As a driver reads them."""
    return np.asarray(column, np.int64)


def lists_of(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each row begins, and all rows one after the other."""
    begins = np.cumsum([0, *map(len, rows)])
    return integers(begins), integers([each for row in rows for each in row])


def _lists(lists: Lists) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return integers(lists.at), integers(lists.values)


def carry_out(
    engine: str,
    command: Sequence[object],
    plan: Plan,
    problem: Iterable[Column],
    n_more: int = 0,
    on_progress: OnProgress | None = None,
) -> tuple[NDArray[np.float64], list[float]]:
    """Run a driver; returns when each send ended and then when each gate opened, in seconds, and `n_more`
    numbers that follow.

    Raise RuntimeError, with its last words, if it fails or does not carry out all.
    """
    said: list[str] = []
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as driver:
        assert driver.stdin
        assert driver.stdout
        assert driver.stderr
        listener = Thread(target=_listen, args=(driver.stderr, said, on_progress), daemon=True)
        patience = Timer(PATIENCE_S, driver.kill)
        listener.start()
        patience.start()
        try:
            with suppress(BrokenPipeError):  # it has ended, and says why
                driver.stdin.writelines(column.tobytes() for column in problem)
                driver.stdin.close()
            output = driver.stdout.read()
        except BaseException:
            driver.kill()
            raise
        finally:
            patience.cancel()
        listener.join()
    numbers = np.frombuffer(output[: len(output) // 8 * 8])
    n_times = len(plan.schedule.sends) + len(plan.schedule.gates)
    if driver.returncode or len(numbers) != n_times + n_more:
        raise RuntimeError(
            f"{engine} failed, exit code {driver.returncode}: {said[-1] if said else 'no message'}"
        )
    times = numbers[:n_times]
    if np.any(times < 0):
        raise RuntimeError(
            f"{engine} ended before {np.count_nonzero(times < 0):,} sends or gates were reached"
        )
    return times, numbers[n_times:].tolist()


def _listen(errors: IO[bytes], said: list[str], on_progress: OnProgress | None) -> None:
    """Keep what a driver says, but for `carried SHARE`."""
    for line in errors:
        words = line.decode(errors="replace").split()
        if len(words) == 2 and words[0] == "carried":
            if on_progress:
                on_progress(float(words[1]))
        elif words:
            said.append(" ".join(words)[:MOST_SAID])
            del said[:-1]

"""A plan's times by somebody else's engine: SimGrid (simgrid.org), as a second opinion on the fluid model.

What waits for what is handed over in the columns of `planning.model.bulk`; how links are shared among those
who send is SimGrid's.  Its links have no latency here: those it shares max-min fairly (its model CM02), while
with latency it gives short paths more.
"""

import subprocess

import numpy as np
from numpy.typing import NDArray

from gradwire import COMMAND
from gradwire.emu.project import SIMGRID_DRIVER
from gradwire.planning.model.bulk import columns
from gradwire.planning.model.loops import Lists
from gradwire.planning.model.simulation import links_of
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.planning.transport import payload_efficiency
from gradwire.traces.schedules.outbox import FIFO

PATIENCE_S = 3600


def check_set_up() -> None:
    """Raise FileNotFoundError if there is no driver."""
    if not SIMGRID_DRIVER.exists():
        raise FileNotFoundError(
            f"--engine simgrid: SimGrid is not set up: run sudo {COMMAND} setup --simgrid"
        )


def simgrid_s(plan: Plan) -> float:
    """The time of the whole schedule on the plan's own paths, at nominal rates.

    Raise Refused for what it cannot carry out, RuntimeError if it fails.
    """
    _check(plan)
    command = [str(SIMGRID_DRIVER), "--log=root.thresh:critical"]
    done = subprocess.run(command, input=_problem(plan), capture_output=True, timeout=PATIENCE_S, check=False)
    times = np.frombuffer(done.stdout[: len(done.stdout) // 8 * 8])
    if done.returncode or len(times) != len(plan.schedule.sends) + len(plan.schedule.gates):
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(
            f"SimGrid failed, exit code {done.returncode}: {said[-1] if said else 'no message'}"
        )
    if np.any(times < 0):
        raise RuntimeError(
            f"SimGrid ended before {np.count_nonzero(times < 0):,} sends or gates were reached"
        )
    return float(times.max(initial=0.0))


def _check(plan: Plan) -> None:
    schedule = plan.schedule
    for has, what in (
        (schedule.aggregations, "what switches add up"),
        (schedule.locks, "a server that answers whoever comes first"),
        (schedule.order != FIFO, "an order of sends"),
        (plan.failures, "cables that fail"),
        (plan.losses, "losses"),
    ):
        if has:
            raise Refused(f"SimGrid is not given {what}: leave out --engine simgrid")


def _problem(plan: Plan) -> bytes:
    """As driver.cpp reads it: sizes, then column after column, of 8 bytes a number."""
    sending, gates = columns(plan.schedule, plan.flows)
    paths, capacity = links_of(
        plan.fabric, [flow.path for flow in plan.flows], payload_efficiency(plan.fabric.mtu_nbytes)
    )
    counts = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path], np.int64)
    ends = [np.array([getattr(flow, end) for flow in plan.flows]) for end in ("src", "dst")]
    sizes = (plan.n_ranks, len(capacity), len(paths), len(sending.flow), len(gates.part), len(gates.left))
    parts: list[NDArray[np.float64] | NDArray[np.int64]] = [
        _ints(np.array(sizes)),
        np.array(capacity, np.float64),
        np.array([plan.schedule.send_delay_ns / 1e9]),
        *map(_ints, ends),
        *map(_ints, (counts, links, sending.flow)),
        sending.nbytes.astype(np.float64),
        _ints(sending.waits),
        *_lists(sending.releases),
        *map(_ints, (sending.src_part, sending.dst_part, gates.part)),
        gates.gap_s.astype(np.float64),
        _ints(gates.waits),
        *_lists(gates.holds),
        _ints(gates.left),
        *_lists(gates.opens),
    ]
    return b"".join(part.tobytes() for part in parts)


def _ints(column: NDArray[np.int64]) -> NDArray[np.int64]:
    return column.astype(np.int64)


def _lists(lists: Lists) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return _ints(lists.at), _ints(lists.values)

"""A plan's times by SimGrid (simgrid.org), as a second opinion on the fluid model.

How links are shared among those who send is SimGrid's.  Its links have no latency here: those it shares
max-min fairly (its model CM02), while with latency it gives short paths more.
"""

import numpy as np

from gradwire import COMMAND
from gradwire.emu.engines.problem import Column, OnProgress, carry_out, check, integers, lists_of, waiting
from gradwire.emu.project import SIMGRID_DRIVER
from gradwire.planning.model.simulation import links_of
from gradwire.planning.plan import Plan
from gradwire.planning.transport import payload_efficiency


def check_set_up() -> None:
    """Raise FileNotFoundError if there is no driver."""
    if not SIMGRID_DRIVER.exists():
        raise FileNotFoundError(
            f"--engine simgrid: SimGrid is not set up: run sudo {COMMAND} setup --simgrid"
        )


def simgrid_s(plan: Plan, on_progress: OnProgress | None = None) -> float:
    """The time of the whole schedule on the plan's own paths, at nominal rates.

    Raise Refused for what it cannot carry out, RuntimeError if it fails.
    """
    check(plan, "SimGrid", "--engine simgrid")
    command = [SIMGRID_DRIVER, "--log=root.thresh:critical"]
    times, _ = carry_out("SimGrid", command, plan, problem(plan), on_progress=on_progress)
    return float(times.max(initial=0.0))


def problem(plan: Plan) -> list[Column]:
    """As simgrid.cpp reads it."""
    sizes, columns = waiting(plan)
    paths, capacity = links_of(
        plan.fabric, [flow.path for flow in plan.flows], payload_efficiency(plan.fabric.mtu_nbytes)
    )
    return [
        integers([plan.n_ranks, len(capacity), *sizes]),
        np.array(capacity, np.float64),
        integers([flow.src for flow in plan.flows]),
        integers([flow.dst for flow in plan.flows]),
        *lists_of(paths),
        *columns,
    ]

"""Timeouts for the parts of a run: generous, but finite."""

from gradwire.emu.options import RunOptions
from gradwire.emu.records import MAX_LEFT_OUT
from gradwire.planning.failures import outage_s
from gradwire.planning.plan import Plan

CONTROLLER_S = 120.0  # in an emulated virtual machine its libraries take a minute to import
SETUP_S = CONTROLLER_S + 60
_LEAST_REPEAT_S = 30.0
_TIMES_PREDICTED = 12  # collisions that the fluid model does not see, on a slow machine
_TIMES_LOSSY = 10  # as long again: TCP backs off at every loss, and waits 0.2 s or more for the last packet


def repeat_s(plan: Plan) -> float:
    """One repeat, from the common start to the last rank's end."""
    undisturbed_s = max(_LEAST_REPEAT_S, _TIMES_PREDICTED * plan.prediction.fluid_s)
    return undisturbed_s * (_TIMES_LOSSY if plan.losses else 1) + outage_s(plan.failures)


def run_s(plan: Plan, options: RunOptions) -> float:
    """The whole run: the session's own limits come first, and say more."""
    return SETUP_S + (options.repeats + MAX_LEFT_OUT + 1) * (repeat_s(plan) + _LEAST_REPEAT_S)

"""The choices that make a cell, and those that all cells of a matrix share, as rows say them."""

from collections.abc import Iterator
from typing import TypedDict

from gradwire.planning.experiment import Experiment
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.dtypes import FLOAT32, DType
from gradwire.traces.schedules.names import Pace
from gradwire.traces.schedules.outbox import FIFO, Order
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.units import show_ns


def cell_name(fabric: str, algorithm: str, placement: str, routes: str) -> str:
    """A cell for a person, such as `ring, linear, ecmp on star:hosts=4`."""
    return f"{algorithm}, {placement}, {routes} on {fabric}"


class Choices(TypedDict):
    """How a job is sent: fields of a row, and of `plan --json`."""

    seed: int
    dtype: DType
    send_delay_s: float
    order: Order
    pace: Pace | None


def choices_of(experiment: Experiment) -> Choices:
    """Those of a cell that may have no plan."""
    return Choices(
        seed=experiment.seed,
        dtype=experiment.wire,
        send_delay_s=experiment.send_delay_ns / 1e9,
        order=experiment.order,
        pace=experiment.pace,
    )


def planned_choices(plan: Plan) -> Choices:
    return Choices(
        seed=plan.seed,
        dtype=dtype_of(plan.schedule),
        send_delay_s=plan.schedule.send_delay_ns / 1e9,
        order=plan.schedule.order,
        pace=plan.pace,
    )


def dtype_of(schedule: Schedule) -> DType:
    """The type in which what is added up is sent; of several in a plan that somebody made the first."""
    return schedule.dtypes[0] if schedule.dtypes else FLOAT32


def show_choices(chosen: Choices) -> Iterator[str]:
    """Those that are not the default, a few words each; the seed is left out."""
    if chosen["dtype"] != FLOAT32:
        yield f"sent as {chosen['dtype']}"
    if chosen["send_delay_s"]:
        yield f"each send {show_ns(round(chosen['send_delay_s'] * 1e9))} late"
    if chosen["order"] != FIFO:
        yield chosen["order"]
    if chosen["pace"] is not None:
        yield f"pace {chosen['pace']}"

"""What a lab may expect something of: figures of rows and of planned cells by name, values with units."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from gradwire.planning.plan import Plan
from gradwire.results.limits import Limit, LimitKind
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.traces.iterationtimes import IterationTime
from gradwire.traces.units import MOST_LETTERS, parse_bps, parse_nbytes, parse_ns

Figure = float | int | str
Unit = Literal["", "s", "B/s", "name"]
"""Of plain numbers, times, rates and names."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """`measured` reads it from a row, `planned` from a cell that was only planned; None where there is none.

    `is_count`: a whole number, which can be compared by `==`.  `is_timed`: it depends on how fast the machine
    was, so that of a row that is not valid it says nothing.  `is_known` says of a plan whether its run will
    have the figure.
    """

    means: str
    unit: Unit = ""
    measured: Callable[[Row], Figure | None] | None = None
    planned: Callable[[PlannedCell], Figure | None] | None = None
    is_count: bool = False
    is_timed: bool = True
    is_known: Callable[[Plan], bool] = lambda plan: True  # noqa: ARG005 - most are always known


def _middle(value: Spread | IterationTime | None) -> float | None:
    return value.median if value else None


def show_bound(limit: Limit | None) -> str | None:
    """What `bounded_by` is of a row: `leaf0->spine1`, or the kind of limit."""
    if limit is None:
        return None
    return plain_link(limit.link) if limit.link else limit.kind


def plain_link(name: str) -> str:
    """`leaf0->spine1` of `leaf0→spine1`, as a person types it."""
    return name.replace("→", "->")


def _plain_or_none(name: str | None) -> str | None:
    return None if name is None else plain_link(name)


QUANTITIES: Mapping[str, Quantity] = {
    "time": Quantity(
        "from the common start to the last rank's end, median of the repeats; in `mode: plan` as predicted",
        "s",
        lambda row: _middle(row.time_s),
        lambda cell: cell.fluid_s,
    ),
    "ratio": Quantity(
        "time ÷ bound",
        "",
        lambda row: row.ratio,
        lambda cell: cell.ratio,
        is_known=lambda plan: bool(plan.prediction.bound_s),
    ),
    "bound": Quantity(
        "the least time that hosts with these links need",
        "s",
        lambda row: row.bound_s,
        lambda cell: cell.bound_s,
        is_timed=False,
    ),
    "fabric_bound": Quantity(
        "the least time on this fabric, whatever the routes, if every phase waits for the one before",
        "s",
        lambda row: row.fabric_bound_s,
        lambda cell: cell.figures and cell.figures["fabric_bound_s"],
        is_timed=False,
    ),
    "predicted": Quantity("what the calibrated model predicts", "s", lambda row: row.predicted_s),
    "ratio_predicted": Quantity("time ÷ predicted", "", lambda row: row.ratio_predicted),
    "closed": Quantity(
        "the algorithm's closed form",
        "s",
        lambda row: row.closed_s,
        lambda cell: cell.figures and cell.figures["closed_s"],
    ),
    "ratio_closed": Quantity(
        "time ÷ closed",
        "",
        lambda row: row.ratio_closed,
        lambda cell: cell.figures and cell.figures["ratio_closed"],
    ),
    "algbw": Quantity("bytes ÷ time", "B/s", lambda row: row.algbw_Bps),
    "busbw": Quantity("NCCL's bus bandwidth", "B/s", lambda row: row.busbw_Bps),
    "iteration": Quantity(
        "the median iteration, from start to start",
        "s",
        lambda row: _middle(row.iteration_s),
        lambda cell: cell.iteration_s,
        is_known=lambda plan: plan.prediction.iteration_s is not None,
    ),
    "exposed": Quantity(
        "what of an iteration no computing hides",
        "s",
        lambda row: row.exposed_s,
        lambda cell: cell.exposed_s,
        is_known=lambda plan: plan.prediction.exposed_s is not None,
    ),
    "fidelity": Quantity(
        "how like the capture the messages are, 1 if identical", "", lambda row: row.fidelity
    ),
    "wrong": Quantity(
        "elements with a wrong sum, over all repeats",
        "",
        lambda row: row.wrong,
        is_count=True,
        is_timed=False,
    ),
    "retransmits": Quantity("TCP segments sent again", "", lambda row: row.retransmits, is_count=True),
    "dropped": Quantity("packets dropped in the fabric's queues", "", lambda row: row.dropped, is_count=True),
    "cpu_idle": Quantity("the least idle share of all processors in a repeat", "", lambda row: row.cpu_idle),
    "worst_link_flows": Quantity(
        "flows that use the worst link at once",
        "",
        lambda row: row.worst_link_flows,
        lambda cell: cell.figures and cell.figures["worst_link_flows"],
        is_count=True,
        is_timed=False,
    ),
    "worst_link": Quantity(
        "the link that adds most to what the hosts' own links take, such as `leaf0->spine1`",
        "name",
        lambda row: _plain_or_none(row.worst_link),
        lambda cell: cell.figures and plain_link(cell.figures["worst_link"]),
        is_timed=False,
    ),
    "bounded_by": Quantity(
        "what holds it up: a link between switches such as `leaf0->spine1`, `hosts' links`, `messages` or "
        "`computing`",
        "name",
        lambda row: show_bound(row.limit),
        lambda cell: show_bound(cell.figures and cell.figures["limit"]),
        is_timed=False,
    ),
    "verdict": Quantity(
        "`valid`, `not valid` or `refused`; in `mode: plan` `planned` or `refused`",
        "name",
        lambda row: row.verdict,
        lambda cell: REFUSED if cell.refused is not None else "planned",
        is_timed=False,
    ),
}


def names_of(quantity: str, links: Sequence[str], *, is_run: bool) -> list[str]:
    """What a quantity that is a name can be, on fabrics with these links."""
    if quantity == "verdict":
        return [*(("valid", "not valid") if is_run else ("planned",)), REFUSED]
    kinds = [kind for kind in get_args(LimitKind) if kind != "link"] if quantity == "bounded_by" else []
    return [*kinds, *links]


_VALUE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([^\d.].*)?")


def parse_value(text: str) -> tuple[float, Unit]:
    """A number with its unit: `1.1`, `10%`, `300ms`, `5MB/s`, `50Mb/s`.  Raise ValueError."""
    match = _VALUE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:MOST_LETTERS]!r} is not a number of at most 15 digits")
    number, unit = match[1], match[2] or ""
    if not unit:
        return float(number), ""
    if unit == "%":
        return float(Fraction(number) / 100), ""
    if unit.endswith("B/s"):
        return float(parse_nbytes(text.removesuffix("/s"))), "B/s"
    if unit.endswith(("b/s", "bit/s", "bps")):
        return parse_bps(text) / 8, "B/s"
    return parse_ns(text) / 1e9, "s"

"""Figures of fabrics beside each other: the rows of `gradwire fabric`'s table, and its JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwire.planning.fabrics.bisection import Cut
from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, Fabric, Link
from gradwire.planning.fabrics.figures import Figures
from gradwire.tools.table import NOTHING, Table, columns, table_of
from gradwire.traces.units import show_bps

MTU = "MTU"
MOST_NUMBERS = 5  # in a cell


def fabric_table(some: Sequence[tuple[Fabric, Figures]]) -> Table:
    """A row for each figure with a title; the MTU only if a fabric's is not Ethernet's."""
    heads = columns(*(f"#{one.spec}" for one, _ in some))
    has_mtu = any(one.mtu_nbytes != DEFAULT_MTU_NBYTES for one, _ in some)
    rows = [
        (figure.title, *(figure.text(*pair) for pair in some))
        for figure in FIGURES
        if figure.title and (has_mtu or figure.title != MTU)
    ]
    return table_of((*columns(""), *heads), rows, tuple)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a fabric for both outputs: `field` is its name in JSON, `title` its row in the table.

    Without a field it is in the table only, without a title in JSON only; one that has another place in each
    is there twice.  The table shows `value` as `show` makes it.
    """

    field: str
    title: str
    value: Callable[[Fabric, Figures], Any]
    show: Callable[[Any], str] = str

    def text(self, fabric: Fabric, figures: Figures) -> str:
        return self.show(self.value(fabric, figures))


def _show_rates(links: Sequence[Link]) -> str:
    return ", ".join(show_bps(rate) for rate in sorted({link.rate_bps for link in links})) or "none"


def _show_bisection(cut: Cut) -> str:
    return ("" if cut.is_exact else "at most ") + show_bps(cut.bps)


def _show_numbers(numbers: Sequence[int]) -> str:
    """All of them, or of many the least and the most: a large torus has a hundred."""
    if len(numbers) <= MOST_NUMBERS:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]} to {numbers[-1]:,}"


def _show_mean(mean: float | None) -> str:
    return NOTHING if mean is None else f"{mean:.3g}"


def _queue_nbytes(fabric: Fabric, figures: Figures) -> int | None:
    del figures
    return min((link.queue_nbytes for link in fabric.links if link.queue_nbytes is not None), default=None)


FIGURES = (
    Figure("fabric", "", lambda fabric, _: fabric.spec),
    Figure("family", "", lambda fabric, _: fabric.family),
    Figure("hosts", "hosts", lambda _, figures: figures.n_hosts),
    Figure("switches", "switches", lambda _, figures: figures.n_switches),
    Figure("switch_ports", "switch ports", lambda _, figures: figures.n_ports),
    Figure("radix", "  of one switch", lambda _, figures: figures.radix, "up to {}".format),
    Figure("cables", "cables", lambda _, figures: figures.n_cables),
    Figure("inner_cables", "  between switches", lambda _, figures: figures.n_inner_cables),
    Figure("", "host links", lambda fabric, _: fabric.host_links, _show_rates),
    Figure("", "switch links", lambda fabric, _: fabric.inner_links, _show_rates),
    Figure("host_rate_bps", "", lambda _, figures: figures.host_rate_bps),
    Figure("uplink_rate_bps", "", lambda _, figures: figures.uplink_rate_bps),
    Figure("", "oversubscription", lambda _, figures: figures.oversubscription, "{:.3g} : 1".format),
    Figure("", "bisection", lambda _, figures: figures.bisection, _show_bisection),
    Figure("bisection_bps", "", lambda _, figures: figures.bisection.bps),
    Figure("bisection_exact", "", lambda _, figures: figures.bisection.is_exact),
    Figure("", "  of full", lambda _, figures: 1 / figures.worst_ratio, "{:.0%}".format),
    Figure("full_bps", "", lambda _, figures: figures.full_bps),
    Figure("worst_cut_ratio", "worst even cut", lambda _, figures: figures.worst_ratio, "{:.3g} : 1".format),
    Figure("worst_cut_switches", "", lambda _, figures: list(figures.bisection.near)),
    Figure("oversubscription", "", lambda _, figures: figures.oversubscription),
    Figure("shortest_paths", "shortest paths", lambda _, figures: list(figures.n_paths), _show_numbers),
    Figure("diameter_switches", "switches on a path", lambda _, figures: figures.diameter, "up to {}".format),
    Figure("mean_switches", "  on average", lambda _, figures: figures.mean_switches, _show_mean),
    Figure("queue_nbytes", "", _queue_nbytes),
    Figure("delay_ns", "", lambda fabric, _: max(link.delay_ns for link in fabric.links)),
    Figure("mtu_nbytes", MTU, lambda fabric, _: fabric.mtu_nbytes, "{} bytes".format),
)

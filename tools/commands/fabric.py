"""`gradwire fabric`: compare what fabrics are made of and how much they can carry."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gradwire.planning.fabrics.bisection import Cut
from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, Fabric, Link
from gradwire.planning.fabrics.fabricwriter import yaml_of
from gradwire.planning.fabrics.figures import Figures
from gradwire.planning.fabrics.figures import figures as figures_of
from gradwire.planning.fabrics.nodenames import ranges
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.console import console
from gradwire.tools.draw import fabric_svg
from gradwire.tools.options import FABRIC_HELP, JsonOption
from gradwire.tools.table import Table, columns, rich_table, table_of
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_bps, show_count

NAMES_COLUMN = 20
MIN_COLUMN = 12
MTU = "MTU"
MOST_NUMBERS = 5  # in a cell
SLACK = 1e-9  # of a ratio of whole numbers


def fabric(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC",
            help=f"{FABRIC_HELP}. Give several to compare them.",
        ),
    ],
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Draw the fabric as SVG to this file; takes one SPEC."),
    ] = None,
    as_yaml: Annotated[
        bool,
        typer.Option("--yaml", help="Print the fabric as YAML, as a start for your own; takes one SPEC."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare fabrics: hosts, switches, cables, bisection, oversubscription and paths.

    The fabrics should have the same number of hosts; a note says if they do not.
    """
    fabrics = [parse_fabric(spec) for spec in specs]
    for option, given in (("--svg", svg is not None), ("--yaml", as_yaml)):
        if given and len(fabrics) != 1:
            raise ValueError(f"{option} takes one fabric, got {len(fabrics)}: run it once for each")
    if as_yaml and as_json:
        raise ValueError("--yaml and --json cannot be used together: give one of them")
    columns = [figures_of(one) for one in fabrics]
    if svg is not None:
        write_whole(svg, fabric_svg(fabrics[0]))
    if as_yaml:
        print(yaml_of(fabrics[0]), end="")
    elif as_json:
        print(json.dumps([_row(*pair) for pair in zip(fabrics, columns, strict=True)], indent=1))
    else:
        _print(console(), list(zip(fabrics, columns, strict=True)))
        if svg is not None:
            console().print(f"drawn in {svg}", soft_wrap=True)


def _print(to: Console, columns: Sequence[tuple[Fabric, Figures]]) -> None:
    for batch in _batches(columns, to.width):
        to.print(rich_table(_table(batch), head_style="bold"))
        to.print()
    for one, figures in columns:
        if figures.worst_ratio > 1 + SLACK:
            sentence = f"{one.spec}: its worst even cut parts {_side(one, figures)} from the rest"
            to.print(sentence, style="dim", soft_wrap=True)
    sizes = sorted({figures.n_hosts for _, figures in columns})
    if len(sizes) > 1:
        counts = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        console(stderr=True).print(f"note: these have {counts} hosts; compare fabrics with equally many")


def _side(fabric: Fabric, figures: Figures) -> str:
    """`upper0..1 lower0..1`, and how many hosts of other switches make it half of all."""
    near = set(figures.bisection.near)
    missing = figures.n_hosts // 2 - sum(access_switch(fabric, host) in near for host in fabric.hosts)
    more = f"{show_count(missing, 'host')} of other switches" if missing > 0 else ""
    return " and ".join(filter(None, (" ".join(ranges(figures.bisection.near)), more)))


def _row(fabric: Fabric, figures: Figures) -> dict[str, object]:
    """As docs/schemas.md, "fabric --json", says."""
    return {one.field: one.value(fabric, figures) for one in _FIGURES if one.field}


def _batches(columns: Sequence[tuple[Fabric, Figures]], width: int) -> list[list[tuple[Fabric, Figures]]]:
    """As many fabrics beside each other as fit."""
    batches: list[list[tuple[Fabric, Figures]]] = []
    used = width
    for pair in columns:
        needed = max(len(pair[0].spec), MIN_COLUMN) + 2
        if used + needed > width:
            batches.append([])
            used = NAMES_COLUMN
        batches[-1].append(pair)
        used += needed
    return batches


def _table(batch: Sequence[tuple[Fabric, Figures]]) -> Table:
    """A row for each figure with a title; the MTU only if a fabric's is not Ethernet's."""
    heads = columns(*(f"#{one.spec}" for one, _ in batch), wrap="anywhere")
    has_mtu = any(one.mtu_nbytes != DEFAULT_MTU_NBYTES for one, _ in batch)
    rows = [
        (figure.title, *(figure.text(*pair) for pair in batch))
        for figure in _FIGURES
        if figure.title and (has_mtu or figure.title != MTU)
    ]
    return table_of((*columns(""), *heads), rows, tuple)


@dataclass(frozen=True, slots=True)
class _Figure:
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


def _queue_nbytes(fabric: Fabric, figures: Figures) -> int | None:
    del figures
    return min((link.queue_nbytes for link in fabric.links if link.queue_nbytes is not None), default=None)


_FIGURES = (
    _Figure("fabric", "", lambda fabric, _: fabric.spec),
    _Figure("family", "", lambda fabric, _: fabric.family),
    _Figure("hosts", "hosts", lambda _, figures: figures.n_hosts),
    _Figure("switches", "switches", lambda _, figures: figures.n_switches),
    _Figure("switch_ports", "switch ports", lambda _, figures: figures.n_ports),
    _Figure("cables", "cables", lambda _, figures: figures.n_cables),
    _Figure("inner_cables", "  between switches", lambda _, figures: figures.n_inner_cables),
    _Figure("", "host links", lambda fabric, _: fabric.host_links, _show_rates),
    _Figure("", "switch links", lambda fabric, _: fabric.inner_links, _show_rates),
    _Figure("host_rate_bps", "", lambda _, figures: figures.host_rate_bps),
    _Figure("uplink_rate_bps", "", lambda _, figures: figures.uplink_rate_bps),
    _Figure("", "oversubscription", lambda _, figures: figures.oversubscription, "{:.3g} : 1".format),
    _Figure("", "bisection", lambda _, figures: figures.bisection, _show_bisection),
    _Figure("bisection_bps", "", lambda _, figures: figures.bisection.bps),
    _Figure("bisection_exact", "", lambda _, figures: figures.bisection.is_exact),
    _Figure("", "  of full", lambda _, figures: 1 / figures.worst_ratio, "{:.0%}".format),
    _Figure("full_bps", "", lambda _, figures: figures.full_bps),
    _Figure("worst_cut_ratio", "worst even cut", lambda _, figures: figures.worst_ratio, "{:.3g} : 1".format),
    _Figure("worst_cut_switches", "", lambda _, figures: list(figures.bisection.near)),
    _Figure("oversubscription", "", lambda _, figures: figures.oversubscription),
    _Figure("shortest_paths", "shortest paths", lambda _, figures: list(figures.n_paths), _show_numbers),
    _Figure(
        "diameter_switches", "switches on a path", lambda _, figures: figures.diameter, "up to {}".format
    ),
    _Figure("queue_nbytes", "", _queue_nbytes),
    _Figure("delay_ns", "", lambda fabric, _: max(link.delay_ns for link in fabric.links)),
    _Figure("mtu_nbytes", MTU, lambda fabric, _: fabric.mtu_nbytes, "{} bytes".format),
)

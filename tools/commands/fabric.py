"""`gradwire fabric`: compare what fabrics are made of and how much they can carry."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, Fabric, Link
from gradwire.planning.fabrics.fabricwriter import yaml_of
from gradwire.planning.fabrics.figures import Figures, figures
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
    columns = [figures(one) for one in fabrics]
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
    for some in _batches(columns, to.width):
        to.print(rich_table(_table(some), head_style="bold"))
        to.print()
    for one, found in columns:
        if found.worst_ratio > 1 + SLACK:
            told = f"{one.spec}: its worst even cut parts {_side(one, found)} from the rest"
            to.print(told, style="dim", soft_wrap=True)
    sizes = sorted({found.n_hosts for _, found in columns})
    if len(sizes) > 1:
        counts = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        console(stderr=True).print(f"note: these have {counts} hosts; compare fabrics with equally many")


def _side(fabric: Fabric, found: Figures) -> str:
    """`upper0..1 lower0..1`, and how many hosts of other switches make it half of all."""
    near = set(found.bisection.near)
    missing = found.n_hosts // 2 - sum(access_switch(fabric, host) in near for host in fabric.hosts)
    more = f"{show_count(missing, 'host')} of other switches" if missing > 0 else ""
    return " and ".join(filter(None, (" ".join(ranges(found.bisection.near)), more)))


def _row(fabric: Fabric, column: Figures) -> dict[str, object]:
    """As docs/schemas.md, "fabric", says."""
    queues = {link.queue_nbytes for link in fabric.links if link.queue_nbytes is not None}
    return {
        "fabric": fabric.spec,
        "family": fabric.family,
        "hosts": column.n_hosts,
        "switches": column.n_switches,
        "switch_ports": column.n_ports,
        "cables": column.n_cables,
        "inner_cables": column.n_inner_cables,
        "host_rate_bps": column.host_rate_bps,
        "uplink_rate_bps": column.uplink_rate_bps,
        "bisection_bps": column.bisection.bps,
        "bisection_exact": column.bisection.is_exact,
        "full_bps": column.full_bps,
        "worst_cut_ratio": column.worst_ratio,
        "worst_cut_switches": list(column.bisection.near),
        "oversubscription": column.oversubscription,
        "shortest_paths": list(column.n_paths),
        "diameter_switches": column.diameter,
        "queue_nbytes": min(queues, default=None),
        "delay_ns": max(link.delay_ns for link in fabric.links),
        "mtu_nbytes": fabric.mtu_nbytes,
    }


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


def _table(some: Sequence[tuple[Fabric, Figures]]) -> Table:
    heads = columns(*(f"#{one.spec}" for one, _ in some), wrap="anywhere")
    rows = [(name, *(cell(one, found) for one, found in some)) for name, cell in _CELLS]
    if any(one.mtu_nbytes != DEFAULT_MTU_NBYTES for one, _ in some):
        rows.append(("MTU", *(f"{one.mtu_nbytes} bytes" for one, _ in some)))
    return table_of((*columns(""), *heads), rows, tuple)


def _rates(links: Sequence[Link]) -> str:
    return ", ".join(show_bps(rate) for rate in sorted({link.rate_bps for link in links})) or "none"


def _few(numbers: Sequence[int]) -> str:
    """All of them, or of many the least and the most: a large torus has a hundred."""
    if len(numbers) <= MOST_NUMBERS:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]} to {numbers[-1]:,}"


def _bisection(fabric: Fabric, found: Figures) -> str:
    del fabric
    return ("" if found.bisection.is_exact else "at most ") + show_bps(found.bisection.bps)


_CELLS: tuple[tuple[str, Callable[[Fabric, Figures], str]], ...] = (
    ("hosts", lambda _, found: str(found.n_hosts)),
    ("switches", lambda _, found: str(found.n_switches)),
    ("switch ports", lambda _, found: str(found.n_ports)),
    ("cables", lambda _, found: str(found.n_cables)),
    ("  between switches", lambda _, found: str(found.n_inner_cables)),
    ("host links", lambda one, _: _rates(one.host_links)),
    ("switch links", lambda one, _: _rates(one.inner_links)),
    ("oversubscription", lambda _, found: f"{found.oversubscription:.3g} : 1"),
    ("bisection", _bisection),
    ("  of full", lambda _, found: f"{1 / found.worst_ratio:.0%}"),
    ("worst even cut", lambda _, found: f"{found.worst_ratio:.3g} : 1"),
    ("shortest paths", lambda _, found: _few(found.n_paths)),
    ("switches on a path", lambda _, found: f"up to {found.diameter}"),
)

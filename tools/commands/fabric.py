"""`gradwire fabric`: what fabrics are made of and can carry, side by side."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from emu.fabric import Fabric
from emu.figures import Figures, figures
from emu.spec import parse_fabric
from tools.console import console
from tools.draw import fabric_svg
from tools.options import FABRIC_HELP, JsonOption
from traces.files import write_whole
from traces.units import show_bps

NAMES_COLUMN = 20
MIN_COLUMN = 12


def fabric(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC",
            help=f"{FABRIC_HELP}. Several are compared.",
        ),
    ],
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the fabric (one SPEC) into this file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Hosts, switches, cables, bisection, oversubscription and paths of fabrics, side by side.

    Compare fabrics with equally many hosts; others are told of.
    """
    fabrics = [parse_fabric(spec) for spec in specs]
    if svg is not None and len(fabrics) != 1:
        raise ValueError(f"--svg draws one fabric, got {len(fabrics)}: run it once for each")
    columns = [figures(one) for one in fabrics]
    if svg is not None:
        write_whole(svg, fabric_svg(fabrics[0]))
    if as_json:
        print(json.dumps([_row(*pair) for pair in zip(fabrics, columns, strict=True)], indent=1))
        return
    to = console()
    for some in _batches(list(zip(fabrics, columns, strict=True)), to.width):
        to.print(_table(some))
        to.print()
    sizes = sorted({column.n_hosts for column in columns})
    if len(sizes) > 1:
        counts = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        console(stderr=True).print(f"note: these have {counts} hosts; compare fabrics with equally many")
    if svg is not None:
        to.print(f"drawn in {svg}", soft_wrap=True)


def _row(fabric: Fabric, column: Figures) -> dict[str, object]:
    """As docs/schemas.md, "fabric", says."""
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
        "bisection_bps": column.bisection_bps,
        "bisection_exact": column.bisection_is_exact,
        "oversubscription": column.oversubscription,
        "shortest_paths": list(column.n_paths),
        "diameter_switches": column.diameter,
        "queue_nbytes": fabric.queue_nbytes,
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


def _table(columns: Sequence[tuple[Fabric, Figures]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for one, _ in columns:
        table.add_column(one.spec, justify="right", overflow="fold")
    only = [column for _, column in columns]
    full_bps = [column.n_hosts // 2 * column.host_rate_bps for column in only]
    for name, cells in (
        ("hosts", [str(c.n_hosts) for c in only]),
        ("switches", [str(c.n_switches) for c in only]),
        ("switch ports", [str(c.n_ports) for c in only]),
        ("cables", [str(c.n_cables) for c in only]),
        ("  between switches", [str(c.n_inner_cables) for c in only]),
        ("host links", [show_bps(c.host_rate_bps) for c in only]),
        ("switch links", [show_bps(c.uplink_rate_bps) if c.uplink_rate_bps else "none" for c in only]),
        (
            "bisection",
            [("" if c.bisection_is_exact else "at most ") + show_bps(c.bisection_bps) for c in only],
        ),
        ("  of full", [f"{c.bisection_bps / full:.0%}" for c, full in zip(only, full_bps, strict=True)]),
        ("oversubscription", [f"{c.oversubscription:.3g} : 1" for c in only]),
        ("shortest paths", [", ".join(map(str, c.n_paths)) for c in only]),
        ("switches on a path", [f"up to {c.diameter}" for c in only]),
    ):
        table.add_row(name, *cells)
    return table

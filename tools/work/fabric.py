"""Compares fabrics, for `gradwire fabric`."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gradwire.planning.fabrics.fabric import MAX_HOSTS, Fabric
from gradwire.planning.fabrics.fabricwriter import yaml_of
from gradwire.planning.fabrics.family import DEFAULT_RATE_BPS
from gradwire.planning.fabrics.figures import Figures
from gradwire.planning.fabrics.figures import figures as figures_of
from gradwire.planning.fabrics.nodenames import ranges
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.radix import largest
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.console import console
from gradwire.tools.drawing.svg import fabric_svg
from gradwire.tools.fabrictable import FIGURES, fabric_table
from gradwire.tools.progressbar import PATIENCE_S, progress_bar
from gradwire.tools.sizetable import grid_note, size_row, size_table
from gradwire.tools.table import rich_table
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_bps, show_count

NAMES_COLUMN = 20
MIN_COLUMN = 12
SLACK = 1e-9  # of a ratio of whole numbers


def compare_fabrics(specs: Sequence[str], svg: Path | None, *, as_yaml: bool, as_json: bool) -> None:
    """Print their figures beside each other, or one of them as YAML, and draw what was asked for."""
    fabrics = [parse_fabric(spec) for spec in specs]
    for option, given in (("--svg", svg is not None), ("--yaml", as_yaml)):
        if given and len(fabrics) != 1:
            raise ValueError(f"{option} takes one fabric, got {len(fabrics)}: run it once for each")
    if as_yaml and as_json:
        raise ValueError("--yaml and --json cannot be used together: give one of them")
    columns = _figures(fabrics, quiet=as_json)
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


def _figures(fabrics: Sequence[Fabric], *, quiet: bool) -> list[Figures]:
    """With a bar where it takes long: a torus of 64 by 64 needs half a minute."""
    found: list[Figures] = []
    with progress_bar(quiet=quiet, after_s=PATIENCE_S) as progress:
        task = progress.add_task("", total=len(fabrics))
        for one in fabrics:
            progress.update(task, description=f"counting the paths of {one.spec}", completed=len(found))
            found.append(figures_of(one))
    return found


def list_sizes(radix: int, *, as_json: bool) -> None:
    """Print the largest fabrics of switches with so many ports.  Raise ValueError."""
    sizes = largest(radix)
    if as_json:
        print(json.dumps([size_row(size) for size in sizes], indent=1))
        return
    from gradwire.emu.run import MAX_HOSTS as MAX_HOSTS_HERE  # it takes 30 ms to import

    to = console()
    to.print(f"switches with {radix} ports, links of {show_bps(DEFAULT_RATE_BPS)}", style="dim")
    to.print(rich_table(size_table(sizes), head_style="bold"))
    to.print()
    limits = (
        f"`plan` takes fabrics of up to {MAX_HOSTS:,} hosts, and one machine builds up to {MAX_HOSTS_HERE:,}."
    )
    for note in (grid_note(radix), limits):
        to.print(note, style="dim", soft_wrap=True)


def _print(to: Console, columns: Sequence[tuple[Fabric, Figures]]) -> None:
    for batch in _batches(columns, to.width):
        to.print(rich_table(fabric_table(batch), head_style="bold"))
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
    return {one.field: one.value(fabric, figures) for one in FIGURES if one.field}


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

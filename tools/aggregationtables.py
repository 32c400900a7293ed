"""In-network aggregation beside what the hosts do: a grid of figures, and one of bytes by tier.

Grids are values, for the terminal and the page.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from gradwire.emu.aggregation.figures import AggregationRow
from gradwire.results.row import Row
from gradwire.traces.units import show_nbytes, show_s

NOTHING = "–"
_FIGURES = ("time", "busbw MB/s", "added per result", "slots", "packets sent", "sent again")
_ERRORS = ("largest error", "RMS error", "error bound")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as text; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def aggregation_grids(rows: Sequence[Row]) -> Iterator[TextTable]:
    """Of the rows of one fabric; none where switches added nothing up and were not asked to."""
    measured = [row for row in rows if row.time_s]
    if not any(row.aggregation or row.host_side for row in measured):
        return
    has_sizes = len({row.bytes for row in measured}) > 1
    names = [(row.algorithm, show_nbytes(row.bytes)) if has_sizes else (row.algorithm,) for row in measured]
    first = ("algorithm", "size") if has_sizes else ("algorithm",)
    figures = [_figures(row) for row in measured]
    yield TextTable("In-network aggregation", (*first, *_FIGURES, *_ERRORS), _joined(names, figures))
    tiers = tuple(dict.fromkeys(tier for row in measured for tier in row.tier_nbytes))
    if tiers:
        sums = [_sums(row, tiers) for row in measured]
        yield TextTable("Bytes on the wire by tier, of all its links", (*first, *tiers), _joined(names, sums))


def rich_table(grid: TextTable) -> Table:
    """Heads break at every space, and before an arrow."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for number, head in enumerate(grid.head):
        broken = head.replace(" ", "\n").replace("→", "\n→")
        table.add_column(broken, justify="right" if number else "left", no_wrap=True)
    for row in grid.rows:
        table.add_row(*row)
    return table


def _joined(
    names: Sequence[tuple[str, ...]], cells: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    return tuple((*name, *some) for name, some in zip(names, cells, strict=True))


def _figures(row: Row) -> tuple[str, ...]:
    time = NOTHING if row.time_s is None else show_s(row.time_s.median)
    busbw = NOTHING if row.busbw_Bps is None else f"{row.busbw_Bps / 1e6:.3g}"
    return time, busbw, *_added(row.aggregation)


def _added(figures: AggregationRow | None) -> tuple[str, ...]:
    if figures is None:
        return (NOTHING,) * (len(_FIGURES) - 2 + len(_ERRORS))
    return (
        NOTHING if figures.additions_per_result is None else f"{figures.additions_per_result:.3g}",
        str(figures.slots),
        f"{figures.contributions:,}",
        f"{figures.retransmitted:,}",
        f"{figures.largest_error:.2g}",
        f"{figures.rms_error:.2g}",
        f"{figures.error_bound:.2g}",
    )


def _sums(row: Row, tiers: Sequence[str]) -> tuple[str, ...]:
    return tuple(show_nbytes(row.tier_nbytes[tier]) if tier in row.tier_nbytes else NOTHING for tier in tiers)

"""In-network aggregation beside what the hosts do: a grid of figures, and one of bytes by tier.

Both are for the terminal and the page.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradwire.emu.aggregation.figures import AggregationRow
from gradwire.results.row import Row
from gradwire.tools.table import NOTHING, Column, Table, columns, or_nothing, table_of
from gradwire.traces.units import show_nbytes, show_s

_TIMES = ("#time", "#busbw MB/s")
_ADDED = (
    "#added per result", "#slots", "#packets sent", "#sent again", "#largest error",
    "#RMS error", "#error bound",
)  # fmt: skip


def aggregation_grids(rows: Sequence[Row]) -> Iterator[Table]:
    """Of the rows of one fabric; none where switches added nothing up and were not asked to."""
    measured = [row for row in rows if row.time_s]
    if not any(row.aggregation or row.host_side for row in measured):
        return
    has_sizes = len({row.bytes for row in measured}) > 1
    tiers = tuple(dict.fromkeys(tier for row in measured for tier in row.tier_nbytes))
    first = ("algorithm", "#size") if has_sizes else ("algorithm",)

    def name(row: Row) -> tuple[str, ...]:
        return (row.algorithm, show_nbytes(row.bytes)) if has_sizes else (row.algorithm,)

    def figures(row: Row) -> tuple[str, ...]:
        time = NOTHING if row.time_s is None else show_s(row.time_s.median)
        return *name(row), time, or_nothing(row.busbw_Bps, megabytes), *_added(row.aggregation)

    def sums(row: Row) -> tuple[str, ...]:
        return *name(row), *(or_nothing(row.tier_nbytes.get(tier), show_nbytes) for tier in tiers)

    heads = columns(*first, *_TIMES, *_ADDED, wrap="never")
    yield table_of(heads, measured, figures, title="In-network aggregation")
    if tiers:
        heads = columns(*first, *(f"#{tier}" for tier in tiers), wrap="never")
        yield table_of(heads, measured, sums, title="Bytes on the wire by tier, of all its links")


def broken_heads(grid: Table) -> Table:
    """For a terminal: heads break at every space, and before an arrow."""

    def broken(column: Column) -> Column:
        return replace(column, title=column.title.replace(" ", "\n").replace("→", "\n→"))

    return replace(grid, columns=tuple(map(broken, grid.columns)))


def megabytes(nbytes_per_s: float) -> str:
    return f"{nbytes_per_s / 1e6:.3g}"


def _added(figures: AggregationRow | None) -> tuple[str, ...]:
    if figures is None:
        return (NOTHING,) * len(_ADDED)
    return (
        or_nothing(figures.additions_per_result, "{:.3g}".format),
        str(figures.slots),
        f"{figures.contributions:,}",
        f"{figures.retransmitted:,}",
        f"{figures.largest_error:.2g}",
        f"{figures.rms_error:.2g}",
        f"{figures.error_bound:.2g}",
    )

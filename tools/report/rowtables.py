"""Result rows as tables: one per fabric, or one per cell of a sweep of sizes.

A sweep is printed as nccl-tests does it (tools.report.ncclstyle).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby

from rich.console import Console, RenderableType
from rich.text import Text

from gradwire.results.row import REFUSED, Row
from gradwire.tools.linkrates import show_rates
from gradwire.tools.report.aggregationtables import aggregation_grids, broken_heads, megabytes
from gradwire.tools.report.ncclstyle import UNACCOUNTED, nccl_lines
from gradwire.tools.report.rownotes import notes
from gradwire.tools.table import NOTHING, Cell, Table, columns, or_nothing, rich_table, table_of
from gradwire.traces.schedules.dtypes import FLOAT32
from gradwire.traces.schedules.outbox import FIFO
from gradwire.traces.units import show_count, show_nbytes, show_s

UNBOUNDED = 10_000  # columns
VERDICT_STYLES = {"valid": "green", "not valid": "bold red", REFUSED: "dim"}
_FIGURES = ("#time", "#busbw\nMB/s", "#bound", "#ratio", "#pred.")


def print_rows(to: Console, rows: Sequence[Row], verbose: bool = False) -> None:
    """Print the rows: as a sweep if measured rows have several sizes (refused cells have none).

    The notes below have no more lines than the tables, unless `verbose`.
    """
    n_lines = 0
    swept = len({row.bytes for row in rows if row.time_s}) > 1
    for _, same in groupby(rows, key=_cell if swept else _fabric):
        batch = list(same)
        to.print()
        to.print(Text(_heading(batch, swept), style="bold"))
        if swept:
            lines = [*nccl_lines(batch)]
            to.print(Text("\n".join(lines)), soft_wrap=True)
            n_lines += len(lines)
        else:
            table = rich_table(_fitting(to, partial(_matrix, batch)), dense=True)
            to.print(table)
            n_lines += n_lines_of(to, table)
    for _, same in groupby(rows, key=_fabric):
        for grid in aggregation_grids(list(same)):
            to.print()
            to.print(Text(grid.title, style="bold"))
            to.print(rich_table(broken_heads(grid), dense=True))
    lines = notes(rows)
    for line in lines if verbose else first_lines(to, lines, n_lines):
        to.print(Text(line, style="dim"))


def first_lines(to: Console, lines: Sequence[str], most: int) -> list[str]:
    """As many as take at most this many lines of the terminal; the last one says how many are left."""
    sizes = [n_lines_of(to, Text(line)) for line in lines]
    if sum(sizes) <= most:
        return [*lines]
    shown = sum(total < most for total in accumulate(sizes))
    return [*lines[:shown], f"and {show_count(len(lines) - shown, 'more note')}: --verbose prints all"]


def n_lines_of(to: Console, what: RenderableType) -> int:
    """How many lines of the terminal it takes."""
    return len(to.render_lines(what, pad=False))


def _fabric(row: Row) -> str:
    return row.fabric


def _cell(row: Row) -> str:
    return f"{row.fabric} · {row.algorithm} · {row.placement} · {row.routes}"


def _heading(rows: Sequence[Row], swept: bool) -> str:
    rates = show_rates(rows[0].host_rates_bps, rows[0].inner_rates_bps)
    what = (_cell if swept else _fabric)(rows[0])
    size = "" if swept else f" · {show_nbytes(max(row.bytes for row in rows))}"
    size += f" · {rows[0].dtype}" if rows[0].dtype != FLOAT32 else ""
    size += f" · each send {show_s(rows[0].send_delay_s)} late" if rows[0].send_delay_s else ""
    size += f" · {rows[0].order}" if rows[0].order != FIFO else ""
    return f"{what} · {rows[0].hosts} hosts at {rates} · {rows[0].ranks} ranks{size}"


def _fitting(to: Console, table_with: Callable[[str, bool], Table]) -> Table:
    """With times over closed forms if there is room for them.  Worst links in one line or, where that is too
    wide, with a break before the arrow.
    """
    options = to.options.update(max_width=UNBOUNDED)
    for choice in (("", True), ("\n", True), ("", False)):
        table = table_with(*choice)
        if to.measure(rich_table(table, dense=True), options=options).maximum <= to.width:
            return table
    return table


def _matrix(rows: Sequence[Row], before_arrow: str, with_closed: bool) -> Table:
    compared = any(row.fidelity is not None for row in rows)
    closed = with_closed and any(row.ratio_closed is not None for row in rows)
    more = (("#closed",) if closed else ()) + (("#fide-\nlity",) if compared else ())
    *heads, verdict = columns("algorithm", "placement,\nroutes", *_FIGURES, *more, "verdict", wrap="never")
    link = columns("worst link\n× flows")

    def cells(row: Row) -> tuple[Cell | str, ...]:
        cell = row.algorithm, f"{row.placement}, {row.routes}"
        over_closed = (or_nothing(row.ratio_closed, "{:.3f}".format),) if closed else ()
        likeness = (or_nothing(row.fidelity, "{:.2f}".format),) if compared else ()
        return *cell, _time(row), *_figures(row), *over_closed, *likeness, *_end(row, before_arrow)

    return table_of((*heads, *link, *columns("##wrong"), verdict), rows, cells)


def _time(row: Row) -> str:
    """The median, and half of what lies between the fastest and the slowest repeat."""
    if row.time_s is None:
        return NOTHING
    spread = (row.time_s.max - row.time_s.min) / row.time_s.median / 2
    return f"{show_s(row.time_s.median)} ±{spread:.1%}"


def _figures(row: Row) -> tuple[str, ...]:
    return (
        or_nothing(row.busbw_Bps, megabytes),
        or_nothing(row.bound_s, show_s),
        or_nothing(row.ratio, "{:.3f}".format),
        or_nothing(None if row.flows_may_move else row.ratio_predicted, "{:.3f}".format)
        + (UNACCOUNTED if row.is_unaccounted else ""),
    )


def _end(row: Row, before_arrow: str) -> tuple[Cell | str, ...]:
    link = f"{row.worst_link} ×{row.worst_link_flows}" if row.worst_link else NOTHING
    link = link.replace("→", f"{before_arrow}→")
    return link, or_nothing(row.wrong, str), Cell(row.verdict, style=VERDICT_STYLES[row.verdict])

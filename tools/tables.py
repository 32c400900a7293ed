"""Result rows as tables of at most 100 columns: one per fabric, or one per cell of a sweep of sizes.

A sweep is printed as nccl-tests does it (tools.ncclstyle).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from rich.console import Console
from rich.text import Text

from gradwire.planning.model.errorbar import Bar
from gradwire.planning.plan import ADAPTIVE
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.tools.aggregationtables import aggregation_grids, broken_heads, megabytes
from gradwire.tools.linkrates import show_rates
from gradwire.tools.ncclstyle import UNACCOUNTED, nccl_lines
from gradwire.tools.table import NOTHING, Cell, Table, columns, or_nothing, rich_table, table_of
from gradwire.traces.schedules.dtypes import FLOAT32
from gradwire.traces.schedules.outbox import FIFO
from gradwire.traces.units import show_nbytes, show_s

UNBOUNDED = 10_000  # columns
VERDICT_STYLES = {"valid": "green", "not valid": "bold red", REFUSED: "dim"}
_FIGURES = ("#time", "#busbw\nMB/s", "#bound", "#ratio", "#pred.")


def print_rows(to: Console, rows: Sequence[Row]) -> None:
    """Print the rows: as a sweep if measured rows have several sizes (refused cells have none)."""
    swept = len({row.bytes for row in rows if row.time_s}) > 1
    for _, same in groupby(rows, key=_cell if swept else _fabric):
        batch = list(same)
        to.print()
        to.print(Text(_heading(batch, swept), style="bold"))
        if swept:
            to.print(Text("\n".join(nccl_lines(batch))), soft_wrap=True)
        else:
            to.print(rich_table(_fitting(to, partial(_matrix, batch)), dense=True))
    for _, same in groupby(rows, key=_fabric):
        for grid in aggregation_grids(list(same)):
            to.print()
            to.print(Text(grid.title, style="bold"))
            to.print(rich_table(broken_heads(grid), dense=True))
    for line in notes(rows):
        to.print(Text(line, style="dim"))


def notes(rows: Sequence[Row]) -> list[str]:
    """Why rows are refused, not valid, doubtful or slow, and how long iterations take; each reason once."""
    lines = []
    for row in rows:
        name = f"{row.fabric.partition(':')[0]}, {row.algorithm}, {row.placement}, {row.routes}"
        lines += [f"{verdict}: {name}: {reason}" for verdict, reason in row.reason_lines()]
        lines += [f"note: {name}: {warning}" for warning in row.warnings]
        if row.iteration_s and row.exposed_s is not None:
            lines.append(f"iteration: {name}: {iteration_words(row)}")
        if row.why:
            lines.append(f"why: {name}: {row.why}")
        lines += [f"note: {name}: {failure}" for failure in row.failure_lines()]
        if row.flows_may_move and row.time_s:
            lines.append(f"note: {name}: {as_planned(row)}")
        if row.settled_s:
            lines.append(f"note: {name}: {settling_words(row.settled_s)}")
        lines += [f"note: {name}: done by the hosts: {reason}" for reason in row.host_side]
        if row.dropped:
            lines.append(f"note: {name}: {row.dropped} packets dropped in the fabric's queues")
    return list(dict.fromkeys(lines))


def iteration_words(row: Row) -> str:
    """How long one is, and should be, for a person."""
    time, exposed_s = row.iteration_s, row.exposed_s or 0.0
    assert time
    spread = f" ({show_s(time.low)} to {show_s(time.high)}, n = {time.n})" if time.n > 1 else ""
    words = f"{show_s(time.median)}{spread} from start to start; no computing hides {show_s(exposed_s)} of it"
    if row.predicted_iteration is None or row.predicted_exposed is None or row.flows_may_move:
        return words
    return f"{words}; predicted: {show_bar(row.predicted_iteration)} and {show_bar(row.predicted_exposed)}"


def show_bar(bar: Bar) -> str:
    spread = f" ({show_range(bar)})" if bar.low_s is not None else ""
    return f"{show_s(bar.predicted_s)}{spread}"


def show_range(bar: Bar) -> str:
    """From where to where it goes; empty without a bar."""
    if bar.low_s is None or bar.high_s is None:
        return ""
    return f"{show_s(bar.low_s)} to {show_s(bar.high_s)}"


def as_planned(row: Row) -> str:
    """What the figures from the plan do not know, of a row whose flows may have left their paths."""
    unknown = ("the failures", row.failures), ("what the controller moved", row.routes == ADAPTIVE)
    what = " and ".join(text for text, is_so in unknown if is_so)
    return f"prediction and worst link are of the paths as planned; they do not know of {what}"


def settling_words(settled_s: Spread) -> str:
    """When the controller moved flows for the last time, for a person."""
    if not settled_s.max:
        return "the controller moved no flow"
    words = f"flows moved until {show_s(settled_s.median)} after the start"
    return words if settled_s.min == settled_s.max else f"{words} (at most {show_s(settled_s.max)})"


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

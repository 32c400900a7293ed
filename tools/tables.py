"""Result rows as tables of at most 100 columns: one per fabric, or one per cell of a sweep of sizes."""

from collections.abc import Callable, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from emu.result import REFUSED, Row
from traces.units import show_bps, show_nbytes, show_s

NOTHING = "–"
_STYLE = {"valid": "green", "not valid": "bold red", REFUSED: "dim"}
_FIGURES = ("busbw\nMB/s", "bound", "ratio", "pred.")


def print_rows(to: Console, rows: Sequence[Row]) -> None:
    """Refused cells have no size: a sweep is told by the others."""
    swept = len({row.bytes for row in rows if row.time_s}) > 1
    for _, group in groupby(rows, key=_cell if swept else _fabric):
        some = list(group)
        to.print()
        to.print(Text(_heading(some, swept), style="bold"))
        to.print(_sweep(some) if swept else _matrix(some))
    for line in notes(rows):
        to.print(Text(line, style="dim"))


def notes(rows: Sequence[Row]) -> list[str]:
    """Why rows are refused, not valid, doubtful or slow; each reason once."""
    lines = []
    for row in rows:
        name = f"{row.fabric.partition(':')[0]}, {row.algorithm}, {row.placement}, {row.routes}"
        lines += [f"{row.verdict}: {name}: {reason}" for reason in row.reasons]
        lines += [f"note: {name}: {warning}" for warning in row.warnings]
        if row.why:
            lines.append(f"why: {name}: {row.why}")
        lines += [f"note: {name}: {failure}" for failure in row.failures]
        if row.dropped:
            lines.append(f"note: {name}: {row.dropped} packets dropped in the fabric's queues")
    return list(dict.fromkeys(lines))


def _fabric(row: Row) -> str:
    return row.fabric


def _cell(row: Row) -> str:
    return f"{row.fabric} · {row.algorithm} · {row.placement} · {row.routes}"


def _heading(rows: Sequence[Row], swept: bool) -> str:
    rate = " and ".join(show_bps(rate) for rate in rows[0].rates_bps)
    what = (_cell if swept else _fabric)(rows[0])
    size = "" if swept else f" · {show_nbytes(max(row.bytes for row in rows))}"
    return f"{what} · {rows[0].hosts} hosts at {rate} · {rows[0].ranks} ranks{size}"


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst link\n× flows", overflow="fold")
    table.add_column("#wrong", justify="right")
    table.add_column("verdict", no_wrap=True)
    return table


def _matrix(rows: Sequence[Row]) -> Table:
    table = _table(("algorithm", "placement,\nroutes"), ("time", *_FIGURES))
    for row in rows:
        table.add_row(row.algorithm, f"{row.placement}, {row.routes}", _time(row), *_figures(row), *_end(row))
    return table


def _sweep(rows: Sequence[Row]) -> Table:
    table = _table((), ("size\nbytes", "time", "algbw\nMB/s", *_FIGURES))
    for row in rows:
        table.add_row(f"{row.bytes:,}", _time(row), _megabytes(row.algbw_Bps), *_figures(row), *_end(row))
    return table


def _time(row: Row) -> str:
    """The median, and half of what lies between the fastest and the slowest repeat."""
    if row.time_s is None:
        return NOTHING
    spread = (row.time_s.max - row.time_s.min) / row.time_s.median / 2
    return f"{show_s(row.time_s.median)} ±{spread:.1%}"


def _figures(row: Row) -> tuple[str, ...]:
    return (
        _megabytes(row.busbw_Bps),
        _or_nothing(row.bound_s, show_s),
        _or_nothing(row.ratio, "{:.3f}".format),
        _or_nothing(row.ratio_predicted, "{:.3f}".format),
    )


def _end(row: Row) -> tuple[str | Text, ...]:
    link = f"{row.worst_link} ×{row.worst_link_flows}" if row.worst_link else NOTHING
    wrong = NOTHING if row.wrong is None else str(row.wrong)
    return link, wrong, Text(row.verdict, style=_STYLE[row.verdict])


def _megabytes(nbytes_per_s: float | None) -> str:
    return NOTHING if nbytes_per_s is None else f"{nbytes_per_s / 1e6:.3g}"


def _or_nothing(value: float | None, show: Callable[[float], str]) -> str:
    return NOTHING if value is None else show(value)

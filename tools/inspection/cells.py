"""What the tables of the analysis page share: how their cells look, and how many rows they have."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gradwire.tools.table import NOTHING, Cell, Record, Table, columns, table_of
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.units import show_nbytes, show_s

MAX_ROWS = 500  # of a table: more is slow to lay out, and nobody reads it; --csv has all


def made_table(
    caption: str,
    titles: Sequence[str],
    records: Sequence[Record],
    row: Callable[[Record], Sequence[Cell]],
    reason: str,
    shown: str = f"The first {MAX_ROWS}",
) -> Table:
    """A table of the first MAX_ROWS records, with tooltips on titles that need an explanation."""
    heads = [replace(column, hint=_HINTS.get(column.title, "")) for column in columns(*titles)]
    return table_of(heads, records, row, MAX_ROWS, caption, shown, reason)


def largest(records: Sequence[Any], size: Callable[[Any], float]) -> list[Any]:
    """Those that a table has room for first, in their own order, then all others."""
    order = sorted(range(len(records)), key=lambda n: -size(records[n]))
    return [records[n] for part in (order[:MAX_ROWS], order[MAX_ROWS:]) for n in sorted(part)]


def number(value: float | None, show: Callable[[Any], str] = "{:,}".format, hint: str = "") -> Cell:
    """A number for a person, sorted as a number; a dash for None."""
    return Cell(NOTHING, "", hint) if value is None else Cell(show(value), value, hint)


def share_bar(value: float | None) -> Cell:
    """A share in percent with its bar."""
    if value is None:
        return Cell(NOTHING, "")
    text = "<0.1%" if 0 < value < 0.0005 else f"{value:.1%}" if value < 0.0995 else f"{value:.0%}"
    return Cell(text, value, share=round(min(value, 1) * 100, 1))


def time(ns: float) -> str:
    """A time for a person, negative ones too: what was before the first training byte."""
    if not ns:
        return "0"
    return f"−{show_s(-ns / 1e9)}" if ns < 0 else show_s(ns / 1e9)


def rate(nbytes_per_s: float) -> str:
    return f"{show_nbytes(nbytes_per_s)}/s"


def endpoint(address: str, port: int) -> str:
    """`10.0.0.1:80`, `[fe80::1]:80`."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def iteration_cell(number_: int) -> Cell:
    return Cell("set-up", -1) if number_ < 0 else Cell(str(number_), number_)


def rank_cell(analysis: Analysis, rank: int | None, address: str = "") -> Cell:
    if rank is None:
        return Cell(address or NOTHING, None if address else "")
    return Cell(f"rank {rank}", rank, address or analysis.addresses[rank])


_HINTS = {
    "busbw": "algbw times 2(p−1)/p for an allreduce: what each host's link carried",
    "of line rate": "busbw over the line rate",
    "FCT": "flow completion time: first byte sent to last byte arrived",
    "sure": "confidence, 0 to 100 %",
    "reordered": "pieces that were seen after later ones, and were no repeats",
    "delay p50": "one way, from the source's capture to the destination's, by their clocks",
    "peak to mean": "the busiest window over the mean of the whole time",
}

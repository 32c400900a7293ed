"""Tables of the analysis page as values: what each cell says and what it is sorted by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.units import show_nbytes, show_s

MAX_ROWS = 500  # of a table: more is slow to lay out, and nobody reads it; --csv has all


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    number: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    """`key` is what it is sorted by: a number, "" for one that is not there, None to sort by the text.

    `share` draws a bar behind the text, in percent.
    """

    text: str
    key: float | str | None = None
    hint: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class PageTable:
    """`reason` says why there are no rows; `shown` which ones are there if some were left out."""

    key: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    left_out: int = 0
    shown: str = ""
    reason: str = ""


def made_table(
    name: str,
    caption: str,
    columns: Sequence[str],
    records: Sequence[Any],
    row: Callable[[Any], Sequence[TableCell]],
    reason: str,
    shown: str = f"The first {MAX_ROWS}",
) -> PageTable:
    """A table of the first MAX_ROWS records; a column whose title begins with # is one of numbers."""
    heads = tuple(
        Column(title.lstrip("#"), title.startswith("#"), _HINTS.get(title, "")) for title in columns
    )
    rows = tuple(tuple(row(record)) for record in records[:MAX_ROWS])
    left_out = max(0, len(records) - MAX_ROWS)
    return PageTable(f"table-{name}", caption, heads, rows, left_out, shown, reason)


def largest(records: Sequence[Any], size: Callable[[Any], float]) -> list[Any]:
    """Those that a table has room for first, in their own order, then all others."""
    order = sorted(range(len(records)), key=lambda n: -size(records[n]))
    return [records[n] for part in (order[:MAX_ROWS], order[MAX_ROWS:]) for n in sorted(part)]


def number(value: float | None, show: Callable[[Any], str] = "{:,}".format, hint: str = "") -> TableCell:
    """A number for a person, sorted as a number; a dash for None."""
    return TableCell("–", "", hint) if value is None else TableCell(show(value), value, hint)


def share_bar(value: float | None) -> TableCell:
    """A share in percent with its bar."""
    if value is None:
        return TableCell("–", "")
    text = "<0.1%" if 0 < value < 0.0005 else f"{value:.1%}" if value < 0.0995 else f"{value:.0%}"
    return TableCell(text, value, share=round(min(value, 1) * 100, 1))


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


def iteration_cell(number_: int) -> TableCell:
    return TableCell("set-up", -1) if number_ < 0 else TableCell(str(number_), number_)


def rank_cell(analysis: Analysis, rank: int | None, address: str = "") -> TableCell:
    if rank is None:
        return TableCell(address or "–", None if address else "")
    return TableCell(f"rank {rank}", rank, address or analysis.addresses[rank])


_HINTS = {
    "#busbw": "algbw times 2(p−1)/p for an allreduce: what each host's link carried",
    "#of line rate": "busbw over the line rate",
    "#FCT": "flow completion time: first byte sent to last byte arrived",
    "#sure": "confidence, 0 to 100 %",
    "#reordered": "pieces that were seen after later ones, and were no repeats",
    "#delay p50": "one way, from the source's capture to the destination's, by their clocks",
    "#peak to mean": "the busiest window over the mean of the whole time",
}

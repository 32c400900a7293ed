"""A table as a value, how a terminal shows it, and the words that tables share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import rich.table
from rich.console import Console
from rich.text import Text

NOTHING = "–"  # where there is no figure
Wrap = Literal["never", "words", "anywhere"]
Record = TypeVar("Record")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Column:
    """`wrap` is where too narrow a terminal breaks its texts, `hint` the title's tooltip on a page."""

    title: str
    is_number: bool = False
    wrap: Wrap = "words"
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """`key` is what a page sorts it by: a number, "" for one that is not there, None to sort by the text.

    `style` is its style on a terminal.  On a page `hint` is its tooltip, and `share` draws a bar under the
    text, in percent.
    """

    text: str
    key: float | str | None = None
    hint: str = ""
    share: float | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """`shown` says which rows are there if some were left out, `reason` why there are none."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0
    shown: str = ""
    reason: str = ""


def columns(*titles: str, wrap: Wrap = "words") -> tuple[Column, ...]:
    """A column for each title; one whose title begins with # is of numbers, without that #."""
    return tuple(Column(title.removeprefix("#"), title.startswith("#"), wrap) for title in titles)


def table_of(
    heads: Sequence[Column],
    records: Sequence[Record],
    row: Callable[[Record], Iterable[Cell | str]],
    most: int | None = None,
    title: str = "",
    shown: str = "",
    reason: str = "",
) -> Table:
    """A row for each record, for the first `most` of them if there are more."""
    first = records[:most]
    rows = (tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row(record)) for record in first)
    return Table(title, tuple(heads), tuple(rows), len(records) - len(first), shown, reason)


def rich_table(of: Table, *, dense: bool = False, head_style: str = "dim") -> rich.table.Table:
    """As a terminal shows it, without lines and title; without a head if no column has a title."""
    shown = rich.table.Table(
        box=None,
        padding=(0, 1, 0, 0) if dense else (0, 1),
        pad_edge=False,
        header_style=head_style,
        show_header=any(column.title for column in of.columns),
    )
    for column in of.columns:
        shown.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            no_wrap=column.wrap == "never",
            overflow="fold" if column.wrap == "anywhere" else "ellipsis",
        )
    for row in of.rows:
        shown.add_row(*(Text(cell.text, cell.style) for cell in row))
    return shown


def print_left_out(to: Console, count: int, where: str = "; --json lists all") -> None:
    """How many more there are, if any."""
    if count > 0:
        to.print(Text(f"… and {count} more{where}", style="dim"))


def first_of(texts: Sequence[str], most: int) -> str:
    """`a, b … and 3 more`."""
    more = f" … and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def or_nothing(value: Value | None, show: Callable[[Value], str]) -> str:
    return NOTHING if value is None else show(value)

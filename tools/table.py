"""A table as a value, how a terminal shows it, and the words that tables share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import rich.table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

NOTHING = "–"  # where there is no figure
LEAST_TEXT = 8  # columns that a text keeps, however narrow the terminal
LEAST_HEAD = 16  # words of a head that are no longer are not broken
Wrap = Literal["never", "words"]
Record = TypeVar("Record")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Column:
    """Where a terminal is too narrow, texts break; those with the `wrap` "never" only if no others are left.

    Figures are never broken or cut.  `hint` is the title's tooltip on a page.
    """

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

    def can_sort(self, place: int) -> bool:
        """Whether a page can sort by a column: `900 µs` and `1 ms` are no numbers without their keys."""
        return not self.columns[place].is_number or any(row[place].key is not None for row in self.rows)


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


class RichTable:
    """A table as a terminal shows it, without lines and title; without a head if no column has a title.

    Where it is too wide its texts break into lines.  If even so the figures have no room beside each other,
    it becomes several tables below each other, each with the texts that its rows begin with.
    """

    def __init__(self, of: Table, gap: int, head_style: str) -> None:
        self._of, self._gap, self._head_style = of, gap, head_style
        texts = ([row[place].text for row in of.rows] for place in range(len(of.columns)))
        self._widths = [_width(column, each) for column, each in zip(of.columns, texts, strict=True)]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """See rich.protocol."""
        gaps = self._gap * (len(self._widths) - 1)
        least = sum(width.least for width in self._widths) + gaps
        most = sum(width.most for width in self._widths) + gaps
        return Measurement(min(least, options.max_width), most)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See rich.protocol."""
        for number, places in enumerate(self._pieces(options.max_width)):
            if number:
                yield ""
            gaps = self._gap * (len(places) - 1)
            sizes = _narrowed([self._widths[place] for place in places], options.max_width - gaps)
            yield self._table(places, sizes)

    def _pieces(self, room: int) -> Iterator[list[int]]:
        """The columns that have room beside each other, in their order; all of them if they have."""
        keys = [*range(_n_keys(self._of.columns))]
        piece: list[int] = []
        for place in range(len(keys), len(self._of.columns)):
            least = sum(self._widths[each].least + self._gap for each in (*keys, *piece, place)) - self._gap
            if piece and least > room:
                yield [*keys, *piece]
                piece = []
            piece.append(place)
        yield [*keys, *piece]

    def _table(self, places: Sequence[int], sizes: Sequence[int]) -> rich.table.Table:
        padding = (0, 1, 0, self._gap - 1)
        has_head = any(column.title for column in self._of.columns)
        shown = rich.table.Table(
            box=None, padding=padding, pad_edge=False, header_style=self._head_style, show_header=has_head
        )
        for place, size in zip(places, sizes, strict=True):
            column = self._of.columns[place]
            side: Literal["left", "right"] = "right" if column.is_number else "left"
            shown.add_column(column.title, justify=side, width=size, overflow="fold")
        for row in self._of.rows:
            shown.add_row(*(Text(row[place].text, row[place].style) for place in places))
        return shown


def _n_keys(heads: Sequence[Column]) -> int:
    """How many columns name a row: up to the first figure after a text."""
    kinds = [head.is_number for head in heads]
    first_text = kinds.index(False) if False in kinds else 0
    after = [place for place, is_number in enumerate(kinds) if is_number and place > first_text]
    return min(after, default=len(heads))


@dataclass(frozen=True, slots=True)
class _Width:
    """Columns of the terminal that a column needs at `most` and at `least`; who gives way `last`."""

    most: int
    least: int
    last: bool
    is_text: bool


def _width(column: Column, texts: Sequence[str]) -> _Width:
    inside = max((cell_len(line) for text in texts for line in text.splitlines()), default=0)
    most = max(inside, *(cell_len(line) for line in column.title.split("\n")))
    words = max((cell_len(word) for word in column.title.split()), default=0)
    least = max(inside if column.is_number else min(inside, LEAST_TEXT), min(words, LEAST_HEAD))
    last = column.is_number or column.wrap == "never"
    return _Width(most, min(least, most), last, not column.is_number)


def _narrowed(widths: Sequence[_Width], room: int) -> list[int]:
    """What each column gets: the widest texts give way first, those that never break after them.

    Where that is too little, texts keep fewer letters than LEAST_TEXT, as figures keep all.
    """
    sizes = [width.most for width in widths]
    texts = [width.is_text for width in widths]
    for gives_way, least in (
        ([not width.last for width in widths], [width.least for width in widths]),
        ([width.last for width in widths], [width.least for width in widths]),
        (texts, [1] * len(widths)),
    ):
        while sum(sizes) > room:
            wider = [i for i, may in enumerate(gives_way) if may and sizes[i] > least[i]]
            if not wider:
                break
            sizes[max(wider, key=sizes.__getitem__)] -= 1
    return sizes


def rich_table(of: Table, *, dense: bool = False, head_style: str = "dim") -> RichTable:
    """As a terminal shows it; `dense` with one blank between columns, not two."""
    return RichTable(of, gap=1 if dense else 2, head_style=head_style)


def print_left_out(to: Console, count: int, where: str = "; --json lists all") -> None:
    """How many more there are, if any."""
    if count > 0:
        to.print(Text(f"and {count:,} more{where}", style="dim"))


def or_nothing(value: Value | None, show: Callable[[Value], str]) -> str:
    return NOTHING if value is None else show(value)

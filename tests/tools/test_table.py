"""A table as a value, and as a terminal shows it."""

from io import StringIO

import pytest
from rich.console import Console

from gradwire.tools.table import (
    NOTHING,
    Cell,
    Table,
    columns,
    or_nothing,
    print_left_out,
    rich_table,
    table_of,
)


def printed(table: Table, width: int = 80) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(rich_table(table))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_title_that_begins_with_a_number_sign_is_one_of_numbers_and_may_have_another_such_sign() -> None:
    name, size, wrong = columns("name", "#size", "##wrong")
    assert (name.title, name.is_number) == ("name", False)
    assert (size.title, size.is_number) == ("size", True)
    assert (wrong.title, wrong.is_number) == ("#wrong", True)


def test_a_table_has_a_row_for_each_of_the_first_records_and_counts_the_others() -> None:
    table = table_of(columns("#n", "twice"), range(5), lambda n: (str(n), Cell(str(2 * n), key=n)), most=3)
    assert [[cell.text for cell in row] for row in table.rows] == [["0", "0"], ["1", "2"], ["2", "4"]]
    assert table.left_out == 2
    assert table_of(columns("#n"), range(3), lambda n: (str(n),), most=3).left_out == 0


def test_numbers_are_at_the_right_of_their_column_and_texts_at_the_left() -> None:
    table = table_of(columns("link", "#bytes"), [("h0→leaf0", "5"), ("h1", "1,000")], tuple)
    assert printed(table) == ["link      bytes", "h0→leaf0      5", "h1        1,000"]


def test_columns_without_titles_have_no_head() -> None:
    assert printed(table_of(columns("", "#"), [("sent", "7")], tuple)) == ["sent  7"]


def test_texts_are_no_markup_and_no_emoji() -> None:
    assert printed(table_of(columns("name"), [("[bold]h0[/bold] :cat:",)], tuple)) == [
        "name",
        "[bold]h0[/bold] :cat:",
    ]


ADDRESSES = ("fd00:1234:5678:9abc:def0:1234:5678:9abc:54321", "fd00:1234:5678:9abc:def0:1234:5678:9abd:4242")
FIGURES = ("28.4 MB", "1.23 s", "184 Mb/s", "12", "84.1 ms", "1.23 s")
FLOWS = table_of(
    columns("from", "to", "#payload", "#FCT", "#goodput", "#resent", "#RTT p50", "#p99", wrap="never"),
    [(*ADDRESSES, *FIGURES)],
    tuple,
)


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 20, 14])
def test_no_figure_is_cut_however_narrow_the_terminal(width: int) -> None:
    text = "\n".join(printed(FLOWS, width))
    assert "…" not in text
    for figure in FIGURES:
        assert figure in text


@pytest.mark.parametrize("width", [100, 80])
def test_names_break_before_figures_do_and_lose_no_letter(width: int) -> None:
    lines = printed(FLOWS, width)
    assert max(map(len, lines)) <= width
    second = lines[0].index("to ")
    assert "".join(line[:second].strip() for line in lines[1:]) == ADDRESSES[0]
    assert all(figure in lines[1] for figure in FIGURES)


def test_figures_that_have_no_room_beside_each_other_are_below_each_other_with_the_names_again() -> None:
    table = table_of(columns("link", "#sent", "#lost"), [("h0→leaf0", "1,234,567", "7")], tuple)
    assert printed(table, 20) == [
        "link           sent",
        "h0→leaf0  1,234,567",
        "",
        "link      lost",
        "h0→leaf0     7",
    ]
    assert printed(table, 30) == ["link           sent  lost", "h0→leaf0  1,234,567     7"]


def test_a_text_that_does_not_break_does_so_only_after_all_others() -> None:
    heads = (*columns("x", wrap="never"), *columns("y"))
    table = table_of(heads, [("halving doubling", "a text of many words")], tuple)
    assert printed(table, 28) == [
        "x                 y",
        "halving doubling  a text of",
        "                  many words",
    ]
    assert printed(table, 23)[1].startswith("halving  ")


def test_what_was_left_out_is_counted_only_if_there_is_such() -> None:
    out = StringIO()
    for count in (-1, 0, 3):
        print_left_out(Console(file=out, width=80), count)
    assert out.getvalue() == "and 3 more; --json lists all\n"


def test_a_figure_that_is_not_there_is_a_dash_and_0_is_a_figure() -> None:
    assert or_nothing(None, "{:.2f}".format) == NOTHING
    assert or_nothing(0.0, "{:.2f}".format) == "0.00"


def test_a_page_sorts_by_texts_and_by_numbers_that_have_keys() -> None:
    table = table_of(columns("name", "#time", "#size"), [1], lambda _: ("a", Cell("1 ms", 0.001), "3 kB"))
    assert [table.can_sort(place) for place in range(3)] == [True, True, False]

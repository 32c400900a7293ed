"""A table as a value, and as a terminal shows it."""

from io import StringIO

import pytest
from rich.console import Console

from gradwire.tools.table import (
    NOTHING,
    Cell,
    Table,
    Wrap,
    columns,
    first_of,
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


@pytest.mark.parametrize(
    ("wrap", "lines"), [("never", ["abcde…"]), ("words", ["abcde…", "ij"]), ("anywhere", ["abcdef", "gh ij"])]
)
def test_a_text_that_is_too_wide_is_broken_where_its_column_says(wrap: Wrap, lines: list[str]) -> None:
    heads = columns("t", wrap=wrap)
    assert printed(table_of(heads, [("abcdefgh ij",)], tuple), width=6)[1:] == lines


def test_what_was_left_out_is_counted_only_if_there_is_such() -> None:
    out = StringIO()
    for count in (-1, 0, 3):
        print_left_out(Console(file=out, width=80), count)
    assert out.getvalue() == "… and 3 more; --json lists all\n"
    assert first_of("abcd", 2) == "a, b … and 2 more"
    assert first_of("ab", 2) == "a, b"


def test_a_figure_that_is_not_there_is_a_dash_and_0_is_a_figure() -> None:
    assert or_nothing(None, "{:.2f}".format) == NOTHING
    assert or_nothing(0.0, "{:.2f}".format) == "0.00"

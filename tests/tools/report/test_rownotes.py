"""Notes below a table of rows: equal ones are one that names its rows, the important ones come first."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from gradwire.results.row import Row, Spread
from gradwire.tools.report.rownotes import notes, row_names
from gradwire.tools.report.rowtables import first_lines, print_rows
from gradwire.traces.iterationtimes import IterationTime

BUSY = "CPU idle only 0%: use a lower rate or fewer hosts"
ROW = Row(
    fabric="star:hosts=4",
    algorithm="ring",
    placement="linear",
    routes="ecmp",
    ranks=4,
    bytes=65_536,
    verdict="not valid",
    hosts=4,
    host_rates_bps=(50_000_000,),
    time_s=Spread(1.0, 1.0, 1.0),
    reasons=(BUSY,),
    machine=(BUSY,),
)
HD = replace(ROW, algorithm="halving-doubling")
FINE = replace(ROW, verdict="valid", reasons=(), machine=(), algorithm="all-pairs")


def test_a_note_of_all_rows_is_one() -> None:
    assert notes([ROW, HD]) == [f"not valid (the machine): all 2 rows: {BUSY}"]


def test_reasons_that_differ_in_percentages_are_one_with_their_span_and_in_names_are_not() -> None:
    other = replace(HD, reasons=(BUSY.replace("0%", "2 to 7%"),), machine=(BUSY.replace("0%", "2 to 7%"),))
    (line,) = notes([ROW, other])
    assert line == f"not valid (the machine): all 2 rows: {BUSY.replace('0%', '0 to 7%')}"
    third, fifth = (replace(ROW, reasons=(f"rank {n} was stopped for about {n} ms",)) for n in (3, 5))
    assert len(notes([third, fifth])) == 2


def test_doubts_that_differ_in_percentages_are_one_with_their_span_unless_they_have_decimals() -> None:
    low, lower = (replace(FINE, warnings=(f"CPU idle {n}%",)) for n in (28, 15))
    assert notes([low, lower]) == ["note: all 2 rows: CPU idle 15 to 28%"]
    short, shorter = (replace(FINE, warnings=(f"{n}% of the least time",)) for n in ("97.3", "97.9"))
    assert [line.split(": ")[-1] for line in notes([short, shorter])] == [
        f"{n}% of the least time" for n in ("97.3", "97.9")
    ]


def test_a_note_of_some_rows_names_them() -> None:
    assert notes([ROW, FINE, HD]) == [
        f"not valid (the machine): star, ring, linear, ecmp; star, halving-doubling, linear, ecmp: {BUSY}"
    ]


def test_a_note_of_many_rows_names_the_first_and_counts_the_others() -> None:
    rows = [replace(ROW, algorithm=f"a{n}") for n in range(6)]
    (line,) = notes([*rows, FINE])
    assert "star, a3, linear, ecmp and 2 more: CPU idle" in line


def test_sizes_are_named_where_a_note_is_not_of_all_of_a_rows_sizes() -> None:
    sizes = [replace(ROW, bytes=1 << n) for n in (16, 17, 18)]
    fine = replace(ROW, bytes=1 << 19, verdict="valid", reasons=(), machine=())
    assert notes([*sizes, fine]) == [
        f"not valid (the machine): star, ring, linear, ecmp (65536 B, 131072 B, 262144 B): {BUSY}"
    ]
    assert "star, ring, linear, ecmp: CPU" in notes([*sizes, FINE])[0]


def test_two_fabrics_of_one_family_are_called_by_their_specs() -> None:
    rows = [ROW, replace(ROW, fabric="star:hosts=8"), replace(ROW, fabric="mesh:x=2,y=2")]
    assert [name.split(", ring")[0] for name in row_names(rows)] == ["star:hosts=4", "star:hosts=8", "mesh"]


def test_why_a_row_is_not_valid_comes_before_what_only_explains() -> None:
    noted = replace(
        FINE,
        iteration_s=IterationTime(median=2.0, low=1.9, high=2.2, n=8),
        exposed_s=0.5,
        why="a→b carries 2 flows",
    )
    assert [line.split(":")[0] for line in notes([noted, ROW])] == [
        "not valid (the machine)",
        "why",
        "iteration",
    ]


def printed(rows: list[Row], verbose: bool) -> list[str]:
    out = StringIO()
    print_rows(Console(file=out, width=100), rows, verbose)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("n_rows", [1, 4, 16])
def test_notes_have_no_more_lines_than_the_table_unless_all_are_asked_for(n_rows: int) -> None:
    rows = [
        replace(ROW, algorithm=f"a{n}", warnings=tuple(f"w{n}.{k}" for k in range(9))) for n in range(n_rows)
    ]
    lines = printed(rows, verbose=False)
    n_notes = sum(line.startswith(("not valid", "note", "and ")) for line in lines)
    assert 0 < n_notes <= len(lines) - n_notes
    assert lines[-1].startswith("and ")
    assert lines[-1].endswith(": --verbose prints all")
    every = printed(rows, verbose=True)
    assert sum("note: " in line for line in every) == 9 * n_rows


def test_lines_that_are_left_out_are_counted() -> None:
    to = Console(file=StringIO(), width=20)
    assert first_lines(to, ["a", "b", "c"], 3) == ["a", "b", "c"]
    assert first_lines(to, ["a", "b", "c"], 2) == ["a", "and 2 more notes: --verbose prints all"]
    assert first_lines(to, ["a", "two lines of twenty columns", "c"], 3) == [
        "a",
        "and 2 more notes: --verbose prints all",
    ]

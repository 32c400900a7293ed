"""What an expectation says, and what is refused because nobody could compute it."""

import re

import pytest

from gradwire.results.expectations import parse_expectation, selection_of
from gradwire.results.quantities import QUANTITIES, parse_value


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("1.1", 1.1, ""),
        ("10%", 0.1, ""),
        ("300ms", 0.3, "s"),
        ("2s", 2.0, "s"),
        ("50us", 50e-6, "s"),
        ("5MB/s", 5e6, "B/s"),
        ("1MiB/s", 1048576.0, "B/s"),
        ("50Mb/s", 6.25e6, "B/s"),
        ("1Gbit/s", 1.25e8, "B/s"),
    ],
)
def test_a_value_has_the_unit_that_is_written_after_it(text: str, value: float, unit: str) -> None:
    found, its_unit = parse_value(text)
    assert found == pytest.approx(value)
    assert its_unit == unit


def test_a_quantity_without_of_is_that_of_each_cell() -> None:
    made = parse_expectation("ratio <= 1.1")
    assert made.is_of_each
    assert [(term.name, term.of) for term in made.terms] == [("ratio", None)]
    assert made.right[0].number == 1.1


def test_cells_are_chosen_in_braces_and_a_fabrics_own_commas_stay_its_own() -> None:
    text = "time of {algorithm: ring, fabric: fat-tree:k=4,rate=50M} / time of {algorithm=ina, size=1k} >= 3"
    made = parse_expectation(text)
    assert not made.is_of_each
    assert [term.of for term in made.terms] == [
        {"algorithm": ("ring",), "fabric": ("fat-tree:k=4,rate=50M",)},
        {"algorithm": ("ina",), "size": ("1k",)},
    ]
    assert [term.divides for term in made.left] == [False, True]


def test_the_arrow_of_a_link_is_no_comparison() -> None:
    made = parse_expectation("bounded_by == leaf0->spine1")
    assert (made.comparison, made.named) == ("==", "leaf0->spine1")
    assert parse_expectation("worst_link != leaf0→spine1").named == "leaf0->spine1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ratio", "'ratio' compares nothing: write it like ratio <= 1.1"),
        ("ratoi <= 1", "there is no quantity 'ratoi' (did you mean ratio?)"),
        ("1 <= 2", "'1 <= 2' names no quantity; there are time, ratio"),
        ("time <= 3", "'time <= 3' compares a time with a number"),
        ("busbw <= 3s", "compares a rate with a time"),
        ("time * time <= 3s", "compares a product of units with a time"),
        ("ratio == 1.0", "a measured figure is never exactly equal; use <= or >="),
        ("verdict <= valid", "write verdict == NAME"),
        ("time / verdict <= 3", "'time / verdict <= 3': write verdict == NAME"),
        ("ratio <= verdict", "verdict is a name: write verdict == NAME"),
        ("ratio + 1 <= 2", "'+ 1 ' after 'ratio': only * and / can be there"),
        ("ratio <= ", "'' is neither a number nor a quantity"),
        ("time of {algoritm: ring} <= 3s", "there is no choice 'algoritm' (did you mean algorithm?)"),
        ("time of {} <= 3s", "there is no choice ''"),
        ("time of {algorithm:} <= 3s", "algorithm has no value; leave it out, or write one"),
        ("time of {size: big} <= 3s", "'big' is not a size"),
        ("time <= 3 weeks", "'weeks' after '3': only * and / can be there"),
        ("time <= 3weeks", "'3weeks' is not"),
        ("__import__('os') == 1", "there is no quantity '__import__'; choose from time,"),
        ("ratio <= 1" * 60, "an expectation has at most 500 characters, this one has 600"),
        ("ratio <= " + "9" * 400, "' is not a number of at most 15 digits"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_expectation(text)


def test_where_is_shown_beside_the_expectation() -> None:
    made = parse_expectation("wrong == 0", selection_of({"algorithm": ["ring", "ina"]}))
    assert made.shown == "wrong == 0, where algorithm: ring or ina"


def test_every_quantity_is_of_a_row_or_of_a_planned_cell() -> None:
    assert all(quantity.measured or quantity.planned for quantity in QUANTITIES.values())

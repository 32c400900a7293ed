"""The page of errors (tests/errors.py): which raises count as seen by a test."""

import pytest

from gradwire.traces.units import parse_nbytes, parse_ns
from tests.errors import causes, page, raised_in


def raise_twice_more() -> None:
    try:
        try:
            parse_nbytes("many")
        except ValueError as error:
            raise TypeError("made of the first") from error
    except TypeError:
        raise KeyError("made of the second") from None


def test_what_an_error_was_made_of_is_found_also_where_it_is_hidden() -> None:
    with pytest.raises(KeyError) as raised:
        raise_twice_more()
    assert [type(each) for each in causes(raised.value)] == [TypeError, ValueError]


def test_an_error_in_a_circle_of_causes_ends() -> None:
    with pytest.raises(ValueError, match="soon") as raised:
        parse_ns("soon")
    raised.value.__cause__ = other = RuntimeError()
    other.__context__ = raised.value
    assert list(causes(raised.value)) == [other]


def test_a_line_that_was_only_raised_inside_is_not_on_the_page_and_not_missing() -> None:
    name = "traces/units.py"
    (place, *_), *others = list(raised_in(name))
    assert others
    missing = f"{name}:{place[1]} "
    assert missing in page({}, set())
    assert missing not in page({}, {place})
    assert f"{place[1]:5}  " not in page({}, {place}).partition("Raised by no test")[0]

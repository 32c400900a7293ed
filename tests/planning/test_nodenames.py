"""A list of names and ranges expands to exactly the nodes that it says, and `ranges` is its inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.nodenames import MAX_NAMES, names_of, ranges

NAMES = st.one_of(
    st.builds("{}{}".format, st.sampled_from("aB_"), st.text("aB_019", max_size=4)),
    st.builds("{}{}".format, st.sampled_from(["h", "leaf", "a1b"]), st.integers(0, 30)),
)


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["leaf0..2"], ("leaf0", "leaf1", "leaf2")),
        (["h9..11", "x", "h3..3"], ("h9", "h10", "h11", "x", "h3")),
        (["a1b7..8"], ("a1b7", "a1b8")),
    ],
)
def test_a_range_names_every_number_from_the_first_to_the_last(
    texts: list[str], names: tuple[str, ...]
) -> None:
    assert names_of(texts) == names


@given(st.lists(NAMES, max_size=30))
def test_ranges_expand_to_the_names_that_they_were_made_of(names: list[str]) -> None:
    assert names_of(ranges(names)) == tuple(names)


def test_consecutive_names_are_one_range() -> None:
    assert ranges([f"h{i}" for i in range(1000)]) == ["h0..999"]
    assert ranges(["h01", "h02", "h3", "h4", "g5"]) == ["h01", "h02", "h3..4", "g5"]


@pytest.mark.parametrize(
    "text", ["", "0..3", "h3..1", "h01..3", "h0..h3", "h-1", "a b", "h0..99999", "h0...3", "é", "x/y", "h0\n"]
)
def test_what_is_neither_name_nor_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name"):
        names_of([text])


def test_a_list_that_grows_too_long_is_refused_before_it_is_built() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_NAMES} names"):
        names_of(["h0..4999"] * 1_000_000)

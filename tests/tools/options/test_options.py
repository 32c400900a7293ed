"""What people write for factors and iterations, and what is refused."""

from collections.abc import Iterable
from fractions import Fraction

import pytest

from gradwire.planning.fabrics.spec import FAMILIES, parse_fabric
from gradwire.planning.placement import PLACEMENTS
from gradwire.planning.routing.policies import policy_names
from gradwire.tools.options import common
from gradwire.tools.options.common import (
    parse_compute,
    parse_factor,
    parse_iterations,
    parse_slow,
)
from gradwire.traces.schedules.names import algorithm_names
from gradwire.traces.schedules.straggling import straggler_words
from gradwire.traces.units import parse_count, parse_share


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("1/8", Fraction(1, 8)),
        ("0.125", Fraction(1, 8)),
        ("×2", Fraction(2)),
        ("x1.5", Fraction(3, 2)),
        (" 3 ", 3),
    ],
)
def test_a_factor_is_exact(text: str, factor: Fraction) -> None:
    assert parse_factor(text) == factor


@pytest.mark.parametrize(
    "text", ["0", "0/4", "1/0", "-1", "1e9", "1e999999999", "", "1//8", "9" * 10, "1/8/2", "half"]
)
def test_what_is_no_factor_above_0_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a factor above 0: write it like 1/8"):
        parse_factor(text)


def test_compute_can_be_kept_left_out_or_scaled() -> None:
    assert [parse_compute(text) for text in ("keep", "none", "×0.5")] == [1, 0, Fraction(1, 2)]


@pytest.mark.parametrize(
    ("texts", "iterations"),
    [
        (None, None),
        ([], None),
        (["3"], (3,)),
        (["-1"], (-1,)),
        (["-1..1", "0", "4"], (-1, 0, 1, 4)),
    ],
)
def test_iterations_are_numbers_and_ranges(
    texts: list[str] | None, iterations: tuple[int, ...] | None
) -> None:
    assert parse_iterations(texts) == iterations


@pytest.mark.parametrize("text", ["", "a", "1-3", "3..1", "0..999999999", "1.5", "1..2..3"])
def test_what_names_no_iteration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="iteration"):
        parse_iterations([text])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (common.FABRIC_HELP, FAMILIES),
        (common.ALGORITHM_HELP, algorithm_names()),
        (common.PLACEMENT_HELP, PLACEMENTS),
        (common.ROUTES_HELP, policy_names()),
    ],
)
def test_the_help_of_an_option_names_every_choice(text: str, names: Iterable[str]) -> None:
    assert [name for name in names if name not in text] == []


def test_an_example_in_the_help_is_a_fabric_of_its_family() -> None:
    for name, family in FAMILIES.items():
        assert parse_fabric(family.example).family == name


def test_slow_ranks_and_jitter_are_read_and_named() -> None:
    slow = parse_slow(["3=×2", " 0=x1.5", "1=1/2"])
    assert slow == {3: 2, 0: Fraction(3, 2), 1: Fraction(1, 2)}
    assert [parse_share(text) for text in ("10%", "0.1", "1/10", "0")] == [*[Fraction(1, 10)] * 3, 0]
    assert straggler_words(slow, Fraction(1, 10)) == " (rank 0 ×1.5, rank 1 ×0.5, rank 3 ×2, jitter 0.1)"
    assert straggler_words({}, Fraction(0)) == ""


@pytest.mark.parametrize("text", ["3", "=2", "-1=2", "3=0", "3=", "three=2", "99999=2", "3=×2×2"])
def test_what_names_no_slow_rank_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        parse_slow([text])


@pytest.mark.parametrize("text", ["", "-1%", "ten", "1e3", "10%%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it like 10%, 0\.1 or 1/10"):
        parse_share(text)


def test_a_count_is_a_whole_number_within_its_range() -> None:
    assert [parse_count("n", text, 1, 512) for text in ("1", "012", "512")] == [1, 12, 512]


@pytest.mark.parametrize("text", ["", "0", "513", "9" * 5000, "-1", "1.0", "²", "١", " 1"])
def test_another_text_is_not_a_count(text: str) -> None:
    with pytest.raises(ValueError, match=r"^n: '.{0,20}' is not a whole number from 1 to 512$"):
        parse_count("n", text, 1, 512)

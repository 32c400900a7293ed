"""Sizes, rates and times as people write them."""

import pytest

from traces.units import parse_bps, parse_nbytes, show_bps, show_nbytes, show_s


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("340008", 340_008),
        ("64K", 64_000),
        ("64KiB", 65_536),
        ("16 MiB", 16 << 20),
        ("1.5MB", 1_500_000),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_nbytes(text) == nbytes


@pytest.mark.parametrize(
    ("text", "bps"), [("50M", 50_000_000), ("1G", 10**9), ("50Mbit/s", 50_000_000), ("9", 9)]
)
def test_rates(text: str, bps: int) -> None:
    assert parse_bps(text) == bps


@pytest.mark.parametrize("text", ["", "M", "-1", "1e9", "5 parsecs", "1T", "nan"])
def test_what_is_no_number_with_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        parse_nbytes(text)
    with pytest.raises(ValueError, match="write it like"):
        parse_bps(text)


def test_numbers_are_shown_with_three_digits() -> None:
    assert [show_nbytes(n) for n in (0, 999, 340_008, 28_391_424)] == ["0 B", "999 B", "340 kB", "28.4 MB"]
    assert [show_bps(n) for n in (50_000_000, 10**9)] == ["50 Mb/s", "1 Gb/s"]
    assert [show_s(s) for s in (1.234, 0.0841, 123.4)] == ["1.23 s", "84.1 ms", "123 s"]

"""Sizes, rates and times as people write them."""

import pytest

from gradwire.traces.units import (
    parse_bps,
    parse_nbytes,
    parse_ns,
    show_bps,
    show_count,
    show_first,
    show_nbytes,
    show_ns,
    show_s,
)


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
    assert show_bps(2**16 * 10**8) == "6.554 Tb/s"  # the hosts of a fat-tree of switches with 64 ports
    assert [show_s(s) for s in (1.234, 0.0841, 123.4, -0.00594)] == ["1.23 s", "84.1 ms", "123 s", "-5.94 ms"]


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [("0", 0), ("0ms", 0), ("10us", 10_000), ("1.5 µs", 1500), ("2ms", 2_000_000), ("1s", 10**9), ("7ns", 7)],
)
def test_times(text: str, time_ns: int) -> None:
    assert parse_ns(text) == time_ns
    assert parse_ns(show_ns(time_ns)) == time_ns


@pytest.mark.parametrize("text", ["1", "", "-1ms", "1m", "ms", "1e3s", "٣ms", "9" * 13 + "s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 10us or 1ms"):
        parse_ns(text)


def test_a_time_is_shown_in_the_largest_unit_that_divides_it() -> None:
    assert [show_ns(t) for t in (0, 1500, 10_000, 2_000_000, 10**9)] == ["0", "1500ns", "10us", "2ms", "1s"]


def test_one_is_singular_and_none_is_plural() -> None:
    counts = (0, 1, 2, 1024)
    assert [show_count(count, "flow") for count in counts] == ["0 flows", "1 flow", "2 flows", "1,024 flows"]
    assert [show_count(count, "switch", "switches") for count in (1, 2)] == ["1 switch", "2 switches"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (1, "r0"), (3, "r0, r1, r2"), (4, "r0, r1, r2 and 1 more"), (9, "r0, r1, r2 and 6 more")],
)
def test_the_first_few_are_named_and_the_others_counted(count: int, text: str) -> None:
    assert show_first([f"r{rank}" for rank in range(count)], 3) == text


def test_what_is_named_may_be_numbers_and_joined_by_other_signs() -> None:
    assert show_first((4, 8, 12), 2, " + ") == "4 + 8 and 1 more"

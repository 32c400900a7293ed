"""The options of `gradwire inject`, and what it prints."""

from dataclasses import replace
from fractions import Fraction
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gradwire.emu.inject.options import PPS, RATE, RECORDED, TOPSPEED, Pace
from gradwire.emu.inject.result import Injection, show_pace
from gradwire.tools import cli
from gradwire.tools.commands.inject import parse_pace
from gradwire.tools.inject_tables import notes, print_injection, verdict
from tests.emu.test_inject_result import QUIET, N, injection_of, observed_times, without


@pytest.mark.parametrize(
    ("given", "expected", "shown"),
    [
        ((None, None, None, False), Pace(), "as recorded"),
        (("1/4", None, None, False), Pace(RECORDED, Fraction(1, 4)), "recorded ×0.25"),
        ((None, 5000, None, False), Pace(PPS, Fraction(5000)), "5,000 packets/s"),
        ((None, None, "500M", False), Pace(RATE, Fraction(500_000_000)), "500 Mb/s"),
        ((None, None, None, True), Pace(TOPSPEED), "top speed"),
    ],
)
def test_a_pace_is_what_the_option_says(
    given: tuple[str | None, int | None, str | None, bool], expected: Pace, shown: str
) -> None:
    assert parse_pace(*given) == expected
    assert show_pace(expected) == shown


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("2", 100, None, False), "--speed and --pps cannot be used together"),
        ((None, None, "1G", True), "--rate and --topspeed"),
        ((None, None, "0", False), "--rate must be above 0"),
        (("0", None, None, False), "not a factor above 0"),
    ],
)
def test_paces_that_make_no_sense_are_refused(
    given: tuple[str | None, int | None, str | None, bool], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_pace(*given)


def printed(found: Injection) -> str:
    written = StringIO()
    print_injection(Console(file=written, width=100, highlight=False, markup=False), found)
    return written.getvalue()


def test_the_table_tells_what_was_lost_where_and_the_verdict(tmp_path: Path) -> None:
    counted = replace(QUIET, queue_dropped={"switch0-eth2": 2})
    found = injection_of(tmp_path, without(observed_times(), 3, 4), counted)
    text = printed(found)
    assert f"{N} packets" in text
    assert "2 (1.00%)" in text
    assert "dropped in the queue of switch0-eth2: 2" in text
    assert "tcp h0:4000 → h1:5000" in text
    assert text.rstrip().endswith("valid")
    assert max(map(len, text.splitlines())) <= 100


def test_a_verdict_says_why(tmp_path: Path) -> None:
    found = injection_of(tmp_path, observed_times(), replace(QUIET, softnet_dropped=3))
    assert verdict(found) == "not valid: the kernel's receive queues dropped 3 packets"


def test_notes_name_what_was_left_out(tmp_path: Path) -> None:
    found = replace(injection_of(tmp_path, observed_times()), left_out={"IPv6": 1200})
    assert "left out: 1,200 packets IPv6" in notes(found)


def test_the_help_says_that_nothing_reacts_and_what_to_use_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["inject", "--help"])
    text = capsys.readouterr().out
    assert "open loop: nothing reacts" in text
    assert "replay" in text

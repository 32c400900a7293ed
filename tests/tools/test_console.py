"""Tables are 100 columns wide into a pipe, as wide as the terminal on one, and print names as they are."""

import re

import pytest
from rich.table import Table
from rich.text import Text

from gradwire.tools.console import PIPE_COLUMNS, console, plain
from gradwire.tools.exits import report


def width(monkeypatch: pytest.MonkeyPatch, columns: int, terminal: bool) -> int:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    return console().width


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_a_pipe_gets_the_full_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    assert width(monkeypatch, columns, terminal=False) == PIPE_COLUMNS


@pytest.mark.parametrize(("columns", "expected"), [(40, 40), (100, 100), (300, 300)])
def test_all_of_a_terminals_width_is_used(
    monkeypatch: pytest.MonkeyPatch, columns: int, expected: int
) -> None:
    assert width(monkeypatch, columns, terminal=True) == expected


@pytest.mark.parametrize("stderr", [False, True])
def test_a_name_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str], stderr: bool) -> None:
    console(stderr).print("[bold]capture.pcap")
    captured = capsys.readouterr()
    assert (captured.err if stderr else captured.out) == "[bold]capture.pcap\n"


HOSTILE = "esc/\x1b]0;TITLE\x07\x1b[2J\x9b2J\x7f\u202etxt\u2028\udcff.pcap"
SEEN = "esc/\u241b]0;TITLE"  # the bell that follows is left out by Rich


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("columns", ["100", "300"])
def test_what_would_control_the_terminal_is_shown_instead(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stderr: bool, columns: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", columns)
    table = Table("file", box=None)
    table.add_row(Text(HOSTILE, style="bold"))
    to = console(stderr)
    for one in (HOSTILE, Text(HOSTILE), table):
        to.print(one, soft_wrap=True)
    captured = capsys.readouterr()
    written = captured.err if stderr else captured.out
    assert written.count(SEEN) == 3
    left = re.sub(r"\x1b\[[0-9;]*m", "", written)  # Rich's own colours
    assert left != written
    assert not any(ord(letter) < 32 and letter != "\n" for letter in left)


def test_line_breaks_tabs_and_letters_of_any_language_stay() -> None:
    assert plain("a\tb\nü 漢 😀 –") == "a\tb\nü 漢 😀 –"


def test_an_error_line_and_a_traceback_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (ValueError(HOSTILE), FileNotFoundError(2, "No such file", HOSTILE), RuntimeError(HOSTILE)):
        report(error)
        said = capsys.readouterr().err
        assert "TITLE" in said
        assert not any(ord(letter) < 32 and letter != "\n" for letter in said)

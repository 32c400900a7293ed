"""Tables are as wide as a report into a pipe, never wider on a terminal, and print names as they are."""

import pytest

from tools.console import MAX_COLUMNS, console


def width(monkeypatch: pytest.MonkeyPatch, columns: int, terminal: bool) -> int:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    return console().width


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_a_pipe_gets_the_full_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    assert width(monkeypatch, columns, terminal=False) == MAX_COLUMNS


@pytest.mark.parametrize(("columns", "expected"), [(40, 40), (100, 100), (300, MAX_COLUMNS)])
def test_a_terminal_is_used_as_far_as_it_goes(
    monkeypatch: pytest.MonkeyPatch, columns: int, expected: int
) -> None:
    assert width(monkeypatch, columns, terminal=True) == expected


@pytest.mark.parametrize("stderr", [False, True])
def test_a_name_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str], stderr: bool) -> None:
    console(stderr).print("[bold]capture.pcap")
    captured = capsys.readouterr()
    assert (captured.err if stderr else captured.out) == "[bold]capture.pcap\n"

"""`gradwire controller`: what it hands over, and what it warns of."""

import os

import pytest

from gradwire.tools.commands.controller import controller


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were to take this process's place."""
    made: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, command: made.append(command))
    return made


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_nothing_is_said_where_only_this_machine_can_connect(
    listen: str, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    controller("star:hosts=2", listen=listen, port=6653)
    assert capsys.readouterr().err == ""
    assert started[0][started[0].index("--listen") + 1] == listen


@pytest.mark.parametrize("listen", ["0.0.0.0", "::", "10.0.0.1", "switches.example"])
def test_who_can_be_reached_by_others_is_warned_that_openflow_is_plain_tcp(
    listen: str, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    controller("star:hosts=2", listen=listen, port=6653)
    (line,) = capsys.readouterr().err.splitlines()
    assert "plain TCP" in line
    assert listen in line
    assert len(started) == 1

"""`gradwire part` ends with its session, and also if the session does not when nobody is left to ask it."""

import os
import subprocess

import pytest

from gradwire.tools.commands import part


def ended(monkeypatch: pytest.MonkeyPatch, command: str, *, asked: bool) -> tuple[int, int | None]:
    """The exit code of `part`, and that of a session which is this command; None if it still runs."""
    monkeypatch.setattr(part, "_END_S", 0.2)
    reading, writing = os.pipe()
    if not asked:
        os.close(writing)
    with os.fdopen(reading) as stdin, subprocess.Popen(["sh", "-c", command], text=True) as process:
        monkeypatch.setattr("sys.stdin", stdin)
        code = part.ended(process)
        still = process.poll()
        process.kill()
    if asked:
        os.close(writing)
    return code, still


def test_it_ends_as_its_session_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "exit 3", asked=True) == (3, 3)
    assert ended(monkeypatch, "exit 4", asked=False) == (4, 4)


def test_a_session_that_is_stopped_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "kill -STOP $$", asked=False) == (1, None)

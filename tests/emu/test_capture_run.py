"""What Ctrl-C does to a capture: it depends on how far the job is, and what was captured is written first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.capturing import run
from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.network.tcpdump import WRITE_S

REQUEST = CaptureRequest(2, "star:hosts=2", command=("true",))
OVER: dict[str, Any] = {"cpu_beside": None, "programs": []}


class Session:
    """Stands for a session that is interrupted by Ctrl-C after each list of phases but the last."""

    def __init__(self, *stages: list[tuple[str, dict[str, Any]]]) -> None:
        self.stages = list(stages)
        self.asked: list[str] = []
        self.limits_s: list[float] = []

    @contextmanager
    def begun(self, *_: object) -> Iterator["Session"]:
        yield self

    def tell(self, line: str) -> None:
        self.asked.append(line)

    def follow(self, child: object, limit_s: float, progress: Callable[[str, dict[str, Any]], None]) -> None:
        del child
        self.limits_s.append(limit_s)
        for phase, more in self.stages.pop(0):
            progress(phase, more)
        if self.stages:
            raise KeyboardInterrupt


def captured(
    session: Session,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: CaptureRequest = REQUEST,
) -> tuple[str | None, bool, list[str]]:
    """Why it was cut short, whether it was interrupted, and what was shown."""
    monkeypatch.setattr(run, "session", session.begun)
    monkeypatch.setattr(run, "follow", session.follow)
    phases: list[str] = []
    ran = run.capture(request, folder, lambda phase, more: phases.append(phase))
    return ran.cut_short, ran.interrupted, phases


def test_without_it_nothing_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session([("job", {}), ("over", OVER), ("ended", {"cut_short": None})])
    assert captured(session, tmp_path, monkeypatch) == (None, False, ["job", "over"])


def test_it_ends_a_job_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session([("job", {})], [("over", OVER), ("ended", {"cut_short": "interrupted"})])
    assert captured(session, tmp_path, monkeypatch) == ("interrupted", True, ["job", "ending", "over"])
    assert session.asked == ["stop"]


def test_while_captures_are_written_it_waits_for_them_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session([("job", {}), ("over", OVER)], [("ended", {"cut_short": None})])
    assert captured(session, tmp_path, monkeypatch) == (None, True, ["job", "over", "writing"])
    assert session.asked == []
    assert session.limits_s[1] > WRITE_S


def test_it_waits_for_the_captures_of_each_job_as_they_are_written_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session([("job", {}), ("over", OVER)], [("ended", {"cut_short": None})])
    three = replace(REQUEST, beside=(REQUEST, REQUEST))
    captured(session, tmp_path, monkeypatch, three)
    assert session.limits_s[1] > 3 * WRITE_S


@pytest.mark.parametrize("stages", [[[("network", {})], []], [[("job", {})], [("over", OVER)], []]])
def test_before_the_job_or_a_second_time_it_ends_everything(
    stages: list[list[tuple[str, dict[str, Any]]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        captured(Session(*stages), tmp_path, monkeypatch)

"""Progress of a long command: lines into a pipe, and how long the rest takes."""

import time

import pytest
from rich.progress import Progress

from gradwire.tools import progressbar
from gradwire.tools.progressbar import Pace, progress_bar, progress_line, show_clock, show_left


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_rest_takes_as_long_for_each_step_as_those_that_are_done() -> None:
    clock, pace = Clock(), Pace()
    progress = Progress(disable=True, get_time=clock)
    number = progress.add_task("replaying", total=5)
    task = progress.tasks[0]
    assert pace.left_s(task) is None
    clock.now_s = 20.0
    progress.advance(number)
    progress.advance(number)
    assert pace.left_s(task) == pytest.approx(30.0)  # 3 steps of 10 s each
    clock.now_s = 26.0
    assert pace.left_s(task) == pytest.approx(24.0)
    clock.now_s = 70.0
    assert pace.left_s(task) == 0.0
    progress.update(number, completed=5)
    assert pace.left_s(task) is None


@pytest.mark.parametrize(("seconds", "shown"), [(5.4, "0:05"), (65, "1:05"), (3_723, "1:02:03")])
def test_a_time_is_shown_as_a_clock_does(seconds: float, shown: str) -> None:
    assert show_clock(seconds) == shown


def test_a_line_says_what_is_done_and_how_long_the_rest_takes() -> None:
    clock = Clock()
    progress = Progress(disable=True, get_time=clock)
    progress.add_task("star ring: repeat 2", total=16, completed=3)
    clock.now_s = 42.0
    (task,) = progress.tasks
    assert progress_line(task, 130.0) == "star ring: repeat 2, 3 of 16 done, 0:42, about 2:10 left"
    assert progress_line(task, None) == "star ring: repeat 2, 3 of 16 done, 0:42"
    assert show_left(0.4) == ""


@pytest.mark.parametrize(("quiet", "expected"), [(False, True), (True, False)])
def test_a_pipe_gets_a_line_every_few_seconds_unless_it_wants_none(
    quiet: bool, expected: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progressbar, "_LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(progressbar, "LINE_EVERY_S", 0.04)
    with progress_bar(quiet=quiet) as progress:
        progress.add_task("re\x1bplaying", total=4)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert bool(lines) == expected
    assert all(line.startswith("gradwire: re␛playing, 0 of 4 done, 0:00") for line in lines)


def test_what_is_over_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(quiet=False) as progress:
        progress.add_task("planning", total=1)
    assert capsys.readouterr().err == ""

"""What a long command does at the moment, on standard error: a bar, or lines if that is a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from gradwire.tools.console import console, plain

PATIENCE_S = 2.0  # what is over sooner needs no bar
LINE_EVERY_S = 5.0
_LOOK_EVERY_S = 0.5


class Pace:
    """When the steps of tasks were done, by whoever looks now and then: how long will the others take?"""

    def __init__(self) -> None:
        self._last: dict[TaskID, tuple[float, float]] = {}  # steps that are done, and when the last one was

    def left_s(self, task: Task) -> float | None:
        """As if each of the others took as long as those that are done; None before the first one is."""
        elapsed_s = task.elapsed or 0.0
        if self._last.get(task.id, (-1.0, 0.0))[0] != task.completed:
            self._last[task.id] = task.completed, elapsed_s
        done, at_s = self._last[task.id]
        if not done or task.total is None or done >= task.total:
            return None
        return max(0.0, at_s / done * task.total - elapsed_s)


class _Count(ProgressColumn):
    def render(self, task: Task) -> Text:
        """See ProgressColumn."""
        return Text("" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}")


class _TimeLeft(ProgressColumn):
    def __init__(self) -> None:
        super().__init__()
        self._pace = Pace()

    def render(self, task: Task) -> Text:
        """See ProgressColumn."""
        return Text(show_left(self._pace.left_s(task)), style="progress.remaining")


def show_left(left_s: float | None) -> str:
    """`about 2:10 left`; empty if that is unknown, or no more than a second."""
    return "" if left_s is None or left_s < 1 else f"about {show_clock(left_s)} left"


def show_clock(seconds: float) -> str:
    """`1:05`, `1:02:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


@contextmanager
def progress_bar(*, quiet: bool, after_s: float = 0.0) -> Iterator[Progress]:
    """On a terminal a bar that is gone at the end; elsewhere a line every few seconds.  Nothing with `quiet`.

    The bar comes after this many seconds: what is over earlier needs none.
    """
    to = console(stderr=True)
    to.file = sys.stderr  # also while a command that is run meanwhile has its own
    is_terminal = sys.stderr.isatty()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        _Count(),
        TimeElapsedColumn(),
        _TimeLeft(),
        console=to,
        transient=True,
        disable=quiet or not is_terminal,
    )
    with _bar(progress, after_s) if is_terminal or quiet else _lines(progress):
        yield progress


@contextmanager
def _bar(progress: Progress, after_s: float) -> Iterator[None]:
    begin = Timer(after_s, progress.start)
    begin.daemon = True
    begin.start()
    try:
        yield
    finally:
        begin.cancel()
        begin.join()
        progress.stop()


@contextmanager
def _lines(progress: Progress) -> Iterator[None]:
    over, stderr, pace = Event(), sys.stderr, Pace()

    def report() -> None:
        waited_s = 0.0
        while not over.wait(_LOOK_EVERY_S):
            waited_s += _LOOK_EVERY_S
            lines = [progress_line(task, pace.left_s(task)) for task in progress.tasks]
            if waited_s % LINE_EVERY_S < _LOOK_EVERY_S:
                for line in lines:
                    print(f"gradwire: {plain(line)}", file=stderr, flush=True)

    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def progress_line(task: Task, left_s: float | None) -> str:
    """`star:hosts=4 ring: repeat 2, 3 of 16 done, 0:42, about 2:10 left`."""
    count = "" if task.total is None else f"{task.completed:.0f} of {task.total:.0f} done"
    times = show_clock(task.elapsed or 0.0), show_left(left_s)
    return ", ".join(filter(None, (task.description, count, *times)))

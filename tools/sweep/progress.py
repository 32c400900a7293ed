"""How far a sweep is: a bar or lines on standard error, and messages to the live view."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, TaskID

from gradwire.results.studyresults import CellResult
from gradwire.tools.live.rows import results_table
from gradwire.tools.live.view import LiveView
from gradwire.tools.progressbar import Pace, progress_bar, show_left
from gradwire.traces.units import show_nbytes, show_s

Tell = Callable[[str], None]
SHOW_S = 0.5  # a view gets news no more often than this
NEWEST = 50  # cells in a view's table


class SweepProgress:
    """What is done of `n_todo` cells, the time that the others will take, and the best cells so far."""

    def __init__(self, bar: Progress, n_todo: int, view: LiveView | None) -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("starting", total=n_todo)
        self._view = view
        self._pace = Pace()
        self._best: dict[tuple[str, int], CellResult] = {}  # of each job and size
        self._best_words = ""  # of the job and size of the last cell
        self._newest: list[CellResult] = []
        self._n_done = 0
        self._n_todo = n_todo
        self._shown_s = 0.0

    def count(self, result: CellResult) -> None:
        """A cell that is known, from before or now."""
        group = result.job, result.cell.bytes
        best = self._best.get(group)
        if result.counts and (best is None or (result.time_s or 0.0) < (best.time_s or 0.0)):
            self._best[group] = result

    def doing(self, text: str) -> None:
        """What is done now."""
        text += self._best_words
        self._bar.update(self._task, description=text)
        if self._view:
            self._view.phase(text)

    def done(self, result: CellResult, name: str) -> None:
        """A cell that was done now."""
        self.count(result)
        self._n_done += 1
        self._newest = [result, *self._newest[: NEWEST - 1]]
        best = self._best.get((result.job, result.cell.bytes))
        self._best_words = f"; {best_words(best)}" if best else ""
        text = f"{name} done{self._best_words}"
        self._bar.update(self._task, advance=1, description=text)
        now_s = time.monotonic()
        if self._view and (now_s - self._shown_s >= SHOW_S or self._n_done == self._n_todo):
            self._shown_s = now_s
            self._view.phase(text)
            self._show(self._view)

    def _show(self, view: LiveView) -> None:
        (task,) = (each for each in self._bar.tasks if each.id == self._task)
        view.progress(
            self._n_done,
            self._n_todo,
            show_left(self._pace.left_s(task)),
            [best_words(best) for best in self._best.values()],
        )
        view.rows(results_table(self._newest), self._n_todo, self._n_done)


def best_words(best: CellResult) -> str:
    """`best so far of sums, 4.19 MB: ring, linear, ecmp on star:hosts=4: 1.23 s`, without what it is of if
    there is one job, and nothing is known of its size.
    """
    nbytes = best.cell.bytes
    of = ", ".join(filter(None, (best.job, show_nbytes(nbytes) if nbytes else "")))
    return f"best so far{f' of {of}' if of else ''}: {best.cell.name}: {show_s(best.time_s or 0.0)}"


@contextmanager
def sweep_progress(n_todo: int, view: LiveView | None, *, quiet: bool) -> Iterator[SweepProgress]:
    """While cells are done."""
    is_drawn = view is not None and view.is_terminal
    with progress_bar(quiet=quiet or is_drawn) as bar:
        yield SweepProgress(bar, n_todo, view)

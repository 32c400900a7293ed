"""The bar of commands that go through cells one after the other."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gradwire.tools.console import console


@contextmanager
def progress_bar(*, quiet: bool, after_s: float = 0.0) -> Iterator[Progress]:
    """On standard error, and gone at the end; none with `quiet` or without a terminal.

    It comes after so many seconds: what is over earlier needs none.
    """
    to = console(stderr=True)
    to.file = sys.stderr  # also while a command that is run meanwhile has its own
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=to,
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
    begin = Timer(after_s, progress.start)
    begin.daemon = True
    begin.start()
    try:
        yield progress
    finally:
        begin.cancel()
        begin.join()
        progress.stop()

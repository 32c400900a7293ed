"""Two threads for what is done with each of several files, hosts or streams.  An edge module: it starts one.

numpy lets another thread run in the meantime, so two files take little more than one.
"""

import os
from collections.abc import Callable, Sequence
from itertools import count
from threading import Event, Thread
from typing import Any, TypeVar

from gradwire.traces.memory import left_by_limits_nbytes

Result = TypeVar("Result")


def in_threads(function: Callable[..., Result], *columns: Sequence[Any]) -> list[Result]:
    """Like `[*map(function, *columns)]`, by this thread and another; all columns have the same length.

    Raises what the first of the items raised; no item is begun after one has raised, or after an interrupt.
    The other thread ends with the process.
    """
    items = [*zip(*columns, strict=True)]
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}
    places, ended = count(), Event()

    def work() -> None:
        while not ended.is_set() and (place := next(places)) < len(items):
            try:
                results[place] = function(*items[place])
            except Exception as error:  # noqa: BLE001 - raised below
                errors[place] = error
                ended.set()

    try:
        other = _started(work) if len(items) > 1 and _may_have_two() else None
        work()
        if other is not None:
            other.join()
    finally:
        ended.set()
    if errors:
        try:
            raise errors[min(errors)]
        finally:
            errors.clear()  # or the error would hold itself, and all results, by its traceback
    return [results[place] for place in range(len(items))]


def _may_have_two() -> bool:
    """No, where this process has a limit of its address space: glibc takes 64 MiB of it for each thread."""
    # macOS has no sched_getaffinity.
    n_processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_processors > 1 and left_by_limits_nbytes() is None


def _started(work: Callable[[], None]) -> Thread | None:
    """None where a limit of threads does not allow one more."""
    thread = Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread

"""Does something for several files at once.  An edge module: it starts threads.

numpy lets another thread run in the meantime, so two files take little more than one.
"""

import os
from collections.abc import Callable, Sequence
from itertools import count
from threading import Thread
from typing import Any, TypeVar

from gradwire.traces.memory import left_by_limits_nbytes

Result = TypeVar("Result")


def n_at_once(n_items: int) -> int:
    """How many of them are done at the same time.

    One where this process has a limit of its address space: glibc reserves 64 MiB of it for each thread.
    """
    return max(1, min(n_items, len(os.sched_getaffinity(0)))) if left_by_limits_nbytes() is None else 1


def in_threads(function: Callable[..., Result], *columns: Sequence[Any]) -> list[Result]:
    """What `map` yields, whose `columns` are all as long, in as many threads as there are processors.

    Raises what the first item raised; none is begun after one has raised.  The threads end with the process,
    so an interrupt does not wait for them.
    """
    items = [*zip(*columns, strict=True)]
    n_threads = n_at_once(len(items))
    if n_threads == 1:
        return [function(*item) for item in items]
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}
    places = count()

    def work() -> None:
        while not errors and (place := next(places)) < len(items):
            try:
                results[place] = function(*items[place])
            except Exception as error:  # noqa: BLE001 - raised below
                errors[place] = error

    threads = [Thread(target=work, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(items))]

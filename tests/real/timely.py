"""What must be done in time, on a machine whose host may hold its CPUs back at any moment."""

from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

N_TRIES = 3
PATIENCE_S = 20.0  # for what takes no work, on a machine that may be busy with other things


def in_time(see: Callable[[], Seen], is_in_time: Callable[[Seen], bool]) -> Seen:
    """The first of N_TRIES that was in time, or the last.

    A disturbance only adds time: that one try is in time shows what the program itself needs, and a
    program that is too slow is late in each.  What must hold at any speed is the caller's to assert.
    """
    for _ in range(N_TRIES - 1):
        seen = see()
        if is_in_time(seen):
            return seen
    return see()

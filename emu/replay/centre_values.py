"""What is pushed to a centre and pulled from it, and the check of that against the order of the server's log.

Push number n of a schedule adds small integers that tell it from others, so that every sum of some pushes is
exact in float32.  What a pull holds must be, in each element, the sum of all pushes that the server had added
when it began to hand the pull to its kernel, or of those and some of the next ones, up to the moment when it
had handed over all of it.  With a lock there are none meanwhile.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.schedules.schedule import Schedule

_EVEN, _ODD = 97, 89  # primes; the numbers of n and n + 97 · 89 are the same


class Access(NamedTuple):
    """An operation of a centre at its server: a push has been added, or a pull begins or `is_over`."""

    op: int
    is_over: bool = True


def contribution(op: int, nbytes: int) -> NDArray[np.float32]:
    """What a push adds: by its operation, numbers from 0 to 96."""
    numbers = np.arange(2 * _EVEN * _ODD)  # then they repeat
    period = np.where(numbers % 2, (op // _EVEN + numbers) % _ODD, (op + numbers) % _EVEN).astype(np.float32)
    return np.resize(period, nbytes // ELEMENT_NBYTES)


def count_wrong(
    schedule: Schedule, rank: int, held: Mapping[int, NDArray[np.uint8]], log: Sequence[Access]
) -> int:
    """Elements that are not what they must be: of a server's centres, and of what a rank has pulled.

    `held` has the rank's buffers by operation, `log` the accesses to all centres, of each in their order.
    """
    wrong = 0
    for number, centre in enumerate(schedule.centres):
        log_here = [access for access in log if schedule.ops[access.op].centre == number]
        ops = [op for op, made in enumerate(schedule.ops) if made.centre == number and op in held]
        pulled = {op: held[op].view(np.float32) for op in ops if not schedule.is_push(op)}
        if rank != centre.rank:
            wrong += _count_wrong_pulls(schedule, centre.nbytes, pulled, log_here)
        elif ops:
            pushes = [op for op in ops if schedule.is_push(op)]
            total = np.zeros(centre.nbytes // ELEMENT_NBYTES, np.float32)
            for op in pushes:
                total += contribution(op, centre.nbytes)
            wrong += int(np.count_nonzero(held[ops[0]].view(np.float32) != total))
    return wrong


def _count_wrong_pulls(
    schedule: Schedule, nbytes: int, pulled: Mapping[int, NDArray[np.float32]], log: Sequence[Access]
) -> int:
    total = np.zeros(nbytes // ELEMENT_NBYTES, np.float32)
    right: dict[int, NDArray[np.bool_]] = {}  # of the pulls that have begun
    left = dict(pulled)
    wrong = 0
    for op, is_over in log:
        if schedule.is_push(op):
            total += contribution(op, nbytes)
            for reading in right:
                right[reading] |= pulled[reading] == total
        elif op in left and not is_over:
            right[op] = pulled[op] == total
        elif op in right:
            wrong += int(np.count_nonzero(~right.pop(op)))
            del left[op]
    return wrong + len(left) * len(total)

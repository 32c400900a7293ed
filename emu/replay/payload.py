"""The data that is sent: real numbers that are really added, and checked element by element at the end.

Allreduce buffers hold small integers as float32, so that every partial sum is exact (below 2^24) and the
order of additions does not matter; switches add those exactly too, for an integer keeps its value when it is
scaled by 2^k, and k is at least 9 here.  What only switches add up has real numbers (`emu.replay.sums`).
Everything else is a byte pattern that names its source.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.replay import sums
from gradwire.traces.schedules.collectives import ELEMENT_NBYTES
from gradwire.traces.schedules.kinds import Data
from gradwire.traces.schedules.schedule import Aggregation, Op, Schedule
from gradwire.traces.schedules.sends import Send

_PERIOD = 97  # prime, so that a shifted chunk shows
_BYTE_PERIOD = 251
MAX_HELD_NBYTES = 8 << 30


def summed_by_switches(schedule: Schedule) -> dict[int, Aggregation]:
    """The operations that are an aggregation and nothing else."""
    sent = set(np.unique(schedule.sends.op).tolist())
    return {each.op: each for each in schedule.aggregations if each.op not in sent}


def held_nbytes(schedule: Schedule) -> int:
    """What all ranks hold together: the buffer of every operation at each of its ranks, and at who takes an
    aggregation's sum what it gave beside it.
    """
    held = sum(op.nbytes * len(members) for op, members in zip(schedule.ops, schedule.members, strict=True))
    return held + sum(schedule.ops[each.op].nbytes * len(each.takers) for each in schedule.aggregations)


def buffers(schedule: Schedule, rank: int) -> dict[int, NDArray[np.uint8]]:
    """The buffer (bytes) of every operation in which `rank` takes part, before it begins."""
    parts = {op for op, members in enumerate(schedule.members) if rank in members}
    summed = summed_by_switches(schedule)
    made = {}
    for op in sorted(parts):
        if op in summed:
            made[op] = _to_sum(schedule.ops[op], summed[op], rank)
        else:
            made[op] = _initial(schedule.ops[op], op, rank)
    return made


def _to_sum(op: Op, aggregation: Aggregation, rank: int) -> NDArray[np.uint8]:
    if rank not in aggregation.givers:
        return np.full(op.nbytes, 0, np.uint8)
    return sums.numbers(aggregation.op, rank, op.nbytes // ELEMENT_NBYTES).view(np.uint8)


def add(buffer: NDArray[np.uint8], send: Send, data: NDArray[np.uint8]) -> None:
    """Add a received chunk of float32 to the receiver's own."""
    begin = send.offset + send.shift
    own = buffer[begin : begin + send.nbytes].view(np.float32)
    own += data[: send.nbytes].view(np.float32)


def count_wrong(schedule: Schedule, held: dict[int, NDArray[np.uint8]]) -> int:
    """Elements (bytes of what is not an allreduce) that are not what they must be.

    What only switches added up is not looked at: that is for `sums.checked`, with a bound.
    """
    wrong = 0
    for number in held.keys() - summed_by_switches(schedule).keys():
        op, buffer = schedule.ops[number], held[number]
        if op.contract.after[1] is Data.SUM:
            total = _sum(op, number, schedule.members[number])
            wrong += int(np.count_nonzero(buffer.view(np.float32) != total))
        else:
            wrong += int(np.count_nonzero(buffer != _pattern(op.nbytes, number, op.root)))
    return wrong


def _initial(op: Op, number: int, rank: int) -> NDArray[np.uint8]:
    if op.contract.before[rank != op.root] is Data.NOTHING:
        return np.full(op.nbytes, 0, np.uint8)  # not zeros: their pages would be made during the run
    if op.contract.adds:
        return (_ramp(op, number) + np.float32(rank)).view(np.uint8)
    return _pattern(op.nbytes, number, rank)


def _ramp(op: Op, number: int) -> NDArray[np.float32]:
    one = ((np.arange(_PERIOD) + number) % _PERIOD).astype(np.float32)
    return np.resize(one, op.nbytes // ELEMENT_NBYTES)


def _sum(op: Op, number: int, members: Sequence[int]) -> NDArray[np.float32]:
    """The sum over the ranks that take part, by its closed form."""
    return _ramp(op, number) * np.float32(len(members)) + np.float32(sum(members))


def _pattern(nbytes: int, number: int, root: int) -> NDArray[np.uint8]:
    one = ((np.arange(_BYTE_PERIOD) + 7 * number + 31 * root) % _BYTE_PERIOD + 1).astype(np.uint8)
    return np.resize(one, nbytes)

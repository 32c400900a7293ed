"""The data that is sent: real numbers that are really added, and checked element by element at the end.

Buffers that are added up hold small integers, converted to the operation's type.  The n numbers of a sum are
at most 2^b / n each, where a type of b significant bits has all integers up to 2^b: so every partial sum is
exact, and the order of additions does not matter.  Switches add those exactly too, for an integer keeps its
value when it is scaled by 2^k, and k is at least 9 here.  What only switches add up has real numbers
(`emu.replay.sums`).  Everything else is a byte pattern that names its source.

float16 numbers are added as numpy does, to the nearest even, in a quarter of its 6 ns for each.  In a ring
all ranks add at once, and on few processors each step would be that much longer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.replay import centre_values, sums
from gradwire.emu.replay.pair_values import Compression, summed_gradients
from gradwire.emu.replay.pairs import add_pairs, merge_pairs, packed
from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.dtypes import FLOAT32, DType, exact_to
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, Held
from gradwire.traces.schedules.schedule import Aggregation, Op, Schedule
from gradwire.traces.schedules.sends import Send

_PERIOD = 97  # prime, so that a shifted chunk shows, and what is added is smaller
_BYTE_PERIOD = 251
MAX_HELD_NBYTES = 8 << 30
_BLOCK = 4096  # numbers whose sums stay in a processor's nearest cache
_FLOATS = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # by a float16's bits


def summed_by_switches(schedule: Schedule) -> dict[int, Aggregation]:
    """The operations that are an aggregation and nothing else."""
    sent = set(np.unique(schedule.sends.op).tolist())
    return {each.op: each for each in schedule.aggregations if each.op not in sent}


def held_nbytes(schedule: Schedule) -> int:
    """What all ranks hold together: the buffer of every operation at each of its ranks, and at who takes an
    aggregation's sum what it gave beside it.
    """
    held = sum(
        op.buffer_nbytes * (len(members) - (op.centre is not None))
        for op, members in zip(schedule.ops, schedule.members, strict=True)
    )
    held += sum(centre.nbytes for centre in schedule.centres)
    return held + sum(schedule.ops[each.op].nbytes * len(each.takers) for each in schedule.aggregations)


def buffers(schedule: Schedule, rank: int) -> dict[int, NDArray[np.uint8]]:
    """The buffer (bytes) of every operation in which `rank` takes part, before it begins."""
    parts = {op for op, members in enumerate(schedule.members) if rank in members}
    summed = summed_by_switches(schedule)
    shared = {
        number: np.full(centre.nbytes, 0, np.uint8)
        for number, centre in enumerate(schedule.centres)
        if centre.rank == rank
    }
    made = {}
    for op in sorted(parts):
        centre = schedule.ops[op].centre
        if centre is not None:
            made[op] = shared[centre] if centre in shared else _of_worker(schedule, op)
        elif op in summed:
            made[op] = _to_sum(schedule.ops[op], summed[op], rank)
        else:
            made[op] = _before(schedule, op, rank)
    return made


def _of_worker(schedule: Schedule, op: int) -> NDArray[np.uint8]:
    """What it pushes, or room for what it pulls."""
    nbytes = schedule.ops[op].nbytes
    if schedule.is_push(op):
        return centre_values.contribution(op, nbytes).view(np.uint8)
    return np.full(nbytes, 0, np.uint8)


def _to_sum(op: Op, aggregation: Aggregation, rank: int) -> NDArray[np.uint8]:
    if rank not in aggregation.givers:
        return np.full(op.nbytes, 0, np.uint8)
    return sums.numbers(aggregation.op, rank, op.nbytes // ELEMENT_NBYTES).view(np.uint8)


def number_type(dtype: DType) -> np.dtype[Any]:
    """As numpy has it."""
    if dtype == "bfloat16":
        import ml_dtypes

        made: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return made
    return np.dtype(dtype)


def load_types(schedule: Schedule) -> None:
    """Import and compile what adding takes, so that no agent does it during a run."""
    if any(op.contract.has_pairs for op in schedule.ops):
        pairs = packed(np.ones(4, np.float32), 2)  # of one pair the columns would be of another layout
        merge_pairs(pairs, pairs.copy())
        add_pairs(np.zeros(4, np.float32), pairs)
    for dtype in schedule.dtypes:
        one = np.ones(1, number_type(dtype)).view(np.uint8)
        add(one.copy(), Send(0, 0, 1, 0, one.nbytes, reduce=True), one, dtype)


def add(buffer: NDArray[np.uint8], send: Send, data: NDArray[np.uint8], dtype: DType = FLOAT32) -> None:
    """Add a received chunk of numbers to the receiver's own."""
    begin, numbers = send.offset + send.shift, number_type(dtype)
    own, others = buffer[begin : begin + send.nbytes].view(numbers), data[: send.nbytes].view(numbers)
    if dtype == "float16":
        add_halves(own, others)
    else:
        own += others


def count_wrong(schedule: Schedule, rank: int, held: dict[int, NDArray[np.uint8]]) -> int:
    """Elements (bytes of what is not added up) of a rank's buffers that are not what they must be.

    What only switches added up is not looked at: that is for `sums.checked`, with a bound.  Nor is what has a
    centre (`centre_values.count_wrong`).
    """
    wrong = 0
    of_centres = {op for op, made in enumerate(schedule.ops) if made.centre is not None}
    for number in held.keys() - summed_by_switches(schedule).keys() - of_centres:
        op, buffer = schedule.ops[number], held[number]
        for due in op.contract.after(schedule.parties_of(number, rank), rank):
            is_like = _data(schedule, number, due)
            found = buffer[due.offset : due.offset + due.nbytes].view(is_like.dtype)
            wrong += int(np.count_nonzero(found != is_like))
        if op.contract.has_pairs:
            compression = Compression(schedule, number)
            dense = buffer[op.nbytes :].view(np.float32)[compression.shard(rank)]
            wrong += int(np.count_nonzero(dense != compression.result(rank)))
    return wrong


def _before(schedule: Schedule, number: int, rank: int) -> NDArray[np.uint8]:
    """A rank's buffer with what it has made itself; nothing of what carries on another operation."""
    op = schedule.ops[number]
    buffer = np.full(op.buffer_nbytes, 0, np.uint8)  # not zeros: their pages would be made during the run
    if op.source is None:
        for own in op.contract.before(schedule.parties_of(number, rank), rank):
            data = _data(schedule, number, own)
            buffer[own.offset : own.offset + own.nbytes] = data.view(np.uint8)
    return buffer


def _data(schedule: Schedule, number: int, held: Held) -> NDArray[Any]:
    """What a range of a buffer holds: what some givers of a sum have made, added up, or what their one giver
    has: pairs, a part of the result of such, or bytes that name it.
    """
    op = schedule.ops[number]
    if op.contract.has_pairs:
        pairs = Compression(schedule, number)
        return pairs.merged() if len(held.givers) > 1 else pairs.pairs(held.givers[0])
    if op.source is not None:
        return Compression(schedule, op.source).result(held.givers[0])
    if op.contract.adds and number in schedule.compressed:
        first = held.origin // op.element_nbytes
        return summed_gradients(number, held.givers, slice(first, first + held.nbytes // op.element_nbytes))
    if not op.contract.adds:
        (giver,) = held.givers
        start = held.origin + 7 * number + 31 * giver
        pattern = ((np.arange(_BYTE_PERIOD) + start) % _BYTE_PERIOD + 1).astype(np.uint8)
        return np.resize(pattern, held.nbytes)
    start = held.origin // op.element_nbytes + number
    most = max(1, min(_PERIOD - 1, exact_to(op.dtype) // len(schedule.parties(number)[0].givers)))
    ramps = np.add.outer(np.array(held.givers), np.arange(_PERIOD) + start) % _PERIOD
    made = (ramps % (most + 1)).astype(np.float32).sum(axis=0)
    return np.resize(made.astype(number_type(op.dtype)), held.nbytes // op.element_nbytes)


def add_halves(own: NDArray[np.float16], others: NDArray[np.float16]) -> None:
    """Add `others` to `own`, in place."""
    sums = np.empty(_BLOCK, np.float32)
    mine, theirs = own.view(np.uint16), others.view(np.uint16)
    for begin in range(0, len(own), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        _sum(mine[part], theirs[part], _FLOATS, sums)
        _round(sums.view(np.uint32), mine[part])


@compiled
def _sum(own: Any, others: Any, floats: Any, sums: Any) -> None:
    for place in range(len(own)):
        sums[place] = floats[own[place]] + floats[others[place]]


@compiled
def _round(bits: Any, halves: Any) -> None:
    """float32 numbers by their bits, as float16; IEEE 754 has an exponent biased by 127 there, by 15 here."""
    for place in range(len(halves)):
        size = bits[place] & np.uint32(0x7FFFFFFF)
        odd = (size >> np.uint32(13)) & np.uint32(1)
        made = (size + np.uint32(0xFFF) + odd - np.uint32((127 - 15) << 23)) >> np.uint32(13)
        if size < np.uint32((127 - 14) << 23):  # subnormal, and a sum of two float16 is exact there
            shift = np.uint32(126) - (size >> np.uint32(23))
            significand = (size & np.uint32(0x7FFFFF)) | np.uint32(0x800000)
            made = np.uint32(0) if shift > np.uint32(24) else significand >> shift
        elif size > np.uint32(0xFF << 23):
            made = np.uint32(0x7E00)  # not a number
        elif made > np.uint32(0x7C00):
            made = np.uint32(0x7C00)  # infinite
        halves[place] = ((bits[place] >> np.uint32(16)) & np.uint32(0x8000)) | made

"""Payloads: sums are exact in any order, and a wrong element is found."""

import numpy as np
import pytest
from numpy.typing import NDArray

from gradwire.emu.replay import payload
from gradwire.emu.replay.payload import add_halves
from gradwire.traces.schedules.dtypes import DTYPES, DType, element_nbytes
from gradwire.traces.schedules.kinds import OpKind
from gradwire.traces.schedules.schedule import Aggregation, Op, Schedule
from gradwire.traces.schedules.sends import Send

N_RANKS = 64
SPECIAL = np.array(
    [0, 1, 0x3FF, 0x400, 0x401, 0x7BFF, 0x7C00, 0x7E00], np.uint16
)  # 0, subnormal … not a number


def schedule(nbytes: int = 4000) -> Schedule:
    ring = [Send(0, r, (r + 1) % N_RANKS, 0, nbytes, True) for r in range(N_RANKS)]
    message = Send(1, 0, 1, 0, 1001, False)
    return Schedule.of(N_RANKS, (Op("allreduce", nbytes), Op("message", 1001, root=0)), (*ring, message))


def test_the_sum_of_all_ranks_buffers_is_counted_as_right_in_any_order() -> None:
    made = schedule()
    held = [payload.buffers(made, rank) for rank in range(N_RANKS)]
    for order in (range(1, N_RANKS), reversed(range(1, N_RANKS))):
        total = {0: held[0][0].copy()}
        for rank in order:
            payload.add(total[0], made.sends[0], held[rank][0])
        assert payload.count_wrong(made, 0, total) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_ranks", [2, 3, 8, 21, 22, 64, 257, 512])
def test_sums_in_every_type_are_exact_in_any_order(n_ranks: int, dtype: DType) -> None:
    """Added one by one, rounded each time, in two orders; what they are is known in float64."""
    ranks = tuple(range(n_ranks))
    made = Schedule.of(
        n_ranks, (Op("allreduce", 100 * element_nbytes(dtype), members=ranks, dtype=dtype),), ()
    )
    numbers = payload.number_type(dtype)
    own = [payload.buffers(made, rank)[0].view(numbers) for rank in ranks]
    exact = np.sum([each.astype(np.float64) for each in own], axis=0)
    for order in (ranks, ranks[::-1]):
        total = own[order[0]].copy()
        for rank in order[1:]:
            total += own[rank]
        assert (total.astype(np.float64) == exact).all()
        assert payload.count_wrong(made, 0, {0: total.view(np.uint8)}) == 0
    without_last = (exact - own[-1].astype(np.float64)).astype(numbers)
    assert payload.count_wrong(made, 0, {0: without_last.view(np.uint8)}) >= 100 // 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_received_chunk_is_added_in_the_operations_type(dtype: DType) -> None:
    """A third and a half have another sum in each type."""
    numbers = payload.number_type(dtype)
    own, other = (np.full(3, value).astype(numbers) for value in (1 / 3, 0.5))
    send = Send(0, 0, 1, 0, own.nbytes, reduce=True)
    payload.add(own.view(np.uint8), send, other.view(np.uint8), dtype)
    third, bits = 1 / 3, {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    rounded = round(third * 2 ** (bits + 1)) / 2 ** (bits + 1)  # a third is between 1/4 and 1/2
    assert own.astype(np.float64).tolist() == [round((rounded + 0.5) * 2**bits) / 2**bits] * 3


@pytest.mark.parametrize("spoil", [0, 999])
def test_one_wrong_element_is_counted(spoil: int) -> None:
    made = schedule()
    total = sum(payload.buffers(made, rank)[0].view(np.float32) for rank in range(N_RANKS))
    assert isinstance(total, np.ndarray)
    total[spoil] += 1
    assert payload.count_wrong(made, 0, {0: total.view(np.uint8)}) == 1


def test_a_message_is_right_only_when_its_source_data_came() -> None:
    made = schedule()
    source, destination = payload.buffers(made, 0), payload.buffers(made, 1)
    assert payload.count_wrong(made, 1, {1: destination[1]}) == 1001
    assert payload.count_wrong(made, 1, {1: source[1]}) == 0


def test_a_chunk_put_at_the_wrong_place_is_seen() -> None:
    made = schedule()
    source = payload.buffers(made, 0)[1]
    assert payload.count_wrong(made, 1, {1: np.roll(source, 7)}) > 900


def test_all_ranks_hold_the_buffers_of_all_operations_that_they_take_part_in() -> None:
    """64 of 4,000 bytes and 2 of 1,001; who takes a sum from switches holds beside it what it gave."""
    assert payload.held_nbytes(schedule()) == 64 * 4000 + 2 * 1001
    pushes = Schedule.of(5, (Op("reduce", 3 << 30, root=4),), (), (), [Aggregation(0, (0, 1, 2, 3), (4,))])
    assert payload.held_nbytes(pushes) == 6 * (3 << 30)
    blocks = Schedule.of(3, (Op("alltoall", 24, members=(0, 1, 2)),), ())
    assert payload.held_nbytes(blocks) == sum(len(payload.buffers(blocks, rank)[0]) for rank in range(3))


@pytest.mark.parametrize("kind", ["allgather", "alltoall", "reducescatter", "reduce", "broadcast"])
def test_of_each_kind_what_every_rank_must_hold_in_the_end_is_counted(kind: OpKind) -> None:
    """By what nccl-tests says of each: rank r's part of a buffer of 24 bytes on 3 ranks, 8 bytes each."""
    n, size = 3, 24
    made = Schedule.of(n, (Op(kind, size, members=(0, 1, 2)),), ())
    own = [payload.buffers(made, rank)[0] for rank in range(n)]
    assert {len(buffer) for buffer in own} == {2 * size if kind == "alltoall" else size}
    floats = np.stack([buffer.view(np.float32) for buffer in own])
    total = np.ascontiguousarray(floats.sum(axis=0)).view(np.uint8)
    for rank in range(n):
        part = slice(8 * rank, 8 * rank + 8)
        held = own[rank].copy()
        if kind == "allgather":
            held = np.concatenate([own[other][8 * other : 8 * other + 8] for other in range(n)])
        elif kind == "alltoall":
            held[size:] = np.concatenate([own[other][part] for other in range(n)])
        elif kind == "reducescatter":
            held[part] = total[part]
        elif kind == "reduce" and rank == 0:
            held = total
        elif kind == "broadcast":
            held = own[0]
        assert payload.count_wrong(made, rank, {0: held}) == 0
        owes_nothing = (kind == "reduce" and rank) or (kind == "broadcast" and not rank)
        assert owes_nothing or payload.count_wrong(made, rank, {0: own[rank]}) > 0


def assert_added(own: NDArray[np.float16], others: NDArray[np.float16]) -> None:
    with np.errstate(all="ignore"):
        wanted = own + others
    found = own.copy()
    add_halves(found, others)
    same = (found.view(np.uint16) == wanted.view(np.uint16)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all()


@pytest.mark.parametrize("n_numbers", [0, 1, 4095, 4096, 4097, 1 << 18])
def test_any_numbers_have_numpys_sums(n_numbers: int) -> None:
    random = np.random.default_rng(n_numbers)
    own, others = (
        random.integers(0, 1 << 16, n_numbers).astype(np.uint16).view(np.float16) for _ in range(2)
    )
    assert_added(own, others)


def test_the_smallest_the_largest_and_those_without_a_value_have_numpys_sums() -> None:
    every = np.concatenate((SPECIAL, SPECIAL | 0x8000)).astype(np.uint16).view(np.float16)
    assert_added(np.repeat(every, len(every)), np.tile(every, len(every)))

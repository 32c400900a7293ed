"""What ranks select, send and add up in a compressed allreduce, against the definition written out."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.replay import pairs, payload
from gradwire.emu.replay.pair_values import Compressing, gradients
from gradwire.emu.replay.pairs import PAIR, largest, merge_pairs
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.schedule import Schedule, sent_nbytes
from tests.emu.test_fleet import run

LEAVES = ((0, 1, 4), (2, 3, 5))


def kept_of(numbers: list[float], k: int) -> dict[int, float]:
    """The k largest by size, of equal ones the first: sorted, one by one."""
    order = sorted(range(len(numbers)), key=lambda place: (-abs(numbers[place]), place))
    return {place: numbers[place] for place in order[:k]}


def made_by(rank: int, d: int) -> list[float]:
    found: list[float] = gradients(0, rank, slice(0, d)).tolist()
    return found


def topk_sum(given: list[list[float]], k: int) -> list[float]:
    total = [0.0] * len(given[0])
    for numbers in given:
        for place, value in kept_of(numbers, k).items():
            total[place] += value
    return total


def hitopk_sum(d: int, share: Fraction) -> list[float]:
    """Shard by shard: the sums of both leaves, their largest, and the sum of these."""
    size = len(LEAVES[0])
    total: list[float] = []
    for shard in range(size):
        part = slice(d * shard // size, d * (shard + 1) // size)
        sums = [
            [sum(column) for column in zip(*(made_by(rank, d)[part] for rank in leaf), strict=True)]
            for leaf in LEAVES
        ]
        total += topk_sum(sums, int(share * (d // size)))
    return total


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=40), st.data())
def test_the_largest_are_those_that_sorting_finds(numbers: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(numbers)))
    found = largest(np.array(numbers, np.float32), k).tolist()
    assert found == sorted(kept_of(list(map(float, numbers)), k))


def test_ranks_have_other_numbers_that_are_largest() -> None:
    sets = [frozenset(kept_of(made_by(rank, 10_000), 100)) for rank in range(8)]
    assert len(set(sets)) == 8
    assert max(len(a & b) for a in sets for b in sets if a is not b) < 20  # about 1 by chance


def test_any_part_of_what_a_rank_has_made_is_the_same() -> None:
    assert gradients(3, 2, slice(700, 900)).tolist() == gradients(3, 2, slice(0, 1000)).tolist()[700:900]


@pytest.mark.parametrize(("share", "k"), [("0.01", 42), ("1", 4201), ("1/4201", 1)])
def test_topk_ends_with_the_sum_of_what_ranks_kept(share: str, k: int) -> None:
    d, p = 4201, 5
    schedule = expand(made_allreduce(p, 4 * d), f"topk:{share}")
    total = topk_sum([made_by(rank, d) for rank in range(p)], k)
    assert carried_out(schedule) == [total] * p


def gtopk_sum(d: int, p: int, k: int) -> list[float]:
    """Shi et al.'s tree: of ranks r and r + 2^i, the farthest ones first, both numbers' largest."""
    held = [kept_of(made_by(rank, d), k) for rank in range(p)]
    for distance in [1 << i for i in reversed(range((p - 1).bit_length()))]:
        for rank in range(distance):
            if rank + distance < p:
                one, other = held[rank], held[rank + distance]
                total = [one.get(place, 0.0) + other.get(place, 0.0) for place in range(d)]
                present = sorted({*one, *other})
                kept = kept_of([total[place] for place in present], k)
                held[rank] = {present[place]: value for place, value in kept.items()}
    return [held[0].get(place, 0.0) for place in range(d)]


@pytest.mark.parametrize("p", [2, 4, 5, 6, 8])
def test_gtopk_ends_with_the_largest_that_are_left_after_all_merges(p: int) -> None:
    schedule = expand(made_allreduce(p, 4 * 1201), "gtopk:0.02")
    assert carried_out(schedule) == [gtopk_sum(1201, p, 24)] * p


@pytest.mark.parametrize("d", [600, 4201])
def test_hitopk_ends_with_the_sum_of_what_was_kept_of_each_switchs_sums(d: int) -> None:
    schedule = expand(made_allreduce(6, 4 * d), "hitopk:0.05", hints=Hints(leaves=LEAVES))
    assert carried_out(schedule) == [hitopk_sum(d, Fraction(1, 20))] * 6


def carried_out(schedule: Schedule) -> list[list[float]]:
    """What each rank has in the end if the sends go in their order; and a wrong pair is noticed."""
    ranks = range(schedule.n_ranks)
    held = [payload.buffers(schedule, rank) for rank in ranks]
    doing = [Compressing(schedule, rank) for rank in ranks]
    for op in range(len(schedule.ops)):
        for send in schedule.sends:
            if send.op != op:
                continue
            end = send.offset + send.nbytes
            data = held[send.src][op][send.offset : end].copy()
            if schedule.ops[op].kind == "gtopk" and send.reduce:
                merge_pairs(held[send.dst][op][: send.nbytes], data)
            elif send.reduce:
                payload.add(held[send.dst][op], send, data)
            else:
                held[send.dst][op][send.offset : end] = data
        for rank in ranks:
            doing[rank].done(op, held[rank])
    assert [payload.count_wrong(schedule, rank, held[rank]) for rank in ranks] == [0] * len(ranks)
    last = schedule.ops[-1]
    found = [held[rank][len(schedule.ops) - 1][last.nbytes if last.dense_nbytes else 0 :] for rank in ranks]
    results: list[list[float]] = [each.view(np.float32).tolist() for each in found]
    of_pairs = next(number for number, op in enumerate(schedule.ops) if op.contract.has_pairs)
    held[0][of_pairs][: PAIR.itemsize].view(PAIR)["value"] += 1
    assert payload.count_wrong(schedule, 0, held[0]) > 0
    return results


@pytest.mark.parametrize("algorithm", ["topk:0.01", "gtopk:0.01", "hitopk:0.01"])
def test_agents_send_the_pairs_and_add_them_up(algorithm: str) -> None:
    schedule = expand(made_allreduce(6, 4 * 4201), algorithm, hints=Hints(leaves=LEAVES))
    for outcomes in run(schedule, repeats=2):
        assert sum(outcome.wrong for outcome in outcomes) == 0
        assert [outcome.sent_nbytes for outcome in outcomes] == sent_nbytes(schedule)


def n_compiled() -> list[int]:
    functions: tuple[Any, ...] = (pairs._add, pairs._merge)
    return [len(function.signatures) for function in functions]


def test_agents_compile_nothing_during_a_run() -> None:
    schedule = expand(made_allreduce(2, 4000), "topk:0.1")
    payload.load_types(schedule)
    loaded = n_compiled()
    buffers = payload.buffers(schedule, 0)
    Compressing(schedule, 0).done(0, buffers)
    half = schedule.ops[0].nbytes // 2
    merge_pairs(buffers[0][:half], payload.buffers(schedule, 1)[0][half : 2 * half])
    assert n_compiled() == loaded

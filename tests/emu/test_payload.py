"""Payloads: sums are exact in any order, and a wrong element is found."""

import numpy as np
import pytest

from gradwire.emu.replay import payload
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send

N_RANKS = 64


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
        assert payload.count_wrong(made, total) == 0


@pytest.mark.parametrize("spoil", [0, 999])
def test_one_wrong_element_is_counted(spoil: int) -> None:
    made = schedule()
    total = sum(payload.buffers(made, rank)[0].view(np.float32) for rank in range(N_RANKS))
    assert isinstance(total, np.ndarray)
    total[spoil] += 1
    assert payload.count_wrong(made, {0: total.view(np.uint8)}) == 1


def test_a_message_is_right_only_when_its_source_data_came() -> None:
    made = schedule()
    source, destination = payload.buffers(made, 0), payload.buffers(made, 1)
    assert payload.count_wrong(made, {1: destination[1]}) == 1001
    assert payload.count_wrong(made, {1: source[1]}) == 0


def test_a_chunk_put_at_the_wrong_place_is_seen() -> None:
    made = schedule()
    source = payload.buffers(made, 0)[1]
    assert payload.count_wrong(made, {1: np.roll(source, 7)}) > 900

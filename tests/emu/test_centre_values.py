"""What is pulled from a centre is held against the order in which the server added pushes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from gradwire.emu.replay import payload
from gradwire.emu.replay.centre_values import Access, contribution, count_wrong
from gradwire.traces.schedules.expand import expand
from tests.made_servers import NBYTES, first_come_job

WORKLOAD, SERVED = first_come_job([[1, 1], [2, 2], [3, 3]], 1)
SCHEDULE = expand(WORKLOAD)
N = NBYTES // 4


def played(order: list[int], until: int | None = None) -> tuple[list[Access], NDArray[np.float32]]:
    """The log of a server that serves in this order, and what the one at `until` pulls."""
    log: list[Access] = []
    total, seen = np.zeros(N, np.float32), np.zeros(N, np.float32)
    for place in order:
        served = SERVED[place]
        log += [Access(served.push), Access(served.answer, is_over=False), Access(served.answer)]
        total += contribution(served.push, NBYTES)
        if place == until:
            seen = total.copy()
    return log, seen


def pulled(place: int, data: NDArray[np.float32], log: list[Access]) -> int:
    """Wrong elements of a worker that holds these data."""
    served = SERVED[place]
    return count_wrong(SCHEDULE, served.worker, {served.answer: data.view(np.uint8)}, log)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [2, 1, 0, 5, 4, 3], [1, 4, 2, 0, 5, 3]])
def test_a_pull_holds_the_pushes_before_it_in_the_servers_order(order: list[int]) -> None:
    for place in order:
        log, data = played(order, place)
        assert pulled(place, data, log) == 0
        assert pulled(place, data + 1, log) == N


def test_a_pull_of_another_order_is_wrong() -> None:
    """The same number of pushes, one of them another: every second element differs."""
    _, data = played([0, 1, 2, 3, 4, 5], 1)
    log, _ = played([2, 1, 0, 3, 4, 5])
    assert pulled(1, data, log) == N // 2


def test_half_of_a_push_is_right_only_if_it_came_while_the_pull_was_read() -> None:
    first, second = SERVED[0], SERVED[1]
    before = contribution(first.push, NBYTES)
    after = before + contribution(second.push, NBYTES)
    torn = np.concatenate([before[: N // 2], after[N // 2 :]])
    begins, ends = Access(first.answer, is_over=False), Access(first.answer)
    raced = [Access(first.push), begins, Access(second.push), ends]
    assert pulled(0, torn, raced) == 0
    assert pulled(0, torn + 1000, raced) == N
    locked = pulled(0, torn, [Access(first.push), begins, ends, Access(second.push)])
    assert locked == np.count_nonzero(torn != before) > 0.4 * N


def test_a_pull_that_the_server_never_logged_is_wrong() -> None:
    log, data = played([0, 1, 2, 3, 4, 5], 0)
    without = [access for access in log if access.op != SERVED[0].answer]
    assert pulled(0, data, without) == N


def test_a_centre_ends_with_every_contribution_once() -> None:
    buffers = payload.buffers(SCHEDULE, 0)
    pushes = [served.push for served in SERVED]
    assert len({id(buffers[op]) for op in (*pushes, *(served.answer for served in SERVED))}) == 1
    for order in (pushes, pushes[::-1]):
        buffers = payload.buffers(SCHEDULE, 0)
        for op in order:
            (send,) = [send for send in SCHEDULE.sends if send.op == op]
            payload.add(buffers[op], send, payload.buffers(SCHEDULE, send.src)[op])
        assert count_wrong(SCHEDULE, 0, buffers, []) == 0
    payload.add(buffers[op], send, payload.buffers(SCHEDULE, send.src)[op])  # once more
    assert count_wrong(SCHEDULE, 0, buffers, []) > 0.9 * N


def test_contributions_tell_pushes_apart() -> None:
    """No two of 1,000 pushes, and no two pairs of the first 60, are the same or add up to the same."""
    small = [tuple(contribution(op, 4 * 400).astype(int)) for op in range(1000)]
    assert len(set(small)) == 1000
    assert contribution(5, 40).max() <= 96
    some = np.array(small[:60])
    sums = {tuple(some[a] + some[b]) for a in range(60) for b in range(a)}
    assert len(sums) > 0.5 * 60 * 59 / 2


def test_a_server_holds_one_buffer_for_all_its_pushes_and_pulls() -> None:
    n_messages = 2 * len(SERVED)
    assert payload.held_nbytes(SCHEDULE) == (n_messages + 1) * NBYTES

"""Phases and jobs of schedules that can be read off by eye."""

from dataclasses import replace

import numpy as np

from gradwire.planning.model.phases import (
    ADDED_UP,
    PhaseKey,
    Sizes,
    by_job,
    nbytes_by_phase,
    same_phases,
    sizes_by_phase,
)
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Aggregation, Gate, Op, Schedule, together
from gradwire.traces.schedules.sends import Send
from tests.made_plans import messages


def test_the_steps_of_a_ring_are_its_phases() -> None:
    phases = nbytes_by_phase(expand(made_allreduce(4, 4 * 1000), "ring"))
    around = {(0, 1): 1000, (1, 2): 1000, (2, 3): 1000, (3, 0): 1000}
    assert phases == {(0, step): around for step in range(6)}


def test_messages_are_phases_by_what_had_to_arrive_before() -> None:
    pushes = [(1, 0, 10), (2, 0, 20)]
    phases = nbytes_by_phase(messages(3, [*pushes, (0, 1, 30)], [Gate(2, 0, after=(0, 1))]))
    assert phases == {(-1, 0): {(1, 0): 10, (2, 0): 20}, (-1, 1): {(0, 1): 30}}


def test_phases_with_the_same_bytes_are_the_same() -> None:
    phases = sizes_by_phase(expand(made_allreduce(4, 4 * 1000, count=2), "halving-doubling"))
    near = {(op, step) for op in (0, 1) for step in (0, 3)}
    assert {frozenset(keys) for keys in same_phases(phases)} == {
        frozenset(near),
        frozenset({(op, step) for op in (0, 1) for step in (1, 2)}),
    }


def test_ranks_that_sends_join_are_one_job_and_idle_ones_are_in_none() -> None:
    schedule = messages(7, [(5, 1, 1), (2, 6, 1), (1, 3, 1)])
    assert schedule.jobs == ((1, 3, 5), (2, 6))
    assert schedule.job_of == {1: 0, 3: 0, 5: 0, 2: 1, 6: 1}


def test_a_phase_of_two_jobs_is_cut_in_two() -> None:
    schedule = messages(4, [(0, 1, 7), (2, 3, 9)])
    parts = by_job(nbytes_by_phase(schedule), schedule.job_of)
    assert parts == {(0, (-1, 0)): {(0, 1): 7}, (1, (-1, 0)): {(2, 3): 9}}


def test_the_first_phases_of_all_jobs_are_one_and_a_longer_job_goes_on_alone() -> None:
    two, four = (expand(made_allreduce(n, n * 1000), "ring") for n in (2, 4))
    both = {(0, 1): 1000, (1, 0): 1000}
    around = {(2, 3): 1000, (3, 4): 1000, (4, 5): 1000, (5, 2): 1000}
    expected: dict[PhaseKey, dict[tuple[int, int], int]] = {
        (1, step): (both if step < 2 else {}) | around for step in range(6)
    }
    assert nbytes_by_phase(together([two, four])) == expected


def test_what_switches_add_up_of_an_operation_comes_before_its_sends() -> None:
    ring = expand(made_allreduce(2, 2000), "ring")
    schedule = replace(
        ring, n_ranks=4, aggregations=(Aggregation(0, (0, 2), (0, 2)), Aggregation(0, (1, 3), (1, 3)))
    )
    phases = sizes_by_phase(schedule)
    assert sorted(phases) == [(0, ADDED_UP), (0, 0), (0, 1)]
    assert phases[0, ADDED_UP].groups == {0: 2000, 1: 2000}
    assert phases[0, 0].pairs == {(0, 1): 1000, (1, 0): 1000}
    assert set(nbytes_by_phase(schedule)) == {(0, 0), (0, 1)}


def test_ranks_that_are_added_up_together_are_one_job() -> None:
    schedule = Schedule.of(
        5,
        (Op("allreduce", 4),) * 2,
        (),
        aggregations=(Aggregation(0, (0, 3), (0, 3)), Aggregation(1, (1, 4), (1,))),
    )
    assert schedule.jobs == ((0, 3), (1, 4))


def test_sums_of_two_jobs_are_one_phase_and_equal_ones_the_same() -> None:
    job = expand(made_allreduce(2, 4000, count=3), "ina")
    phases = sizes_by_phase(together([job, job]))
    assert {key: sizes.groups for key, sizes in phases.items()} == {
        (op, ADDED_UP): {0: 4000, 1: 4000} for op in range(3)
    }
    assert same_phases(phases) == [tuple(phases)]


def test_a_worker_that_only_gives_waits_for_nobody() -> None:
    """Two sums one after the other, and a message behind them: nothing has arrived at the worker before, so
    all may be under way together.
    """
    reduce = Op("reduce", 8, root=0)
    message = Op("message", 8, root=1)
    schedule = Schedule.of(
        3,
        (reduce, reduce, message),
        (Send(2, 1, 0, 0, 8, reduce=False),),
        (Gate(1, 1, (0,)), Gate(2, 1, (1,))),
        (Aggregation(0, (1, 2), (0,)), Aggregation(1, (1, 2), (0,))),
    )
    assert sizes_by_phase(schedule) == {(0, ADDED_UP): Sizes(pairs={(1, 0): 8}, groups={0: 16})}
    waiting = replace(schedule, gates=(Gate(1, 0, (0,)), Gate(2, 0, (1,))))
    assert (-1, 2) in sizes_by_phase(waiting)


def test_operations_that_do_not_wait_for_each_other_have_their_steps_together() -> None:
    """Two halving-doublings of one job, as DDP's second thread begins one before the first is over."""
    chained = expand(made_allreduce(4, 4 * 1000, count=2), "halving-doubling")
    apart, beside = (nbytes_by_phase(each) for each in (chained, replace(chained, gates=())))
    assert list(apart) == [(op, step) for op in (0, 1) for step in range(4)]
    assert beside == {
        (0, step): {pair: 2 * nbytes for pair, nbytes in apart[0, step].items()} for step in range(4)
    }


def test_computing_between_two_operations_keeps_them_apart_only_if_it_waits_for_the_first() -> None:
    ring = expand(made_allreduce(2, 2000, count=2), "ring")
    first, second = ring.sends.op == 0, np.int32(3)
    ops = (ring.ops[0], Op("compute", 0, root=0), Op("compute", 0, root=1), ring.ops[1])
    made = replace(ring, ops=ops, sends=replace(ring.sends, op=np.where(first, np.int32(0), second)))
    begins = tuple(Gate(3, rank, (1 + rank,)) for rank in (0, 1))
    for after, n_phases in (((0,), 4), ((), 2)):
        computing = tuple(Gate(1 + rank, rank, after, 10**6) for rank in (0, 1))
        assert len(nbytes_by_phase(replace(made, gates=(*computing, *begins)))) == n_phases


def test_what_follows_two_operations_comes_after_the_longer_of_them() -> None:
    """A broadcast of one step beside a ring of four, and a message that waits for both."""
    ring = expand(made_allreduce(3, 3000), "ring")
    sends = [*ring.sends, Send(1, 0, 1, 0, 8, reduce=False), Send(2, 1, 2, 0, 8, reduce=False)]
    ops = (*ring.ops, Op("broadcast", 8, members=(0, 1)), Op("message", 8, root=1))
    phases = nbytes_by_phase(Schedule.of(3, ops, sends, (Gate(2, 1, (0, 1)),)))
    assert phases[0, 0] == {(0, 1): 1008, (1, 2): 1000, (2, 0): 1000}
    assert list(phases) == [(0, 0), (0, 1), (0, 2), (0, 3), (-1, 4)]

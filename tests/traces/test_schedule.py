"""Schedules of several jobs: side by side, apart, and each right by itself."""

import numpy as np
import pytest

from gradwire.emu.replay import payload
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.predict import bound_s
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.schedules.schedule import Gate, Op, Schedule, longest_quiet_s, together


def allreduces(*sizes: int, nbytes: int = 48_000) -> Schedule:
    return together([expand(made_allreduce(size, nbytes), "ring") for size in sizes])


def test_two_jobs_have_ranks_of_their_own_and_never_exchange_anything() -> None:
    made = allreduces(4, 6)
    assert made.n_ranks == 10
    assert made.jobs == ((0, 1, 2, 3), (4, 5, 6, 7, 8, 9))
    assert all((send.src < 4) == (send.dst < 4) for send in made.sends)


def test_a_job_does_not_wait_for_the_one_beside_it() -> None:
    made = allreduces(4, 6)
    for send in made.sends:
        for other in (*send.needs, *send.ready):
            assert made.sends[other].op == send.op


def test_together_changes_nothing_of_a_single_job() -> None:
    one = expand(made_allreduce(4, 4000), "halving-doubling")
    assert together([one]) == one


def test_ranks_that_meet_through_others_are_one_job() -> None:
    ring = expand(made_allreduce(5, 5000), "ring")  # rank 0 never sends to rank 2
    assert ring.jobs == ((0, 1, 2, 3, 4),)


@pytest.mark.parametrize("sizes", [(4, 6), (3, 2, 5)])
def test_each_job_adds_up_the_data_of_its_own_ranks_only(sizes: tuple[int, ...]) -> None:
    made = allreduces(*sizes)
    for op, members in enumerate(made.members):
        total = sum(payload.buffers(made, rank)[op].view(np.float32) for rank in members)
        assert isinstance(total, np.ndarray)
        assert payload.count_wrong(made, members[0], {op: total.view(np.uint8)}) == 0
        assert payload.count_wrong(made, members[0], {op: (total + 1).view(np.uint8)}) == len(total)


def test_jobs_side_by_side_need_no_more_time_than_the_longer_one() -> None:
    fabric = parse_fabric("star:hosts=10")
    both = bound_s(fabric, fabric.hosts, allreduces(4, 6))
    alone = bound_s(fabric, fabric.hosts[:6], allreduces(6))
    assert both == alone


@pytest.mark.parametrize("p", [2, 5, 32])
def test_in_an_alltoall_every_rank_sends_each_other_its_share(p: int) -> None:
    made = expand(made_collective("alltoall", p, p * 1000), PAIRWISE)
    pairs = {(send.src, send.dst): send.nbytes for send in made.sends}
    assert pairs == {(a, b): 1000 for a in range(p) for b in range(p) if a != b}
    assert not made.gates
    assert not any(send.needs or send.ready for send in made.sends)


def test_an_allreduce_is_not_done_pairwise() -> None:
    with pytest.raises(
        ValueError, match="pairwise does alltoall, not allreduce; choose from as-captured, ring, "
    ):
        expand(made_allreduce(4, 4000), PAIRWISE)


def test_a_rank_may_have_to_wait_for_all_that_others_compute_in_two_iterations() -> None:
    """Rank 0 computes 20 s for each of two workers, in each of three iterations, rank 1 1 s in each."""
    ops = tuple(
        Op("compute", 0, root=root, iteration=iteration) for iteration in range(3) for root in (0, 0, 1)
    )
    seconds = {0: 20, 1: 1}
    gates = tuple(Gate(number, op.root, (), seconds[op.root] * 10**9) for number, op in enumerate(ops))
    schedule = Schedule.of(3, ops, (), gates)
    assert [longest_quiet_s(schedule, rank) for rank in range(3)] == [2, 80, 82]
    assert longest_quiet_s(Schedule.of(2, (), ()), 0) == 0

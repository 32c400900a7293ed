"""Pacing: what sends wait for is enough in any order, and no more than each pace says."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import process_time
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.hints import hints_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plancheck import check_schedule
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules import pacing
from gradwire.traces.schedules.algorithm import Algorithm, NotServedError
from gradwire.traces.schedules.algorithms.allpairs import all_pairs
from gradwire.traces.schedules.algorithms.doubling import halving_doubling, recursive_doubling
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.algorithms.trees import reduce_broadcast
from gradwire.traces.schedules.allreduces import ALLREDUCES
from gradwire.traces.schedules.collectives import BUILT_IN
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import OF_HOSTS, PACES, Pace
from gradwire.traces.schedules.pacing import (
    by_step,
    captured,
    early,
    early_in_two_buffers,
    paced,
    two_buffers,
)
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Edges, Send, Sends
from gradwire.traces.workload import Algorithm as Captured

Make = Callable[[int, int], Sequence[Send]]


def allreduce(n_ranks: int, nbytes: int, sends: Sequence[Send]) -> Schedule:
    return Schedule.of(n_ranks, [Op("allreduce", nbytes, members=tuple(range(n_ranks)))], sends)


def without_waits(sends: Sequence[Send]) -> Sends:
    made = Sends.of(sends)
    return replace(made, needs=Edges.none(len(made)), ready=Edges.none(len(made)))


def waits(sends: Sequence[Send], number: int) -> tuple[set[int], set[int]]:
    return set(sends[number].needs), set(sends[number].ready)


@given(
    algorithm=st.sampled_from(ALLREDUCES),
    fabric=st.sampled_from(["star:hosts=", "leaf-spine:leaves=2,spines=2,hosts=", "torus:x=2,y="]),
    size=st.integers(2, 8),
    n_elements=st.integers(1, 400),
    pace=st.sampled_from(PACES),
    says_what_it_needs=st.booleans(),
)
def test_every_algorithm_passes_the_checker_at_every_pace_whatever_it_says_itself(
    algorithm: Algorithm, fabric: str, size: int, n_elements: int, pace: str, says_what_it_needs: bool
) -> None:
    built = parse_fabric(f"{fabric}{size}")
    n_ranks = len(built.hosts)
    try:
        made = algorithm.sends(n_ranks, 4 * n_elements, hints_of(built, built.hosts))
    except NotServedError:
        return
    sends = paced(Sends.of(made) if says_what_it_needs else without_waits(made), pace)
    schedule = allreduce(n_ranks, 4 * n_elements, sends)
    check_schedule(schedule)
    check_correct(schedule)


@given(
    which=st.sampled_from(list(BUILT_IN)),
    fabric=st.sampled_from(
        ["star:hosts=5", "star:hosts=8", "leaf-spine:leaves=2,spines=2,hosts=3", "torus:x=2,y=4"]
    ),
    n_elements=st.integers(1, 200),
    pace=st.sampled_from(PACES),
)
def test_every_algorithm_of_every_collective_passes_at_every_pace(
    which: tuple[CollectiveKind, str], fabric: str, n_elements: int, pace: str
) -> None:
    collective, name = which
    built = parse_fabric(fabric)
    workload = made_collective(collective, len(built.hosts), 4 * n_elements)
    try:
        schedule = expand(workload, name, hints=hints_of(built, built.hosts), pace=pace)
    except NotServedError:
        return
    check_schedule(schedule)
    check_correct(schedule)


@pytest.mark.parametrize(
    "name", ["ps:central", "ps:servers=2,chunk=100", "ps:colocated,chunk=100", "ps:hierarchical", "ina:leaf"]
)
@pytest.mark.parametrize("pace", PACES)
def test_servers_and_the_hosts_of_leaves_pass_at_every_pace_as_well(name: str, pace: Pace) -> None:
    """A plan is checked when it is made."""
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=5")
    for nbytes in (4, 1004):
        plan = plan_of(
            Cell(fabric, name, "linear", "ecmp"), Experiment(made_allreduce(6, nbytes), "test", pace=pace)
        )
        assert plan.schedule.sends


@pytest.mark.parametrize("p", range(2, 10))
def test_a_ring_that_is_early_waits_for_the_bytes_alone_and_a_libraries_for_two_buffers(p: int) -> None:
    sends = list(two_buffers(ring(p, 40 * p)))
    for number, send in enumerate(sends):
        in_step = {s.src: i for i, s in enumerate(sends) if s.step == send.step - 1}
        assert send.needs == ((in_step[(send.src - 1) % p],) if send.step else ())
        last_but_one = {i for i, s in enumerate(sends) if s.dst == send.dst and s.step == send.step - 2}
        assert set(send.ready) == last_but_one
        mine = {i for i, s in enumerate(sends) if s.src == send.dst and s.offset == send.offset}
        replaced = set() if send.reduce else {i for i in mine if sends[i].step < send.step}
        assert waits(early(ring(p, 40 * p)), number) == (set(send.needs), replaced)
        buffered = waits(early_in_two_buffers(ring(p, 40 * p)), number)
        assert buffered == (set(send.needs), last_but_one | replaced)


@pytest.mark.parametrize("p", [3, 8])
def test_early_a_receiver_from_several_ranks_has_two_buffers_for_each(p: int) -> None:
    """A ring and a copy of it the other way round: each rank hears from both neighbours."""
    forth = list(ring(p, 40 * p))
    back = [
        replace(send, src=-send.src % p, dst=-send.dst % p, offset=send.offset + 40 * p) for send in forth
    ]
    sends = early(Sends.of([*forth, *back]))
    alone = early(ring(p, 40 * p))
    buffered = early_in_two_buffers(ring(p, 40 * p))
    assert [set(send.ready) for send in list(sends)[: len(forth)]] == [set(send.ready) for send in buffered]
    assert any(set(a.ready) != set(b.ready) for a, b in zip(alone, buffered, strict=True))


def test_early_receivers_of_halving_doubling_announce_all_that_they_add_at_once() -> None:
    """What comes back replaces the half that was given to the same partner, which must have left."""
    sends = early(Sends.of(halving_doubling(16, 16 * 40)))
    for send in sends:
        gave = {
            i for i, s in enumerate(sends) if s.reduce and (s.src, s.dst) == (send.dst, send.src)
        }  # one exchange with each partner
        assert set(send.ready) == (set() if send.reduce else gave)


def test_a_swap_is_announced_at_once_and_its_sum_waits_for_both_halves() -> None:
    sends = early(Sends.of(recursive_doubling(8, 400)))
    for send in sends:
        halves = {i for i, s in enumerate(sends) if s.step == send.step - 1 and send.src in (s.src, s.dst)}
        assert (set(send.needs), send.ready) == (halves, ())


def test_early_receivers_take_a_result_when_they_have_given_their_own_sum() -> None:
    for sends in (early(Sends.of(reduce_broadcast(8, 400))), early(Sends.of(all_pairs(8, 3200)))):
        for send in sends:
            gave = {
                i for i, s in enumerate(sends) if s.reduce and s.src == send.dst and s.offset == send.offset
            }
            assert set(send.ready) == (set() if send.reduce else gave)


@pytest.mark.parametrize("make", [halving_doubling, recursive_doubling, ring])
@pytest.mark.parametrize("p", [2, 3, 6, 8])
def test_step_by_step_a_rank_is_done_with_its_last_step_before_the_next(make: Make, p: int) -> None:
    sends = list(by_step(Sends.of(make(p, 4 * 30 * p))))
    for number, send in enumerate(sends):
        for rank, found in zip((send.src, send.dst), waits(sends, number), strict=True):
            steps = {s.step for s in sends if s.step < send.step and rank in (s.src, s.dst)}
            last = max(steps, default=None)
            assert found == {i for i, s in enumerate(sends) if s.step == last and rank in (s.src, s.dst)}


def test_sends_that_come_step_after_step_in_each_part_are_put_in_the_order_of_steps() -> None:
    halves = Sends.joined([ring(4, 160), replace(ring(4, 160), offset=ring(4, 160).offset + 160)])
    sends = by_step(halves)
    assert np.all(np.diff(sends.step) >= 0)
    check_correct(allreduce(4, 320, sends))


def test_steps_that_contradict_the_order_of_the_bytes_are_refused() -> None:
    sends = [Send(0, 0, 1, 0, 4, reduce=True, step=1), Send(0, 1, 0, 0, 4, reduce=False, step=0)]
    check_correct(allreduce(2, 4, early(Sends.of(sends))))
    with pytest.raises(NotServedError, match="send 1 of step 0 comes after send 0 of step 1, so its ranks"):
        by_step(Sends.of(sends))


def test_a_pace_that_there_is_not_and_too_many_waits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no pace 'late'; choose from early, step"):
        paced(ring(2, 8), "late")
    sends = Sends.of(all_pairs(8, 320))
    monkeypatch.setattr(pacing, "MAX_WAITS", 500)
    with pytest.raises(NotServedError, match=r"wait for each other in \d+ ways, and 500 is the most"):
        by_step(sends)


def test_a_pace_is_for_algorithms_and_not_for_what_was_captured() -> None:
    for name in ("as-captured", "ina"):
        with pytest.raises(NotServedError, match=f"{name} has a pace of its own; leave --pace out"):
            expand(made_allreduce(4, 400), name, pace="early")
    chosen = expand(made_allreduce(4, 400), "halving-doubling", pace="early").sends
    assert chosen == early(Sends.of(halving_doubling(4, 400)))
    assert expand(made_allreduce(4, 400), "halving-doubling").sends == by_step(
        Sends.of(halving_doubling(4, 400))
    )


@pytest.mark.parametrize("name", ["bruck", "hierarchical"])
def test_by_step_the_last_send_of_each_pair_is_waited_for_alone(name: str) -> None:
    """What one rank sends another comes in its order."""
    made = made_collective("alltoall", 8, 8000)
    hints = Hints(leaves=((0, 1, 2, 3), (4, 5, 6, 7)))
    sends = expand(made, name, hints=hints).sends
    assert sends == expand(made, name, hints=hints, pace="step").sends
    assert max(len(send.needs) for send in sends) > 1
    for send in sends:
        for ids in (send.needs, send.ready):
            pairs = [(sends[number].src, sends[number].dst) for number in ids]
            assert len(set(pairs)) == len(pairs)
    early_ = expand(made, name, hints=hints, pace="early").sends
    assert len(early_.needs.ids) < len(sends.needs.ids)


def test_every_exchange_that_a_capture_can_show_has_a_pace() -> None:
    sends = Sends.of(halving_doubling(2, 8))
    for name in set(get_args(Captured)) & set(OF_HOSTS):
        assert len(captured(name, sends)) == 4
    with pytest.raises(KeyError):
        captured("halving-dubling", sends)


@pytest.mark.long
def test_a_quarter_of_a_million_sends_are_paced_in_less_than_two_seconds_of_a_processor() -> None:
    sends = ring(355, 1420)
    for pace in PACES:
        began = process_time()
        paced(sends, pace)
        assert process_time() - began < 2

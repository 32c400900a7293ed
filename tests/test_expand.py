"""Workloads become schedules: scaled, cut to iterations, with their gaps."""

from fractions import Fraction
from time import process_time

import pytest

from traces.schedules.expand import expand
from traces.schedules.schedule import Gate, sent_nbytes
from traces.workload import Collective, Message, Start, Workload, made_allreduce


def job(*items: Collective | Message, n_ranks: int = 4) -> Workload:
    return Workload(schema="gradwire.workload/1", framing="gloo", n_ranks=n_ranks, items=items)


def allreduce(iteration: int, *starts: Start, nbytes: int = 4000) -> Collective:
    return Collective(kind="allreduce", tag=iteration, nbytes=nbytes, iteration=iteration, starts=starts)


@pytest.mark.parametrize("algorithm", ["as-captured", "ring", "halving-doubling"])
def test_scaling_keeps_the_bytes_per_rank_in_proportion(algorithm: str) -> None:
    whole = expand(made_allreduce(8, 512_000), algorithm)
    eighth = expand(made_allreduce(8, 512_000), algorithm, scale=Fraction(1, 8))
    assert [8 * nbytes for nbytes in sent_nbytes(eighth)] == sent_nbytes(whole)


def test_scaling_keeps_the_number_of_gloos_segments() -> None:
    whole = expand(made_allreduce(8, 28_391_424))
    assert len(expand(made_allreduce(8, 28_391_424), scale=Fraction(1, 8)).sends) == len(whole.sends)


def test_one_iteration_leaves_out_the_others_and_what_it_waited_for_there() -> None:
    workload = job(allreduce(0), allreduce(1, Start(rank=2, after=(0,), gap_ns=7)))
    schedule = expand(workload, iterations=(1,))
    assert len(schedule.ops) == 1
    assert schedule.gates == (Gate(0, 2, (), 7),)


def test_without_compute_the_order_stays_and_the_gaps_go() -> None:
    workload = job(allreduce(0), allreduce(1, Start(rank=2, after=(0,), gap_ns=7)))
    assert expand(workload, compute=Fraction(0)).gates == (Gate(1, 2, (0,), 0),)


def test_a_message_stays_one_send_whatever_the_algorithm() -> None:
    push = Message(src=1, dst=0, nbytes=999, start=Start(rank=1))
    (send,) = expand(job(push), "ring").sends
    assert (send.src, send.dst, send.nbytes, send.reduce) == (1, 0, 999, False)


def test_an_empty_selection_says_what_there_is() -> None:
    with pytest.raises(ValueError, match="the workload has: 0, 1"):
        expand(job(allreduce(0), allreduce(1)), iterations=(5,))


def test_an_unknown_algorithm_says_which_are_known() -> None:
    with pytest.raises(ValueError, match="as-captured, ring, halving-doubling"):
        expand(made_allreduce(4, 400), "butterfly")


def test_more_ranks_than_can_be_replayed_are_refused() -> None:
    with pytest.raises(ValueError, match="1024 ranks; gradwire replays at most 512"):
        expand(made_allreduce(1024, 1 << 20), "ring")


@pytest.mark.parametrize(
    ("algorithm", "count", "per_rank"),
    [
        (None, 48, 6000),  # gloo's ring: two segments for each rank and step
        ("gloo-ring", 48, 6000),
        ("ring", 24, 6000),  # 2(n-1) steps of a quarter each
        ("segmented-ring", 24, 6000),
        ("recursive-doubling", 8, 8000),  # lg 4 exchanges of the whole
        ("halving-doubling", 16, 6000),  # 2 lg 4 steps
        ("all-pairs", 24, 6000),
    ],
)
def test_as_captured_does_it_again_as_it_was(algorithm: str | None, count: int, per_rank: int) -> None:
    captured = allreduce(0).model_copy(update={"algorithm": algorithm})
    schedule = expand(job(captured))
    assert len(schedule.sends) == count
    assert sent_nbytes(schedule) == [per_rank] * 4


def test_a_captured_allreduce_by_trees_goes_by_the_same_trees() -> None:
    shapes = {"algorithm": "reduce-broadcast", "root": 2, "up": "chain", "down": "flat"}
    sends = expand(job(allreduce(0).model_copy(update=shapes))).sends
    assert [(s.src, s.dst) for s in sends if s.reduce] == [(1, 0), (0, 3), (3, 2)]
    assert {(s.src, s.dst) for s in sends if not s.reduce} == {(2, 3), (2, 0), (2, 1)}


def test_a_captured_broadcast_goes_by_its_tree() -> None:
    chain = Collective(kind="broadcast", tag=1, nbytes=100, root=1, algorithm="tree", down="chain")
    assert [(s.src, s.dst) for s in expand(job(chain)).sends] == [(1, 2), (2, 3), (3, 0)]


def test_another_algorithm_takes_the_place_of_the_captured_one() -> None:
    captured = allreduce(0).model_copy(update={"algorithm": "recursive-doubling"})
    assert expand(job(captured), "ring") == expand(job(allreduce(0)), "ring")


def test_more_sends_than_there_may_be_are_refused_before_they_are_made() -> None:
    begin_s = process_time()
    with pytest.raises(ValueError, match="more than 1,000,000 sends"):
        expand(made_allreduce(4, 1 << 40), "as-captured")
    assert process_time() - begin_s < 1

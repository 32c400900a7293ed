"""Workloads become schedules: scaled, cut to iterations, with their gaps."""

from fractions import Fraction

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

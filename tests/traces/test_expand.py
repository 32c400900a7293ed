"""Workloads become schedules: scaled, cut to iterations, with their gaps."""

from collections import Counter
from fractions import Fraction
from math import log2
from time import process_time

import pytest

from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules import carried
from gradwire.traces.schedules import expand as expanding
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import NO_HINTS, Hints
from gradwire.traces.schedules.names import OF_HOSTS
from gradwire.traces.schedules.otherranks import with_ranks
from gradwire.traces.schedules.schedule import Gate, Schedule, sent_nbytes
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Message, Start, Workload
from tests.made_orders import held

MS = 1_000_000


def job(*items: Item, n_ranks: int = 4) -> Workload:
    return Workload(schema=SCHEMA, framing="gloo", n_ranks=n_ranks, items=items)


def allreduce(iteration: int, *starts: Start, nbytes: int = 4000) -> Collective:
    return Collective(kind="allreduce", tag=iteration, nbytes=nbytes, iteration=iteration, starts=starts)


def computing(rank: int, iteration: int, *after: int) -> Compute:
    return Compute(start=Start(rank=rank, after=after), duration_ns=7, iteration=iteration)


LATE = job(allreduce(0), computing(2, 1, 0), allreduce(1, Start(rank=2, after=(1,))))


@pytest.mark.broad(6)
@pytest.mark.parametrize("algorithm", OF_HOSTS)
def test_with_every_algorithm_every_rank_has_the_sum_of_all(algorithm: str) -> None:
    """Also of sizes that ranks cannot share equally, and of fewer elements than ranks."""
    for n_ranks in range(2, 18):
        for nbytes in (4 * (5 * n_ranks + 3), 4 * n_ranks, 4):
            sends = expand(made_allreduce(n_ranks, nbytes), algorithm).sends
            have = held(sends, n_ranks, nbytes)
            assert all(piece == Counter(range(n_ranks)) for rank in have for piece in rank.values())


@pytest.mark.parametrize("n_ranks", [2, 8, 16])
def test_what_each_rank_sends_is_the_closed_form(n_ranks: int) -> None:
    """Thakur, Rabenseifner, Gropp, IJHPCA 2005; trees: Open MPI's, with rank 0 as the root."""
    nbytes = 4 * 100 * n_ranks

    def sent(algorithm: str) -> list[float]:
        schedule = expand(made_allreduce(n_ranks, nbytes), algorithm)
        return [one / nbytes for one in sent_nbytes(schedule)]

    share = 2 * (n_ranks - 1) / n_ranks
    for algorithm in ("ring", "halving-doubling", "all-pairs"):
        assert sent(algorithm) == [share] * n_ranks
    assert sent("recursive-doubling") == [log2(n_ranks)] * n_ranks
    assert sent("tree:flat") == [n_ranks - 1] + [1] * (n_ranks - 1)
    assert sent("tree:chain") == [1] + [2] * (n_ranks - 2) + [1]
    assert sent("tree:binomial")[0] == log2(n_ranks)


def test_a_captured_tree_can_be_done_by_another_tree() -> None:
    captured = Collective(
        kind="allreduce", tag=0, nbytes=400, algorithm="reduce-broadcast", up="flat", down="flat"
    )
    sends = expand(job(captured), "tree:chain").sends
    assert {(send.src, send.dst) for send in sends if send.reduce} == {(1, 0), (2, 1), (3, 2)}


@pytest.mark.parametrize("algorithm", ["as-captured", *OF_HOSTS])
def test_scaling_keeps_the_bytes_per_rank_in_proportion(algorithm: str) -> None:
    whole = expand(made_allreduce(8, 512_000), algorithm)
    eighth = expand(made_allreduce(8, 512_000), algorithm, scale=Fraction(1, 8))
    assert [8 * nbytes for nbytes in sent_nbytes(eighth)] == sent_nbytes(whole)


def test_scaling_keeps_the_number_of_gloos_segments() -> None:
    whole = expand(made_allreduce(8, 28_391_424))
    assert len(expand(made_allreduce(8, 28_391_424), scale=Fraction(1, 8)).sends) == len(whole.sends)


@pytest.mark.parametrize("algorithm", ["ring", "tree:binomial", "as-captured"])
@pytest.mark.parametrize("scale", [Fraction(10**300), Fraction(2**40, 1000)])
def test_a_scale_that_makes_messages_too_large_is_refused(scale: Fraction, algorithm: str) -> None:
    with pytest.raises(
        ValueError, match=r"^--scale-bytes makes more of 4,000 bytes than the 1,099,511,627,776"
    ):
        expand(job(allreduce(0)), algorithm, scale=scale)
    assert expand(job(allreduce(0)), algorithm, scale=Fraction(2**40, 4000)).ops[0].nbytes == 2**40


def test_one_iteration_leaves_out_the_others_and_what_it_waited_for_there() -> None:
    schedule = expand(LATE, iterations=(1,))
    assert [op.kind for op in schedule.ops] == ["compute", "allreduce"]
    assert schedule.gates == (Gate(0, 2, (), 7), Gate(1, 2, (0,)))


def test_without_compute_the_order_stays_and_the_gaps_go() -> None:
    assert expand(LATE, compute=Fraction(0)).gates == (Gate(1, 2, (0,), 0), Gate(2, 2, (1,)))


def test_what_a_rank_computes_is_an_operation_of_its_own_without_a_byte() -> None:
    op = expand(LATE, scale=Fraction(1, 2)).ops[1]
    assert (op.kind, op.nbytes, op.root, op.iteration) == ("compute", 0, 2, 1)


def test_computing_after_the_last_message_stays() -> None:
    schedule = expand(job(allreduce(0), computing(3, 0, 0)))
    assert schedule.gates == (Gate(1, 3, (0,), 7),)


def test_computing_alone_is_nothing_to_send() -> None:
    with pytest.raises(ValueError, match="nothing to send in iteration 1;"):
        expand(job(allreduce(0), computing(3, 1)), iterations=(1,))


def test_a_message_stays_one_send_whatever_the_algorithm() -> None:
    push = Message(src=1, dst=0, nbytes=999, start=Start(rank=1))
    (send,) = expand(job(push), "ring").sends
    assert (send.src, send.dst, send.nbytes, send.reduce) == (1, 0, 999, False)


def test_an_empty_selection_says_what_there_is() -> None:
    with pytest.raises(ValueError, match="the workload has iterations: 0, 1"):
        expand(job(allreduce(0), allreduce(1)), iterations=(5,))


def test_an_unknown_algorithm_says_which_are_known() -> None:
    with pytest.raises(ValueError, match="as-captured, ring, halving-doubling"):
        expand(made_allreduce(4, 400), "butterfly")


def test_switches_add_up_for_no_servers_that_answer_before_all_have_pushed() -> None:
    bounded = LATE.model_copy(update={"taxonomy": Taxonomy(scheduling="bounded", staleness=2)})
    with pytest.raises(NotServedError, match=r"answer a worker before all have pushed \(staleness 2\)$"):
        expand(bounded, "ina")


def test_ranks_of_which_each_sends_to_each_are_counted_before_any_send_is_made() -> None:
    """A ring has 2 (p - 1) steps of p sends."""
    begin_s = process_time()
    with pytest.raises(
        ValueError,
        match=r"16,000 ranks has up to 511,968,000 sends, .* choose at most [\d,]+ ranks, or another",
    ):
        expand(made_allreduce(16_000, 1 << 20), "ring")
    with pytest.raises(ValueError, match=r"16,000 ranks has up to 255,984,000 sends"):
        expand(made_collective("allgather", 16_000, 1 << 20), "hierarchical")
    assert process_time() - begin_s < 1


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


def test_a_workload_without_items_is_refused_in_plain_words() -> None:
    with pytest.raises(ValueError, match=r"^there is nothing to send: the workload has no items$"):
        expand(job())


def test_a_captured_broadcast_goes_by_its_tree() -> None:
    chain = Collective(kind="broadcast", tag=1, nbytes=100, root=1, algorithm="tree", down="chain")
    assert [(s.src, s.dst) for s in expand(job(chain)).sends] == [(1, 2), (2, 3), (3, 0)]


def test_another_algorithm_takes_the_place_of_the_captured_one() -> None:
    captured = allreduce(0).model_copy(update={"algorithm": "recursive-doubling"})
    assert expand(job(captured), "ring") == expand(job(allreduce(0)), "ring")


@pytest.mark.long
def test_more_sends_than_there_may_be_are_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """gloo cuts a TiB into pieces of 1 MiB, each of which goes round the ring of 7 in 2 * 6 sends."""
    for module in (expanding, carried):
        monkeypatch.setattr(module, "MAX_SENDS", 1_000_000)
    begin_s = process_time()
    with pytest.raises(ValueError, match=r"12,582,912 sends, .* choose another algorithm, such as ring$"):
        expand(made_allreduce(7, 1 << 40), "as-captured")
    with pytest.raises(
        ValueError,
        match=r"more than [\d,]+ sends, the most that fit in this machine's memory; choose",
    ):
        expand(made_allreduce(7, 1 << 36, 2), "as-captured")
    assert process_time() - begin_s < 1


@pytest.mark.parametrize(
    ("n_ranks", "hints"), [(5, NO_HINTS), (4, Hints(grid=(1, 4)))], ids=["a prime number", "a row"]
)
def test_ranks_in_one_row_are_refused_by_the_grid_that_they_are(n_ranks: int, hints: Hints) -> None:
    with pytest.raises(NotServedError, match=f"here {n_ranks} ranks are a grid of 1 by {n_ranks}: "):
        expand(made_allreduce(n_ranks, 4000), "2d-ring", hints=hints)


def late_pair(*, setup: int = 0) -> Workload:
    """Two allreduces, one after the other, and what rank 0 computes between; rank 2 begins 7 ms late."""
    made = made_allreduce(3, 1200, 2)
    first, second = made.items
    between = Compute(start=Start(rank=0, after=(0,)), duration_ns=4 * MS)
    assert isinstance(second, Collective)
    starts = (Start(rank=0, after=(1,)), *second.starts[1:])
    items = (
        first.model_copy(update={"iteration": setup}),
        between,
        second.model_copy(update={"starts": starts}),
    )
    return made.model_copy(update={"items": items, "late_ns": (0, 0, 7 * MS)})


def begun_late(schedule: Schedule) -> list[tuple[int, int, int]]:
    return [
        (gate.op, gate.rank, gate.gap_ns // MS)
        for gate in schedule.gates
        if not gate.after and schedule.ops[gate.op].kind != "compute"
    ]


def test_a_late_rank_begins_its_first_operation_late_whatever_its_others_compute() -> None:
    """Not where nothing is computed, nor where what ranks began with is left out."""
    assert begun_late(expand(late_pair())) == [(0, 2, 7)]
    assert begun_late(expand(late_pair(), compute=Fraction(3))) == [(0, 2, 7)]
    slow = straggling(late_pair(), {2: Fraction(5), 0: Fraction(5)}, Fraction(1, 2))
    assert begun_late(expand(slow)) == [(0, 2, 7)]
    assert begun_late(expand(late_pair(), compute=Fraction(0))) == []
    assert begun_late(expand(late_pair(setup=-1))) == []
    assert begun_late(expand(late_pair(setup=-1), iterations=(-1, 1))) == [(0, 2, 7)]
    assert begun_late(expand(late_pair(), iterations=(1,))) == []


def test_what_a_late_rank_computes_before_anything_is_complete_ends_later_too() -> None:
    made = late_pair()
    early = Compute(start=Start(rank=2), duration_ns=4 * MS, least_ns=4 * MS, most_ns=6 * MS)
    first = made.items[0]
    assert isinstance(first, Collective)
    starts = (*first.starts[:2], Start(rank=2, after=(0,)))
    items = (early, first.model_copy(update={"starts": starts}))
    gates = expand(made.model_copy(update={"items": items}), compute=Fraction(2)).gates
    assert gates[0] == Gate(0, 2, (), 15 * MS, 19 * MS)


def test_ranks_that_are_made_anew_begin_at_once() -> None:
    assert with_ranks(late_pair(), 4).workload.late_ns == ()

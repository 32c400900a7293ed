"""What workers wait for, how long, and what they say then."""

import numpy as np
import pytest

from gradwire.emu.aggregation.library import library
from gradwire.emu.aggregation.worker import Worker, WorkerFailed
from gradwire.planning.trees.tree import Tree
from tests.made_workers import DELAY_NS, Lab, begin, check, numbers, star, two_levels

SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("tree", "dead", "named"),
    [
        (star(4), {2}, "rank 2"),
        (star(4), {1, 3}, "ranks 1, 3"),
        (two_levels([2, 2]), {1}, "rank 1"),
        (two_levels([2, 3]), {2, 3, 4}, "some of ranks 2, 3, 4"),
    ],
)
def test_a_rank_that_dies_in_the_middle_is_named_within_five_seconds(
    tree: Tree, dead: set[int], named: str
) -> None:
    with Lab(tree) as lab:
        begin(lab, {rank: numbers(rank, 4000, 8) for rank in tree.givers})
        lab.run(lambda: lab.workers[0].counts().received > 100)
        lab.dead, since_ns = dead, lab.now_ns
        with pytest.raises(
            WorkerFailed,
            match=f"^a sum of aggregation job 7 has made no progress for 3.5 s: .* from {named}$",
        ) as failed:
            lab.run(lambda: False)
        assert failed.value.blamed == tuple(sorted(dead))
        assert 3.5 * SECOND_NS <= lab.now_ns - since_ns < 4.1 * SECOND_NS


def test_who_computes_for_long_before_it_begins_is_waited_for() -> None:
    data = {rank: numbers(rank, 100, 8) for rank in (0, 1)}
    with Lab(star(2)) as lab:
        into = {rank: np.zeros(100, np.float32) for rank in (0, 1)}
        lab.workers[0].begin(data[0], into[0], 100)
        lab.run(lambda: lab.now_ns > 60 * SECOND_NS)
        counts = lab.workers[0].counts()
        assert counts.retransmitted == pytest.approx(2 * 59, abs=8)  # every half second
        assert counts.statuses == counts.retransmitted
        lab.workers[1].begin(data[1], into[1], 100)
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8)


def test_a_round_trip_that_becomes_longer_than_the_timeout_is_learned() -> None:
    """Else each packet would be sent again, and never be a measure: its answer could be for either."""
    data = {rank: numbers(rank, 6400, 8) for rank in (0, 1)}
    with Lab(star(2)) as lab:
        into = begin(lab, data)
        lab.run(lambda: lab.workers[0].counts().received > 100)
        lab.delay_ns = 40_000_000  # the timeout is 10 ms and a little
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8)
        assert all(worker.counts().retransmitted < 200 for worker in lab.workers.values())  # of 700


@pytest.mark.long
@pytest.mark.parametrize("slots", [8, 64])
def test_a_loss_costs_the_slot_a_few_round_trips_and_no_timeout(slots: int) -> None:
    """A timeout is 10 ms at least; a round trip, and so a round of all slots, is 0.2 to 0.4 ms."""
    tree, n_chunks = two_levels([2, 2, 2, 2], slots=slots), 2000
    with Lab(tree, loss=0.01, seed=3) as lab:
        data = {rank: numbers(rank, 8 * n_chunks, 8) for rank in tree.givers}
        begun_ns, into = lab.now_ns, begin(lab, data)
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8, slots)
        n_rounds = n_chunks / slots
        ends_ns = 600_000_000  # the stream's beginning and its last chunks, which nothing overtakes
        assert lab.now_ns - begun_ns < ends_ns + n_rounds * 5_000_000


@pytest.mark.long
def test_heavy_loss_does_not_make_timeouts_grow_without_end() -> None:
    """Half of the chunks go again somewhere; those that go once say how long a round trip is."""
    tree = two_levels([2, 2, 2, 2], slots=64)
    with Lab(tree, loss=0.05, seed=3) as lab:
        data = {rank: numbers(rank, 16_000, 8) for rank in tree.givers}
        begun_ns, into = lab.now_ns, begin(lab, data)
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8, 64)
        assert lab.now_ns - begun_ns < 3 * SECOND_NS


def test_switches_that_do_not_answer_at_all_are_told_of() -> None:
    with Lab(star(2)) as lab:
        lab.dead = {0, 1}
        begin(lab, {0: numbers(0, 8, 8), 1: numbers(1, 8, 8)})
        with pytest.raises(WorkerFailed, match=r"^no switch answers aggregation job 7 for 3.5 s"):
            lab.run(lambda: False)


def test_a_rank_that_was_restarted_spoils_no_sum() -> None:
    """It begins in the middle of an epoch: the switch refuses its packets, others learn who is missing."""
    with Lab(star(3)) as lab:
        into = begin(lab, {rank: numbers(rank, 4000, 8) for rank in range(3)})
        lab.run(lambda: lab.workers[0].counts().received > 100)
        old, sock = lab.workers[2], lab.workers[2]._sock
        lab.workers[2] = Worker(sock, lab.tree, 2, DELAY_NS, ranks_behind=lab.behind)
        old.close()
        lab.workers[2].begin(numbers(2, 4000, 8), into[2], 4000)
        with pytest.raises(WorkerFailed, match="nothing comes from rank 2"):
            lab.run(lambda: False)
        assert np.isnan(into[0]).any()
        lab.workers[2].close()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_an_error_with_its_place(wrong: float) -> None:
    data = {rank: numbers(rank, 400, 8) for rank in (0, 1)}
    data[1][321] = wrong
    with Lab(star(2)) as lab:
        begin(lab, data)
        with pytest.raises(WorkerFailed, match=r"^element 321 of sum 0 of aggregation job 7 is not finite"):
            lab.run(lambda: all(lab.finished.values()))


def test_arrays_that_cannot_be_are_refused_before_anything_is_sent() -> None:
    array = np.zeros(16, np.float32)
    with Lab(star(3, givers=(0, 1), takers=(1, 2))) as lab:
        for rank, data, into, reason in (
            (0, None, None, "data: rank 0 of aggregation job 7 must pass an array"),
            (0, array, array, "into: rank 0 of aggregation job 7 must pass None"),
            (1, array, array, "into shares memory with data"),
            (1, array, array[:8].copy(), "expected 16 contiguous float32 numbers"),
            (2, None, np.zeros(16), "float64"),
            (2, None, np.zeros(32, np.float32)[::2], "16 contiguous float32 numbers"),
        ):
            with pytest.raises(ValueError, match=reason):
                lab.workers[rank].begin(data, into, 16)  # type: ignore[arg-type]
        assert all(worker.due_ns is None for worker in lab.workers.values())
        lab.workers[0].close()
        with pytest.raises(ValueError, match="closed"):
            lab.workers[0].step(0)
        with pytest.raises(ValueError, match="rank 5 is not in the tree of aggregation job 7"):
            Worker(lab.peers[0], lab.tree, 5, 0, ranks_behind=lab.behind)


def test_chunk_numbers_do_not_start_again_from_zero() -> None:
    """2^31 chunks are more than a test can have data for: their addresses are never looked at."""
    with Lab(star(2)) as lab:
        begin(lab, {rank: numbers(rank, 8, 8) for rank in (0, 1)})
        lab.run(lambda: all(lab.finished.values()))
        worker, c = lab.workers[0], library()
        used = 2 + 1  # prime and data, and the next prime
        assert c.worker_begin(worker._worker, None, None, None, 8 * (2**31 - 1 - used)) == 1
        assert worker.step(lab.now_ns) == []
        assert c.worker_begin(worker._worker, None, None, None, 0) == 2
        with pytest.raises(
            WorkerFailed,
            match=r"^aggregation job 7 has used up its chunk numbers; start it again$",
        ):
            worker.step(lab.now_ns)

"""Trees that are built again in the middle of sums, and what is kept for that."""

import pytest

from gradwire.planning.trees.tree import Tree
from gradwire.traces.framing.aggregation import PacketKind, decode
from tests.made_workers import DELAY_NS, Lab, begin, check, numbers, star, two_levels


@pytest.mark.broad(5)
@pytest.mark.parametrize("loss", [0, 0.1])
@pytest.mark.parametrize("tree", [star(3), two_levels([2, 2])], ids=["one switch", "two levels"])
@pytest.mark.parametrize("at", [1, 10, 25, 60, 100])
def test_sums_come_out_right_from_a_tree_built_anew_in_the_middle(tree: Tree, loss: float, at: int) -> None:
    """Also where some ranks have more of the results than others; what is finished is not written again."""
    with Lab(tree, loss=loss, jitter_ns=8 * DELAY_NS, seed=at) as lab:
        data = [{rank: numbers(10 * i + rank, 100, 8) for rank in tree.givers} for i in range(4)]
        into = [begin(lab, each) for each in data]
        marked: set[tuple[int, int]] = set()
        for n in range(10**6):
            if all(len(done) == 4 for done in lab.finished.values()):
                break
            if n in (at, 3 * at):
                lab.rebuild()
            lab.step()
            for rank, done in lab.finished.items():
                for position in set(done) - {position for other, position in marked if other == rank}:
                    check(data[position], {rank: into[position][rank]}, 8)
                    into[position][rank][:] = rank  # the caller's again
                    marked.add((rank, position))
        for rank in tree.takers:
            assert sorted(lab.finished[rank]) == [0, 1, 2, 3]
            assert all((each[rank] == rank).all() for each in into)
        assert all(worker.counts().moves for worker in lab.workers.values())


@pytest.mark.broad(4)
@pytest.mark.parametrize("loss", [0, 0.02])
@pytest.mark.parametrize("at", [1, 30, 200, 399])
def test_a_sum_goes_on_where_somebody_lacks_a_result_and_all_have_the_same_bits(loss: float, at: int) -> None:
    """A block that was added in one epoch for some ranks, and in the next one for others, is the same sum."""
    tree, n_chunks = two_levels([2, 2], slots=16), 400
    data = {rank: numbers(rank, 8 * n_chunks, 8) for rank in tree.givers}
    with Lab(tree, loss=loss, jitter_ns=8 * DELAY_NS, seed=at) as lab:
        into = begin(lab, data)
        lab.run(lambda: max(worker.counts().received for worker in lab.workers.values()) >= at)
        lab.rebuild()
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8, tree.slots)
        assert len({into[rank].tobytes() for rank in tree.takers}) == 1
        for worker in lab.workers.values():
            assert worker.counts().moves == 1
            # Slots wait for lost packets one by one, so some are a few windows ahead of what goes again.
            assert worker.counts().sent <= n_chunks + 8 * tree.slots
    with Lab(tree) as lab:
        undisturbed = begin(lab, data)
        lab.run(lambda: all(lab.finished.values()))
        assert undisturbed[0].tobytes() == into[0].tobytes()


def test_an_idle_rank_hears_of_the_new_tree_and_contributes_again() -> None:
    """Rank 0 has the sum, the last results of rank 1 are lost with the old tree."""
    data = {rank: numbers(rank, 100, 8) for rank in (0, 1)}
    with Lab(star(2)) as lab:
        into = begin(lab, data)
        real = lab.deliver

        def deliver(rank: int, packet: bytes) -> None:
            header = decode(packet)
            assert header is not None
            if rank == 0 or header.chunk < 10:  # of 15; no later chunk waits for these
                real(rank, packet)

        lab.deliver = deliver  # type: ignore[method-assign]
        lab.run(lambda: bool(lab.finished[0]))
        lab.deliver = real  # type: ignore[method-assign]
        assert not lab.finished[1]
        check(data, {0: into[0]}, 8)
        into[0][:] = 5  # the caller's again
        lab.rebuild()
        lab.run(lambda: bool(lab.finished[1]))
        check(data, {1: into[1]}, 8)
        assert (into[0] == 5).all()
        assert lab.workers[0].counts().probes == 1


def test_what_is_forgotten_while_it_is_contributed_again_is_kept_until_that_is_over() -> None:
    """Rank 1 has what it lacked before rank 0, which helped it, has the last results."""
    with Lab(star(2)) as lab:
        begin(lab, {rank: numbers(rank, 100, 8) for rank in (0, 1)})
        lost_at, real = 1, lab.deliver

        def deliver(rank: int, packet: bytes) -> None:
            header = decode(packet)
            assert header is not None
            if rank != lost_at or header.chunk < 10:
                real(rank, packet)

        lab.deliver = deliver  # type: ignore[method-assign]
        lab.run(lambda: bool(lab.finished[0]))
        lab.rebuild()
        lost_at = 0
        lab.run(lambda: bool(lab.finished[1]))
        for worker in lab.workers.values():
            worker.forget()
        lost_at = 2
        data = {rank: numbers(10 + rank, 100, 8) for rank in (0, 1)}
        into = begin(lab, data)
        lab.run(lambda: lab.finished == {0: [0, 1], 1: [0, 1]})
        check(data, into, 8)
        for worker in lab.workers.values():
            worker.forget()
            assert not worker._held


def test_a_prime_result_that_an_earlier_epoch_brought_is_still_known() -> None:
    """In epoch 0 only rank 0 has it, in epoch 1 only rank 1; so epoch 2 begins after it."""
    data = {rank: numbers(rank, 100, 8) for rank in (0, 1)}
    with Lab(star(2)) as lab:
        into = begin(lab, data)
        has_prime, real = 0, lab.deliver

        def deliver(rank: int, packet: bytes) -> None:
            header = decode(packet)
            assert header is not None
            is_for_nobody = header.kind == PacketKind.RESULT and header.chunk >= 1
            if not is_for_nobody or (rank == has_prime and header.chunk == 1):
                real(rank, packet)

        lab.deliver = deliver  # type: ignore[method-assign]
        lab.run(lambda: lab.workers[0].counts().received == 2)  # sync, prime
        has_prime = 1
        lab.rebuild()
        lab.run(lambda: lab.workers[1].counts().received == 3)  # sync; sync, prime
        lab.deliver = real  # type: ignore[method-assign]
        lab.rebuild()
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8)


def test_who_was_helping_when_the_tree_moved_again_asks_for_nothing_that_it_has() -> None:
    """Rank 0 has heard little in the second epoch, but all in the first; rank 1 has forgotten the sum."""
    with Lab(star(2)) as lab:
        begin(lab, {rank: numbers(rank, 100, 8) for rank in (0, 1)})
        lost_at, heard, real = 1, 10, lab.deliver

        def deliver(rank: int, packet: bytes) -> None:
            header = decode(packet)
            assert header is not None
            if rank != lost_at or header.chunk < heard:
                real(rank, packet)

        lab.deliver = deliver  # type: ignore[method-assign]
        lab.run(lambda: bool(lab.finished[0]))
        lost_at, heard = 0, 1  # the sync only
        lab.rebuild()
        lab.run(lambda: bool(lab.finished[1]))
        for worker in lab.workers.values():
            worker.forget()
        assert [bool(lab.workers[rank]._held) for rank in (0, 1)] == [True, False]
        lab.rebuild()
        lab.deliver = real  # type: ignore[method-assign]
        data = {rank: numbers(10 + rank, 100, 8) for rank in (0, 1)}
        into = begin(lab, data)
        lab.run(lambda: lab.finished == {0: [0, 1], 1: [0, 1]})
        check(data, into, 8)


def test_positions_go_on_after_forgetting_what_all_have() -> None:
    with Lab(two_levels([1, 2])) as lab:
        for repeat in range(3):
            data = {rank: numbers(10 * repeat + rank, 50, 8) for rank in lab.tree.givers}
            into = begin(lab, data)
            lab.run(lambda n=repeat + 1: {len(done) for done in lab.finished.values()} == {n})  # type: ignore[misc]
            assert all(done[-1] == repeat for done in lab.finished.values())
            check(data, into, 8)
            if repeat == 1:
                lab.rebuild()
            for worker in lab.workers.values():
                worker.forget()
                assert worker.due_ns is None or repeat == 1

"""Collectives are checked by what they achieve, not by the list of sends they emit."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from gradwire.traces.schedules.algorithms.doubling import halving_doubling
from gradwire.traces.schedules.algorithms.gloo import gloo_ring, gloo_ring_sends
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.algorithms.trees import broadcast
from gradwire.traces.schedules.kinds import CONTRACTS
from gradwire.traces.schedules.schedule import Schedule, sent_nbytes
from gradwire.traces.schedules.sends import Send
from tests.made_orders import held, held_pieces

Allreduce = Callable[[int, int], Sequence[Send]]
POWERS: list[tuple[Allreduce, int]] = [(halving_doubling, n) for n in (2, 4, 8, 16)]
ANY: list[tuple[Allreduce, int]] = [
    (algorithm, n) for algorithm in (ring, gloo_ring) for n in (2, 3, 4, 7, 8, 16)
]


@pytest.mark.parametrize(("algorithm", "n_ranks"), ANY + POWERS)
@pytest.mark.parametrize("nbytes", [4, 1000, 340_008])
def test_allreduce_adds_every_rank_exactly_once(algorithm: Allreduce, n_ranks: int, nbytes: int) -> None:
    sends = algorithm(n_ranks, nbytes)
    everyone_once = Counter(range(n_ranks))
    for rank in held(sends, n_ranks, nbytes):
        assert all(piece == everyone_once for piece in rank.values())


@pytest.mark.parametrize(("algorithm", "n_ranks"), ANY + POWERS)
def test_allreduce_is_bandwidth_optimal(algorithm: Allreduce, n_ranks: int) -> None:
    nbytes = n_ranks * 8400  # divides into whole elements for every algorithm
    sends = algorithm(n_ranks, nbytes)
    sent = sent_nbytes(Schedule.of(n_ranks, (), tuple(sends)))
    assert set(sent) == {2 * (n_ranks - 1) * nbytes // n_ranks}


@pytest.mark.parametrize(("algorithm", "n_ranks"), ANY + POWERS)
def test_what_a_send_waits_for_is_known_to_the_rank_that_waits(algorithm: Allreduce, n_ranks: int) -> None:
    sends = algorithm(n_ranks, 34_000 * 4)
    for send in sends:
        assert all(send.src in (sends[other].src, sends[other].dst) for other in send.needs)
        assert all(send.dst in (sends[other].src, sends[other].dst) for other in send.ready)


def test_gloo_cuts_a_bucket_as_its_captures_show() -> None:
    """8 ranks, digits MLP: 28 segments of 21,252 B sent per rank, the buffer's last one short."""
    sends = gloo_ring(8, 340_008)
    per_rank = Counter(send.src for send in sends)
    assert set(per_rank.values()) == {28}
    assert Counter(send.nbytes for send in sends) == {21_252: 210, 340_008 - 15 * 21_252: 14}
    assert all(send.dst == (send.src - 1) % 8 for send in sends)


def test_gloo_cuts_a_large_bucket_in_segments_below_1_mib() -> None:
    """ResNet-18, 4 ranks: 28 segments of 946,252 B, 42 of them sent per rank."""
    sends = gloo_ring(4, 26_494_976)
    assert max(send.nbytes for send in sends) == 946_252
    assert Counter(send.src for send in sends)[0] == 42


@pytest.mark.parametrize("n_ranks", [2, 3, 8])
def test_gloos_all_gather_begins_when_all_of_the_ranks_reduce_scatter_is_done(n_ranks: int) -> None:
    sends = gloo_ring(n_ranks, 340_008)
    before: list[set[int]] = []  # all that must be done before each send leaves
    for send in sends:
        before.append(set(send.needs).union(*(before[other] for other in send.needs)))
    for number, send in enumerate(sends):
        if not send.reduce:
            mine = {i for i, s in enumerate(sends) if s.reduce and send.src in (s.src, s.dst)}
            assert mine <= before[number]


def test_halving_doubling_begins_with_the_neighbour_and_half_the_vector() -> None:
    first = [send for send in halving_doubling(8, 8000) if send.step == 0]
    assert all(send.dst == send.src ^ 1 and send.nbytes == 4000 for send in first)


@pytest.mark.parametrize("n_ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("root", [0, 1])
def test_a_broadcast_brings_the_roots_data_to_everybody(n_ranks: int, root: int) -> None:
    sends = broadcast(n_ranks, 100, root)
    assert len(sends) == n_ranks - 1
    for rank in held(sends, n_ranks, 100):
        assert rank[0] == Counter([root])


@pytest.mark.parametrize("algorithm", [ring, halving_doubling, gloo_ring])
def test_one_rank_is_refused(algorithm: Allreduce) -> None:
    with pytest.raises(ValueError, match="at least 2 ranks"):
        algorithm(1, 1000)


def test_half_an_element_is_refused() -> None:
    with pytest.raises(ValueError, match="1002 is not a multiple of 4"):
        ring(4, 1002)


def test_busbw_factors_are_nccls() -> None:
    assert CONTRACTS["allreduce"].busbw_factor(8) == 1.75
    assert CONTRACTS["broadcast"].busbw_factor(8) == CONTRACTS["reduce"].busbw_factor(8) == 1.0
    for kind in ("reducescatter", "allgather", "alltoall"):
        assert CONTRACTS[kind].busbw_factor(8) == 0.875


def test_sends_that_come_before_what_they_need_are_refused() -> None:
    with pytest.raises(ValueError, match="waits for a later send"):
        held_pieces([Send(0, 0, 1, 0, 10, True, needs=(1,)), Send(0, 1, 0, 0, 10, True)], 2, [0])


@pytest.mark.parametrize("n_ranks", [2, 3, 8, 13])
@pytest.mark.parametrize("nbytes", [4, 8, 100, 340_008, 26_494_976])
def test_the_sends_of_gloos_ring_can_be_counted_before_they_are_made(n_ranks: int, nbytes: int) -> None:
    for most in (4, 1 << 16, 1 << 20):
        if nbytes // most < 10_000:
            made = len(gloo_ring(n_ranks, nbytes, max_segment_nbytes=most))
            assert gloo_ring_sends(n_ranks, nbytes, most) == made

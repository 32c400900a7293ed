"""Workers between switches made of the model: every sum is right, whatever cables do."""

from collections.abc import Sequence

import numpy as np
import pytest

from gradwire.emu.replay.sums import agreed, block_exponents
from gradwire.traces.framing.aggregation import NO_PEAK, decode
from tests.made_workers import DELAY_NS, Lab, begin, check, numbers, star, two_levels


def add_up(lab: Lab, sizes: Sequence[int], *, until: int | None = None) -> None:
    """All the sums at once; each is right at every taker."""
    elements = lab.tree.elements
    all_data = [
        {rank: numbers(100 * i + rank, n, elements) for rank in lab.tree.givers} for i, n in enumerate(sizes)
    ]
    results = [begin(lab, data) for data in all_data]
    lab.run(lambda: all(len(done) == len(sizes) for done in lab.finished.values()))
    assert all(sorted(done) == list(range(len(sizes))) for done in lab.finished.values())
    for data, into in zip(all_data, results, strict=True):
        check(data, into, elements, lab.tree.slots)


TREES = {
    "one switch": star(3),
    "two levels": two_levels([2, 3, 1]),
    "two workers give, one server takes": star(3, givers=(0, 1), takers=(2,)),
    "one slot": star(2, slots=1),
}


@pytest.mark.broad(4)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("loss", [0, 0.01, 0.05, 0.2])
def test_every_sum_is_exactly_that_of_the_scaled_integers(name: str, loss: float) -> None:
    with Lab(TREES[name], loss=loss, doubled=loss, jitter_ns=4 * DELAY_NS, seed=5) as lab:
        add_up(lab, [400, 8, 1, 77, 0, 64])


@pytest.mark.parametrize("name", TREES)
def test_without_loss_each_packet_goes_once(name: str) -> None:
    with Lab(TREES[name]) as lab:
        add_up(lab, [400, 77])
        n_chunks = 1 + (1 + 50) + (1 + 10)
        for worker in lab.workers.values():
            counts = worker.counts()
            assert (counts.sent, counts.received) == (n_chunks, n_chunks)
            assert (counts.retransmitted, counts.duplicates, counts.statuses, counts.moves) == (0, 0, 0, 0)


def test_a_lost_packet_holds_up_no_other_slot() -> None:
    """The chunks of one slot cannot arrive for a while; all other slots finish meanwhile."""
    tree = star(2)
    with Lab(tree) as lab:
        begin(lab, {rank: numbers(rank, 800, 8) for rank in (0, 1)})
        real, blocked = lab.from_host, 40

        def from_host(rank: int, packet: bytes) -> None:
            header = decode(packet)
            assert header is not None
            if header.chunk != blocked:
                real(rank, packet)

        lab.from_host = from_host  # type: ignore[method-assign]
        lab.run(lambda: lab.now_ns > 2 * 10**9)
        in_slot = len(range(blocked, 102, tree.slots))  # chunks 0 to 101: sync, prime, 100 blocks
        assert [worker.counts().received for worker in lab.workers.values()] == [102 - in_slot] * 2


@pytest.mark.parametrize(
    "values",
    [
        [3.4028235e38, -3.4028235e38],  # the largest there is: the sum of two has no room, as in float32
        [1e-45, -1e-45, 3e-45],  # the smallest there is
        [1.1754944e-38, 1e-45],
        [0.0, -0.0],
        [1.0, 2.0**-24, 2.0**-30, -1.0],
        [2.0**-126, 0.1],
    ],
)
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_numbers_at_the_edge_of_float32_come_out_right(values: list[float], n_ranks: int) -> None:
    data = {rank: np.roll(np.float32(np.resize(values, 21)), rank) for rank in range(n_ranks)}
    with Lab(star(n_ranks)) as lab:
        into = begin(lab, data)
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8)


def test_the_agreed_exponents_are_those_of_all_givers_together() -> None:
    data = {rank: numbers(rank, 333, 8) for rank in range(3)}
    for each in data.values():
        each[160:168] = 0
        each[240:248] = 3 * 2.0**-149  # all of them subnormal: below 2^-147
    with Lab(star(3)) as lab:
        begin(lab, data)
        lab.run(lambda: all(lab.finished.values()))
        expected = agreed([block_exponents(each, 8) for each in data.values()], 8)
        assert expected[20] == NO_PEAK
        assert expected[30] == -147
        for worker in lab.workers.values():
            np.testing.assert_array_equal(worker.scales(0), expected)

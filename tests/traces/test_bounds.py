"""The rates that packets show, and what set them: from made trains of packets whose link's rate is known."""

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
import pytest

from gradwire.traces.analysis.bounds import Bound, held_bounds
from gradwire.traces.analysis.bursts import Series
from gradwire.traces.analysis.spacing import _reaching, wire_nbytes
from tests.made_series import FRAME, HOST, MS, PEER, made_by_a_processor, merged, through_link


def bounds(
    series: Sequence[Series],
    known_bps: Sequence[int] = (),
    most_bps: float = inf,
    acknowledged: Sequence[Series] = (),
) -> list[Bound]:
    return [one.bound for one in held_bounds(series, known_bps, most_bps, acknowledged)]


def links(found: Sequence[Bound]) -> list[Bound]:
    return [one for one in found if one.bound == "link"]


def test_a_merged_packet_costs_the_wire_a_header_for_each_segment() -> None:
    sizes = np.array([54, 66, 1514, 1515, 66 + 2 * 1448, 66 + 45 * 1448], np.int64)
    assert wire_nbytes(sizes).tolist() == [54, 66, 1514, 1515 + 66, 2 * 1514, 45 * 1514]


@pytest.mark.parametrize("rate_bps", [5e6, 25e6, 80e6])
def test_the_rate_of_a_full_link_is_found_with_its_share_of_the_time(rate_bps: float) -> None:
    """Held for the bursts, over the bursts and the rests between them that are short."""
    (one,) = links(bounds([through_link(rate_bps)]))
    assert one.rate_bps == pytest.approx(rate_bps, rel=0.02)
    assert one.dispersed_share > 0.3
    burst_ns = 40 * 120 * FRAME * 8e9 / rate_bps
    assert one.held_share * one.in_flight_ns == pytest.approx(burst_ns, rel=0.05)
    assert one.utilisation is not None
    assert one.utilisation <= 1


@pytest.mark.parametrize("at_last", [True, False])
@pytest.mark.parametrize("frames", [2, 4, 10])
@pytest.mark.parametrize("rate_bps", [25e6, 100e6])
def test_merging_packets_does_not_change_the_rate(rate_bps: float, frames: int, *, at_last: bool) -> None:
    plain = through_link(rate_bps)
    (before,) = links(bounds([plain]))
    (after,) = links(bounds([merged(plain, frames, at_last=at_last)]))
    assert before.rate_bps is not None
    assert after.rate_bps == pytest.approx(before.rate_bps, rel=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_processor_spaces_is_no_link(seed: int) -> None:
    assert links(bounds([made_by_a_processor(seed)])) == []


def test_pairs_at_one_rate_without_a_plateau_are_no_link() -> None:
    """Two packets as a link of 100 Mb/s spaces them, then a rest of its own length: nothing is held."""
    random = np.random.default_rng(1)
    rests = random.uniform(3, 40, 800) * MS
    pair_ns = FRAME * 8e9 / 100e6
    first = np.cumsum(rests + pair_ns)
    time_ns = np.sort(np.concatenate([first, first + pair_ns])).astype(np.int64)
    found = bounds([Series(HOST, "out", time_ns, np.full(len(time_ns), FRAME, np.int64))])
    assert [one.bound for one in found] == ["none"]


def test_the_slower_link_is_found_beside_the_hosts_own() -> None:
    """40 % of the bytes leave at the host's 100 Mb/s, the rest at what an uplink of 40 Mb/s lets pass."""
    fast = through_link(100e6, bursts=24, frames=300)
    slow = through_link(40e6, bursts=36, frames=300, seed=3)
    after_ns = int(fast.time_ns[-1]) + 30 * MS
    both = Series(
        HOST,
        "in",
        np.concatenate([fast.time_ns, slow.time_ns + after_ns]),
        np.concatenate([fast.nbytes, slow.nbytes]),
    )
    found = links(bounds([both]))
    assert [round((one.rate_bps or 0) / 1e6) for one in found] == [40, 100]
    assert found[0].utilisation is None  # not all bytes crossed that link


def test_half_of_another_hosts_link_is_a_share_of_it() -> None:
    """Two workers send to one server, packet by packet in turn, so each has half of the server's link."""
    into = through_link(20e6, direction="in", host=PEER)
    worker = Series(HOST, "out", into.time_ns[::2], into.nbytes[::2])
    found = bounds([worker, into])
    of_worker = [one for one in found if one.host == HOST]
    assert [one.bound for one in of_worker] == ["share"]
    assert of_worker[0].rate_bps == pytest.approx(10e6, rel=0.02)
    assert PEER in of_worker[0].evidence


def test_acknowledgements_add_no_second_link_of_one_rate() -> None:
    one = through_link(40e6)
    later = one._replace(time_ns=one.time_ns + 200_000)
    found = bounds([one], acknowledged=[later])
    assert [bound.evidence.startswith("by") for bound in links(found)] == [False]


def test_acknowledgements_that_a_processor_spaces_show_no_link() -> None:
    one = made_by_a_processor()
    assert links(bounds([one], acknowledged=[one])) == []


def test_a_rate_above_the_hosts_links_is_called_an_error() -> None:
    found = bounds([through_link(80e6)], known_bps=[50_000_000], most_bps=50e6)
    assert links(found) == []
    assert "an error of gradwire's" in found[0].evidence


def hostile() -> Iterator[np.ndarray]:
    yield np.zeros(1000, np.int64)
    yield np.arange(1000, dtype=np.int64)
    yield np.sort(np.random.default_rng(5).integers(0, 1 << 62, 1000))
    yield np.concatenate([np.zeros(500, np.int64), np.full(500, (1 << 62) - 1, np.int64)])


@pytest.mark.parametrize("size", [1000, 1514, 65_535, (1 << 31) - 1])
def test_times_of_any_kind_are_survived(size: int) -> None:
    for time_ns in hostile():
        found = bounds([Series(HOST, "out", time_ns, np.full(len(time_ns), size, np.int64))])
        assert all(0 <= one.held_share <= 1 and 0 <= one.dispersed_share <= 1 for one in found)
        assert {one.bound for one in found} <= {"link", "none", "unknown"}


@pytest.mark.parametrize("seed", range(20))
def test_the_first_value_that_reaches_another_is_where_numpy_finds_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    values, least = np.sort(draw.integers(0, 60, seed) / 2), np.sort(draw.integers(-5, 70, 17) / 2)
    assert _reaching(values, least).tolist() == np.searchsorted(values, least).tolist()

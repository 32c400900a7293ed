"""Buffers and segments keep their proportion to the link rate, within what a kernel takes."""

import pytest

from emu.fabrics.spec import parse_fabric
from emu.network.transport import (
    MAX_GSO_NBYTES,
    MIN_RCVBUF_NBYTES,
    fabric_transport,
    longest_round_trip_s,
    transport_for,
)


@pytest.mark.parametrize("rate_bps", [50_000_000, 100_000_000, 200_000_000])
def test_a_segment_lasts_two_milliseconds(rate_bps: int) -> None:
    assert transport_for(rate_bps).gso_max_nbytes * 8 / rate_bps == pytest.approx(0.002)


def test_fast_links_get_the_largest_segment_and_slow_ones_two_packets() -> None:
    assert transport_for(10**10).gso_max_nbytes == MAX_GSO_NBYTES
    assert transport_for(1_000_000).gso_max_nbytes == 3000


@pytest.mark.parametrize(("n_hosts", "segment_s"), [(2, 0.002), (16, 0.002), (24, 0.003), (32, 0.004)])
def test_all_hosts_together_send_at_most_8000_segments_a_second(n_hosts: int, segment_s: float) -> None:
    made = transport_for(50_000_000, n_hosts=n_hosts)
    assert made.gso_max_nbytes * 8 / 50e6 == pytest.approx(segment_s)
    assert n_hosts / segment_s <= 8000 + 1e-6
    assert made.rcvbuf_nbytes >= 10 * made.gso_max_nbytes


def test_receive_buffers_grow_with_the_rate_from_a_least_size() -> None:
    assert transport_for(1_000_000).rcvbuf_nbytes == MIN_RCVBUF_NBYTES
    assert transport_for(100_000_000).rcvbuf_nbytes == 250_000
    assert transport_for(400_000_000).rcvbuf_nbytes == 1_000_000


@pytest.mark.parametrize(
    ("spec", "n_cables"),
    [("star:hosts=3", 2), ("leaf-spine:leaves=2,spines=1,hosts=1", 4), ("fat-tree:k=4", 6)],
)
def test_the_longest_round_trip_is_that_over_all_tiers_and_back(spec: str, n_cables: int) -> None:
    assert longest_round_trip_s(parse_fabric(spec)) == 0
    assert longest_round_trip_s(parse_fabric(f"{spec},delay=2ms")) == pytest.approx(2 * n_cables * 0.002)


def test_a_delay_that_is_long_makes_room_for_what_is_under_way() -> None:
    near, far = (fabric_transport(parse_fabric(f"star:hosts=2,delay={delay}")) for delay in ("0", "5ms"))
    assert (near.rcvbuf_nbytes, far.rcvbuf_nbytes) == (250_000, 500_000)
    assert near.gso_max_nbytes == far.gso_max_nbytes

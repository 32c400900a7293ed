"""Buffers and segments keep their proportion to the link rate, within what a kernel takes."""

import pytest

from emu.transport import MAX_GSO_NBYTES, MIN_RCVBUF_NBYTES, transport_for


@pytest.mark.parametrize("rate_bps", [50_000_000, 100_000_000, 200_000_000])
def test_a_segment_lasts_two_milliseconds(rate_bps: int) -> None:
    assert transport_for(rate_bps).gso_max_nbytes * 8 / rate_bps == pytest.approx(0.002)


def test_fast_links_get_the_largest_segment_and_slow_ones_two_packets() -> None:
    assert transport_for(10**10).gso_max_nbytes == MAX_GSO_NBYTES
    assert transport_for(1_000_000).gso_max_nbytes == 3000


def test_receive_buffers_grow_with_the_rate_from_a_least_size() -> None:
    assert transport_for(1_000_000).rcvbuf_nbytes == MIN_RCVBUF_NBYTES
    assert transport_for(100_000_000).rcvbuf_nbytes == 250_000
    assert transport_for(400_000_000).rcvbuf_nbytes == 1_000_000

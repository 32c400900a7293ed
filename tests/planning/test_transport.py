"""Buffers and segments keep their proportion to the link rate, within what a kernel takes."""

import pytest

from gradwire.emu.network.shaping import links_batch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.hosts import LATE_S
from gradwire.planning.transport import (
    BURST_S,
    MAX_GSO_NBYTES,
    MIN_RCVBUF_NBYTES,
    buffered_nbytes,
    fabric_transport,
    held_nbytes,
    initial_window_packets,
    longest_round_trip_s,
    payload_efficiency,
    port_burst_nbytes,
    small_queue_nbytes,
    tcp_payload_nbytes,
    transport_for,
    unsent_nbytes,
)


@pytest.mark.parametrize(("mtu", "payload", "share"), [(1500, 1448, 1448 / 1514), (9000, 8948, 8948 / 9014)])
def test_a_full_frame_holds_the_mtu_less_52_bytes_and_takes_14_more(
    mtu: int, payload: int, share: float
) -> None:
    assert tcp_payload_nbytes(mtu) == payload
    assert payload_efficiency(mtu) == share


@pytest.mark.parametrize("mtu", [1500, 4200, 9000])
@pytest.mark.parametrize("rate", ["1M", "20M", "100M", "1G", "100G"])
@pytest.mark.parametrize("queue", ["auto", "20KB"])
def test_at_any_rate_a_segment_is_two_packets_and_a_window_five_segments(
    mtu: int, rate: str, queue: str
) -> None:
    made = fabric_transport(parse_fabric(f"star:hosts=2,rate={rate},queue={queue},mtu={mtu}"))
    assert 2 * mtu <= made.gso_max_nbytes <= MAX_GSO_NBYTES
    assert made.rcvbuf_nbytes >= max(5 * made.gso_max_nbytes, MIN_RCVBUF_NBYTES)
    assert 2 * made.sndbuf_nbytes >= 5 * made.gso_max_nbytes


@pytest.mark.parametrize("rate", ["1M", "20M", "100M", "1G"])
def test_a_congestion_window_is_eight_times_what_a_receiver_holds(rate: str) -> None:
    """Linux doubles SO_RCVBUF, and a window in packets of 1,448 bytes is at most that."""
    fabric = parse_fabric(f"star:hosts=2,rate={rate}")
    transport = fabric_transport(fabric)
    packets = initial_window_packets(fabric, transport)
    assert packets is not None
    assert packets % 8 == 0
    assert (packets / 8 - 1) * 1448 < 2 * transport.rcvbuf_nbytes <= packets / 8 * 1448


@pytest.mark.parametrize("cables", ["queue=20KB", "delay=10us"])
def test_where_a_queue_may_overflow_or_a_cable_delays_tcp_finds_its_window_out(cables: str) -> None:
    fabric = parse_fabric(f"star:hosts=2,rate=100M,{cables}")
    assert initial_window_packets(fabric, fabric_transport(fabric)) is None


@pytest.mark.parametrize("overhead_nbytes", [768, 896, 1280])
@pytest.mark.parametrize("segment_nbytes", [2 * 1448, 3 * 1448, 24_616, 65_160])
def test_a_third_segment_may_leave_and_a_fourth_not(segment_nbytes: int, overhead_nbytes: int) -> None:
    """Whatever the kernel needs for each, from SKB_TRUESIZE of its headers to a kilobyte more."""
    limit_nbytes = small_queue_nbytes(segment_nbytes)
    assert 2 * (segment_nbytes + overhead_nbytes) + 1 <= limit_nbytes < 3 * (segment_nbytes + overhead_nbytes)


@pytest.mark.parametrize("rate_bps", [50_000_000, 100_000_000, 200_000_000])
def test_a_segment_lasts_two_milliseconds(rate_bps: int) -> None:
    assert transport_for(rate_bps, 1500).gso_max_nbytes * 8 / rate_bps == pytest.approx(0.002)


@pytest.mark.parametrize(("queue", "n_packets"), [("9014B", 1), ("18027B", 1), ("18028B", 2), ("1MB", 2)])
def test_a_segment_fits_into_any_queue(queue: str, n_packets: int) -> None:
    fabric = parse_fabric(f"star:hosts=2,rate=1M,mtu=9000,queue={queue}")
    made = fabric_transport(fabric)
    assert made.gso_max_nbytes == n_packets * 9000
    named = " ".join(links_batch(fabric, made, {}))
    assert (" gso_max_segs 1 " in named) == (n_packets == 1)


def test_fast_links_get_the_largest_segment_and_slow_ones_two_packets() -> None:
    assert transport_for(10**10, 1500).gso_max_nbytes == MAX_GSO_NBYTES
    assert transport_for(1_000_000, 1500).gso_max_nbytes == 3000


@pytest.mark.parametrize(("n_hosts", "segment_s"), [(2, 0.002), (16, 0.002), (24, 0.003), (32, 0.004)])
def test_all_hosts_together_send_at_most_8000_segments_a_second(n_hosts: int, segment_s: float) -> None:
    made = transport_for(50_000_000, 1500, n_hosts=n_hosts)
    assert made.gso_max_nbytes * 8 / 50e6 == pytest.approx(segment_s)
    assert n_hosts / segment_s <= 8000 + 1e-6
    assert made.rcvbuf_nbytes >= 5 * made.gso_max_nbytes


def test_receive_buffers_grow_with_the_rate_from_a_least_size() -> None:
    assert transport_for(1_000_000, 1500).rcvbuf_nbytes == MIN_RCVBUF_NBYTES
    assert transport_for(100_000_000, 1500).rcvbuf_nbytes == MIN_RCVBUF_NBYTES
    assert transport_for(400_000_000, 1500).rcvbuf_nbytes == 500_000


@pytest.mark.parametrize(
    ("spec", "n_cables"),
    [("star:hosts=3", 2), ("leaf-spine:leaves=2,spines=1,hosts=1", 4), ("fat-tree:k=4", 6)],
)
def test_the_longest_round_trip_is_that_over_all_tiers_and_back(spec: str, n_cables: int) -> None:
    assert longest_round_trip_s(parse_fabric(spec)) == 0
    assert longest_round_trip_s(parse_fabric(f"{spec},delay=2ms")) == pytest.approx(2 * n_cables * 0.002)


def test_a_delay_that_is_long_makes_room_for_what_is_under_way() -> None:
    """A round trip over two cables of 5 ms is 20 ms: 250 KB at 100 Mb/s, beside five segments of 25 KB."""
    near, far = (fabric_transport(parse_fabric(f"star:hosts=2,delay={delay}")) for delay in ("0", "5ms"))
    assert (near.rcvbuf_nbytes, far.rcvbuf_nbytes) == (MIN_RCVBUF_NBYTES, 375_000)
    assert near.gso_max_nbytes == far.gso_max_nbytes


@pytest.mark.parametrize(
    ("rate_bps", "frame_nbytes", "burst_nbytes"),
    [
        (1e6, 1514, 3028),
        (242e6, 1514, 3028),
        (243e6, 1514, 3037),
        (1e9, 1514, 12_500),
        (1e9, 9014, 18_028),
        (100e9, 1514, 1_250_000),
    ],
)
def test_a_port_saves_two_frames_or_100_us(rate_bps: float, frame_nbytes: int, burst_nbytes: int) -> None:
    assert port_burst_nbytes(rate_bps / 8, frame_nbytes) == burst_nbytes


def test_a_port_saves_more_than_its_timer_is_late() -> None:
    assert LATE_S[1] < BURST_S


def test_of_a_large_socket_a_fifth_at_most_is_not_sent() -> None:
    small, large = (fabric_transport(parse_fabric(f"star:hosts=8,rate={rate}")) for rate in ("200M", "1G"))
    assert held_nbytes(small) == buffered_nbytes(small.sndbuf_nbytes) == 250_000 < unsent_nbytes(small)
    assert unsent_nbytes(large) == 256 * 1024
    assert held_nbytes(large) == 256 * 1024 + 3 * 65_536 < buffered_nbytes(large.sndbuf_nbytes)
    assert unsent_nbytes(fabric_transport(parse_fabric("star:hosts=8,rate=2G"))) == 500_000
    # segments of 128 hosts last 16 ms, so the buffer is as large as any
    assert unsent_nbytes(fabric_transport(parse_fabric("star:hosts=128,rate=1G"))) == (4 << 20) // 5

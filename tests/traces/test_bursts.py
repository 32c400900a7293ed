"""Burstiness of hosts, from traffic whose rate is known by construction."""

from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.analysis.bursts import Series, burstiness, host_series, rates
from gradwire.traces.framing.messages import collect
from gradwire.traces.trace import Trace
from tests.made_captures import Record, udp
from tests.traces.test_flows import trace_of

A, B, C = ("10.0.0.1", 4000), ("10.0.0.2", 5000), ("10.0.0.3", 6000)
FRAME_NBYTES = 14 + 20 + 8 + 958  # 1000


def packets(times_ms: list[float]) -> list[Record]:
    frame = udp(A, B, b"x" * 958)
    return [Record(int(t * 1e6), frame) for t in times_ms]


def between(folder: Path, records: list[Record]) -> Trace:
    trace = trace_of(folder, records)
    messages = collect([], (A[0], B[0]))
    return Trace(
        trace.name, "none", trace.files, trace.captures, trace.choices, messages, trace.losses, trace.notes
    )


def test_even_traffic_has_no_peaks(tmp_path: Path) -> None:
    """One packet of 1000 bytes each 0.1 ms: 80 Mb/s in windows of any length."""
    trace = between(tmp_path, packets([i / 10 for i in range(10_000)]))
    for one in burstiness(host_series(trace)):
        assert one.mean_bps == pytest.approx(80e6, rel=1e-3)
        assert one.peak_to_mean == pytest.approx(1, rel=1e-3)


def test_a_burst_shows_in_short_windows_and_drowns_in_long_ones(tmp_path: Path) -> None:
    """100 packets within 1 ms, then one a second later: 800 Mb/s at 1 ms, a tenth at 10 ms, and so on."""
    trace = between(tmp_path, packets([*(i / 100 for i in range(100)), 999.99]))
    out = {
        one.window_ns: one
        for one in burstiness(host_series(trace))
        if (one.host, one.direction) == (A[0], "out")
    }
    assert [round(out[10**n].peak_bps / 1e6, 3) for n in (6, 7, 8)] == [800, 80, 8]
    assert out[10**9].peak_bps == pytest.approx(101 * 8000, rel=1e-6)
    assert out[10**6].peak_at_ns == 0
    assert out[10**6].peak_to_mean > 900 > out[10**7].peak_to_mean > 90 > out[10**9].peak_to_mean


def test_what_one_sends_the_other_receives(tmp_path: Path) -> None:
    trace = between(tmp_path, packets([0, 1, 2]))
    found = {(one.host, one.direction) for one in burstiness(host_series(trace))}
    assert found == {(A[0], "out"), (B[0], "in")}


def test_rates_hold_all_bytes_and_zeros_where_there_was_silence(tmp_path: Path) -> None:
    trace = between(tmp_path, packets([0, 0.5, 5.2]))
    (out,) = (one for one in rates(host_series(trace), 10**6) if one.direction == "out")
    assert out.start_ns == 0
    assert list(out.bps) == [16e6, 0, 0, 0, 0, 8e6]


def test_windows_are_longer_where_there_would_be_more_than_anybody_can_look_at(tmp_path: Path) -> None:
    trace = between(tmp_path, packets([0, 10_000_000]))
    (out,) = (one for one in rates(host_series(trace), 10**6) if one.direction == "out")
    assert (out.window_ns, len(out.bps)) == (10**9, 10_001)
    assert sum(out.bps) * out.window_ns / 8e9 == 2 * 1000
    assert burstiness(host_series(trace))  # which holds no silent windows


def test_all_rates_have_one_length_of_windows_which_the_longest_time_decides() -> None:
    """One host is seen for 3 ms, the other an hour later for 10,000 s."""
    late_s = 3600
    short = Series(A[0], "out", np.array([0, 10**6, 3 * 10**6]), np.array([1000, 1000, 1000]))
    long = Series(B[0], "out", np.array([late_s, late_s + 10_000]) * 10**9, np.array([1000, 1000]))
    first, second = rates([short, long], 10**6)
    assert first.window_ns == second.window_ns == 10**9
    assert (first.start_ns, first.bps) == (0, (24_000,))
    assert (second.start_ns, len(second.bps)) == (late_s * 10**9, 10_001)
    assert second.bps[0] == second.bps[-1] == 8000


def test_series_far_apart_have_windows_that_suit_the_time_between_them() -> None:
    times_ns = [np.array([0, 10**6]), np.array([0, 10**6]) + 100_000 * 10**9]
    found = rates([Series(A[0], "out", time_ns, np.array([1000, 1000])) for time_ns in times_ns], 10**6)
    assert [one.window_ns for one in found] == [10**10, 10**10]
    assert [one.start_ns for one in found] == [0, 100_000 * 10**9]


def test_the_peak_is_the_busiest_window_wherever_it_is(tmp_path: Path) -> None:
    """A packet each second, but 50 within the millisecond that begins after 3 s."""
    trace = between(tmp_path, packets([0, 1000, 2000, *(3000 + i / 100 for i in range(50)), 4000]))
    out = {
        one.window_ns: one
        for one in burstiness(host_series(trace))
        if (one.host, one.direction) == (A[0], "out")
    }
    assert out[10**6].peak_at_ns == out[10**9].peak_at_ns == 3 * 10**9
    assert out[10**6].peak_bps == pytest.approx(50 * 8e6)

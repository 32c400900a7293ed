"""Loss, delay, reordering, lateness: against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.inject.figures import (
    LATENESS_EDGES_S,
    NEVER,
    PacketTimes,
    Reordering,
    drift_ppm,
    flow_figures,
    flow_numbers,
    lateness_histogram,
    percentiles,
    reordering,
)


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ([0, 1, 2], Reordering(0, 0)),
        ([], Reordering(0, 0)),
        ([1, 2, 3, 5, 6, 7, 8, 4, 9, 10], Reordering(1, 4)),  # RFC 4737, 7.1
        ([1, 2, 3, 7, 4, 5, 6, 8, 9, 10], Reordering(3, 3)),
        ([1, 2, 3, 4, 7, 8, 9, 10, 5, 6], Reordering(2, 5)),
    ],
)
def test_reordering_is_as_rfc_4737_defines_it(sequence: list[int], expected: Reordering) -> None:
    assert reordering(np.array(sequence, np.int64)) == expected


@given(st.permutations(range(12)))
def test_reordering_is_as_the_definitions_formula_says(sequence: list[int]) -> None:
    next_expected, late, extents = 0, 0, [0]
    for place, number in enumerate(sequence):
        if number >= next_expected:
            next_expected = number + 1
        else:
            late += 1
            first = next(j for j in range(place) if sequence[j] > number)
            extents.append(place - first)
    assert reordering(np.array(sequence, np.int64)) == Reordering(late, max(extents))


def test_percentiles_are_values_that_occurred() -> None:
    found = percentiles(np.arange(101) * 10**9)
    assert found
    assert (found.min, found.p50, found.p90, found.p99, found.max) == (0, 50, 90, 99, 100)
    assert percentiles(np.zeros(0, np.int64)) is None


def test_the_histogram_counts_everything_once() -> None:
    late_ns = np.array([-50, 0, 10_000, 10_001, 29_999, 10**9, 2 * 10**9])
    counts = lateness_histogram(late_ns)
    assert len(counts) == len(LATENESS_EDGES_S) + 1
    assert counts[:2] == (3, 2)
    assert counts[-2:] == (1, 1)
    assert sum(counts) == len(late_ns)


@pytest.mark.parametrize("ppm", [0, 250, -40])
def test_drift_is_the_slope_of_lateness_whatever_single_packets_do(ppm: int) -> None:
    due_ns = np.arange(1000) * 10**6
    late_ns = due_ns * ppm // 10**6
    late_ns[[3, 500, 990]] += 10**9
    assert drift_ppm(due_ns, late_ns) == pytest.approx(ppm, abs=1)


def test_each_flow_has_its_own_loss_delay_and_order() -> None:
    due = np.arange(6)
    arrived = np.array([100, 60, NEVER, 40, 200, 300])
    times = PacketTimes(due, due, due * 10, arrived)
    flow = np.array([1, 0, 1, 0, 1, 1])
    zero, one = flow_figures(flow, np.full(6, 1000), times)
    assert (zero.flow, zero.sent, zero.lost, zero.nbytes) == (0, 2, 0, 2000)
    assert zero.reordering == Reordering(1, 1)
    assert zero.delay
    assert (zero.delay.min, zero.delay.max) == (10e-9, 50e-9)
    assert (one.sent, one.lost, one.reordering) == (4, 1, Reordering(0, 0))


def test_flows_are_numbered_in_the_order_of_their_first_packets() -> None:
    number, first = flow_numbers([np.array([7, 3, 7, 3, 9]), np.array([1, 1, 1, 2, 1])])
    assert number.tolist() == [0, 1, 0, 2, 3]
    assert first.tolist() == [0, 1, 3, 4]

"""Lower bounds of phases: closed forms, and that no routes ever beat them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.bounds import Cuts, least_s, phase_bound_s
from gradwire.planning.model.loads import plan_load
from gradwire.planning.model.phases import Pair
from tests.made_plans import PAYLOAD_EFFICIENCY, all_to_all, messages, schedule_plan

RATE_BPS = 100_000_000
MB_S = 1e6 * 8 / (RATE_BPS * PAYLOAD_EFFICIENCY)
"""The time of one megabyte of payload on a link of the default rate."""


def bound_of(spec: str, pairs: dict[Pair, int]) -> float:
    fabric = parse_fabric(spec)
    return phase_bound_s(Cuts(fabric), fabric.hosts, pairs)


@pytest.mark.parametrize(
    ("megabytes", "rates_mbps", "expected"),
    [
        ([1] * 8, [100] * 4, 2),
        ([1] * 9, [100] * 4, 3),  # unsplit: one of four links takes a third
        ([3, 3, 3, 1], [100] * 3, 10 / 3),  # all bytes over all links
        ([2, 2, 2, 2], [100] * 3, 4),  # two of the four share a link
        ([1, 1, 1], [200, 100], 1),  # two on the fast link, one on the slow one
        ([6, 1], [50, 50], 12),
        ([], [100], 0),
    ],
)
def test_flows_on_parallel_links_take_what_can_be_worked_out_by_hand(
    megabytes: list[int], rates_mbps: list[int], expected: float
) -> None:
    found = least_s([count * 10**6 for count in megabytes], [rate * 10**6 for rate in rates_mbps], 1500)
    assert found == pytest.approx(expected * MB_S)


def test_flows_that_must_leave_a_switch_without_cables_are_an_error() -> None:
    with pytest.raises(ValueError, match="has no cable going out"):
        least_s([1], [], 1500)


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    # papers: an even split of an alltoall on a BiGraph takes m^2 (3 - 4/n) / (p - 1) of the hosts' time.
    [(4, 2, 8 / 7), (8, 4, 40 / 31), (16, 8, 176 / 127), (8, 2, 1.0)],
)
def test_an_alltoall_on_a_bigraph_is_bound_by_the_traffic_within_its_sides(
    n: int, m: int, expected: float
) -> None:
    hosts_s = (n * m - 1) * MB_S
    pairs = {(a, b): 10**6 for a in range(n * m) for b in range(n * m) if a != b}
    assert bound_of(f"bigraph:n={n},m={m}", pairs) == pytest.approx(expected * hosts_s)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("leaf-spine:leaves=4,spines=4,hosts=4", 1),
        ("leaf-spine:leaves=4,spines=2,hosts=4", 2),
        ("leaf-spine:leaves=4,spines=3,hosts=4", 2),  # four flows, unsplit, on three uplinks
        ("fat-tree:k=4", 1),
        ("fat-tree:k=4,uplink_rate=25M", 4),
    ],
)
def test_a_shift_by_one_switch_takes_hosts_over_uplinks_rounded_up(spec: str, expected: int) -> None:
    fabric = parse_fabric(spec)
    n, m = len(fabric.hosts), 2 if fabric.family == "fat-tree" else 4
    pairs = {(r, (r + m) % n): 10**6 for r in range(n)}
    assert bound_of(spec, pairs) == pytest.approx(expected * MB_S)
    jumbo_mb_s = 1e6 * 8 / RATE_BPS * 9014 / 8948
    assert bound_of(f"{spec},mtu=9000", pairs) == pytest.approx(expected * jumbo_mb_s)


def test_the_switches_of_a_pod_are_one_region() -> None:
    regions = Cuts(parse_fabric("fat-tree:k=4")).regions
    assert frozenset({"edge2", "edge3", "agg2", "agg3"}) in regions
    assert len(regions) == 8 + 4


def test_traffic_under_one_switch_is_bound_by_its_hosts_only() -> None:
    pairs = {(0, 1): 10**6, (1, 0): 10**6}
    assert bound_of("leaf-spine:leaves=2,spines=1,hosts=2,uplink_rate=1M", pairs) == pytest.approx(MB_S)


SPECS = [
    "fat-tree:k=4",
    "leaf-spine:leaves=3,spines=2,hosts=3,uplink_rate=70M",
    "bigraph:n=6,m=2",
    "star:hosts=6",
]
SENDS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 10**6)).filter(lambda s: s[0] != s[1]),
    min_size=1,
    max_size=25,
)


@given(st.sampled_from(SPECS), SENDS, st.sampled_from(["ecmp", "dmodk", "planned"]), st.integers(0, 9))
def test_no_routes_beat_the_bound(
    spec: str, sends: list[tuple[int, int, int]], routes: str, seed: int
) -> None:
    schedule = messages(6, sends)
    found = plan_load(schedule_plan(spec, schedule, placement="random", routes=routes, seed=seed))
    for phase in found.phases:
        assert phase.host_s <= phase.bound_s * (1 + 1e-9)
        assert phase.bound_s <= phase.least_s * (1 + 1e-9)


def test_an_audit_adds_the_bounds_of_its_phases() -> None:
    found = plan_load(schedule_plan("bigraph:n=8,m=4", all_to_all(32, 10**6), routes="direct"))
    assert found.barrier_bound_s == pytest.approx(40 * MB_S)
    assert found.barrier_s == pytest.approx(40 * MB_S)

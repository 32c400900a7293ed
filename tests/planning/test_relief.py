"""The search for less busy paths by itself, from starts that an edge colouring would never leave it."""

from collections.abc import Sequence
from random import Random

import pytest

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.resolve import flows_of
from gradwire.planning.routing.balance import Balance, demands
from gradwire.planning.routing.clos import put_by_colours
from gradwire.planning.routing.links import Links
from gradwire.planning.routing.relief import improve
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.seeded import draw
from tests.made_plans import PAYLOAD_EFFICIENCY, messages

MB_S = 1e6 * 8 / (100e6 * PAYLOAD_EFFICIENCY)
"""The time of one megabyte of payload on a link of the default rate."""


def empty(fabric: Fabric, schedule: Schedule) -> Balance:
    flows = list(flows_of(fabric, fabric.hosts, schedule, 0))
    links = Links(fabric, fabric.hosts, flows)
    return Balance(links, demands(fabric, fabric.hosts, flows, schedule))


def from_leaf_to_leaf(sizes_mb: Sequence[int]) -> tuple[Fabric, Balance]:
    """Flows of these sizes from the hosts of leaf0 to those of leaf1, over two spines."""
    fabric = parse_fabric(f"leaf-spine:leaves=2,spines=2,hosts={len(sizes_mb)}")
    pairs = [(a, a + len(sizes_mb), size * 10**6) for a, size in enumerate(sizes_mb)]
    return fabric, empty(fabric, messages(2 * len(sizes_mb), pairs))


def test_a_byte_takes_a_link_for_its_share_of_a_full_frame_of_the_fabric() -> None:
    for mtu in (1500, 9000):
        links = Links(parse_fabric(f"fat-tree:k=4,levels=2,mtu={mtu}"), (), ())
        assert links.s_per_byte == pytest.approx([8 / 100e6 * (mtu + 14) / (mtu - 52)] * 16)


def test_colours_part_the_large_flows_though_they_come_last() -> None:
    fabric, balance = from_leaf_to_leaf([1, 1, 1, 1, 4, 4])
    put_by_colours(balance, fabric, 0)
    assert balance.worst(0)[0] == pytest.approx(6 * MB_S)


def test_flows_that_all_took_one_spine_are_parted() -> None:
    _, balance = from_leaf_to_leaf([1] * 6)
    for flow in balance.sends:
        balance.put(flow, balance.links.ways(flow)[0])
    assert balance.worst(0)[0] == pytest.approx(6 * MB_S)
    improve(balance)
    assert balance.worst(0)[0] == pytest.approx(3 * MB_S)


def test_flows_that_may_not_be_moved_stay() -> None:
    _, balance = from_leaf_to_leaf([1] * 6)
    for flow in balance.sends:
        balance.put(flow, balance.links.ways(flow)[0])
    before = dict(balance.ways)
    one = next(iter(balance.sends))
    improve(balance, movable={one})
    assert {flow for flow, way in balance.ways.items() if way != before[flow]} == {one}
    assert balance.worst(0)[0] == pytest.approx(5 * MB_S)


def permutation(seed: int) -> Balance:
    """A permutation on a leaf-spine, every flow on one of its shortest ways drawn at random."""
    fabric = parse_fabric("leaf-spine:leaves=4,spines=4,hosts=4")
    partners = sorted(range(16), key=lambda host: draw(seed, "relief", host))
    balance = empty(fabric, messages(16, [(a, b, 10**6) for a, b in enumerate(partners) if a != b]))
    random = Random(seed)
    for flow in balance.sends:
        balance.put(flow, random.choice(balance.links.ways(flow)))
    return balance


def test_pushing_flows_aside_reaches_what_moving_one_at_a_time_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def solved(deepest: int) -> int:
        monkeypatch.setattr("gradwire.planning.routing.relief.DEEPEST", deepest)
        balances = [permutation(seed) for seed in range(20)]
        for balance in balances:
            improve(balance)
        return sum(balance.worst(0)[0] <= MB_S * 1.001 for balance in balances)

    one_at_a_time, pushing = solved(0), solved(2)
    assert one_at_a_time < pushing

"""Trees keep out of each other's way, and past what is slow or busy."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.placement import place
from gradwire.planning.trees.shape import Load, tree_nodes
from gradwire.planning.trees.tree import Node
from tests.made_shapes import NBYTES, nodes_for


def ups(nodes: Iterable[Node]) -> Iterable[Egress]:
    return [Egress(node.switch, node.parent_port) for node in nodes if node.parent_port is not None]


@pytest.mark.parametrize("seed", range(3))
def test_eight_jobs_on_a_fat_tree_share_no_cable_of_a_core(seed: int) -> None:
    fabric = parse_fabric("fat-tree:k=8")
    hosts = place("random", fabric, 128, seed)
    load = Load()
    used: Counter[Egress] = Counter()
    for first in range(0, 128, 16):
        nodes = nodes_for(fabric, hosts[first : first + 16], load, seed)
        load.add(fabric, nodes, NBYTES)
        used.update(ups(nodes))
    assert max(times for end, times in used.items() if end.node.startswith("agg")) == 1
    # 8 trees go by 4 groups of aggregation switches, so an edge switch's uplink may have two.
    assert max(used.values()) <= 2


def test_a_tree_goes_past_the_cables_that_others_keep_busy_longest() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=3,hosts=1")
    load = Load()
    roots = []
    for nbytes in (3 * NBYTES, NBYTES, NBYTES, NBYTES, NBYTES):
        nodes = tree_nodes(fabric, fabric.hosts, fabric.hosts, load, nbytes, seed=0)
        load.add(fabric, nodes, nbytes)
        roots.append(nodes[0].switch)
    assert roots.count(roots[0]) == 1
    assert sorted(Counter(roots).values()) == [1, 2, 2]


def test_a_tree_keeps_every_cable_it_takes_busy_and_its_root() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1,rate=100M,uplink_rate=50M")
    load = Load()
    for _ in range(2):
        load.add(fabric, nodes_for(fabric, fabric.hosts), 10**6)
    ends = {
        end
        for link in fabric.inner_links
        for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port))
    }
    assert load.port_s == {end: pytest.approx(2 * 8e6 / 50e6) for end in ends}
    assert load.root_nbytes == {"spine0": 2 * 10**6}


def test_of_trees_whose_busiest_cables_are_alike_that_with_fewer_busy_ones_is_taken() -> None:
    fabric = parse_fabric("leaf-spine:leaves=3,spines=2,hosts=1")
    load = Load()
    for link in fabric.inner_links:
        if (link.a, link.b) in {("leaf0", "spine0"), ("leaf1", "spine0"), ("leaf2", "spine1")}:
            for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port)):
                load.port_s[end] = 1.0
    assert {nodes_for(fabric, fabric.hosts, load, seed)[0].switch for seed in range(10)} == {"spine1"}


def test_children_are_spread_over_the_parents_that_are_there_anyway() -> None:
    """On a BiGraph the root's two fellows could both be below one of the three switches of the other half."""
    fabric = parse_fabric("bigraph:n=6,m=1")
    for seed in range(10):
        _, *others = nodes_for(fabric, fabric.hosts, seed=seed)
        assert sorted(len(node.children) for node in others) == [1, 1, 1, 2, 2]


def test_a_tree_goes_past_slow_cables() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")
    links = tuple(
        replace(link, rate_bps=10**7) if (link.a, link.b) == ("leaf1", "spine1") else link
        for link in fabric.links
    )
    slow = replace(fabric, links=links)
    assert {nodes_for(slow, slow.hosts, seed=seed)[0].switch for seed in range(20)} == {"spine0"}


def test_the_seed_alone_chooses_among_equals() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    assert nodes_for(fabric, fabric.hosts, seed=4) == nodes_for(fabric, fabric.hosts, seed=4)
    roots = {nodes_for(fabric, fabric.hosts, seed=seed)[0].switch for seed in range(40)}
    assert roots == {"core0", "core1", "core2", "core3"}

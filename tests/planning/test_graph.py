"""The graph of a fabric: what MultiTree makes of the fabrics that its authors measured."""

import pytest

from gradwire.planning.fabrics.graph import graph_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.schedules.algorithms.multitree import grow


@pytest.mark.parametrize(
    ("spec", "tau", "depth"),
    [
        ("bigraph:n=4,m=2", 7, 2),
        ("bigraph:n=8,m=2", 15, 2),
        ("bigraph:n=8,m=4", 31, 2),
        ("bigraph:n=16,m=4", 63, 2),
        ("leaf-spine:leaves=4,spines=4,hosts=4", 15, 1),
        ("leaf-spine:leaves=8,spines=8,hosts=8", 63, 1),
        ("leaf-spine:leaves=4,spines=2,hosts=4", 24, 2),
        ("leaf-spine:leaves=4,spines=2,hosts=4,uplink_rate=200M", 15, 1),
        ("star:hosts=8", 7, 1),
    ],
)
def test_multitree_on_a_fabric_takes_the_published_steps(spec: str, tau: int, depth: int) -> None:
    fabric = parse_fabric(spec)
    trees = grow(graph_of(fabric, fabric.hosts))
    assert (trees.n_steps, trees.depth) == (tau, depth)


def test_faster_cables_carry_as_many_messages_as_they_are_whole_times_as_fast() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=2,rate=100M,uplink_rate=250M")
    graph = graph_of(fabric, fabric.hosts[::-1])
    assert graph.ranks == ("h3", "h2", "h1", "h0")
    assert graph.capacity["leaf0", "spine0"] == graph.capacity["spine0", "leaf0"] == 2
    assert graph.capacity["h0", "leaf0"] == graph.capacity["leaf0", "h0"] == 1
    assert len(graph.capacity) == 2 * len(fabric.links)


def test_a_fabric_on_whose_way_hosts_have_no_rank_is_refused() -> None:
    fabric = parse_fabric("bigraph:n=4,m=1")
    with pytest.raises(ValueError, match="passes only switches without hosts, and lower0 has hosts"):
        grow(graph_of(fabric, ("h0", "h1")))

"""Trees take the fewest cables that join their hosts, and have no more children and levels than can be."""

from collections.abc import Collection, Sequence
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Fabric, Wire, cable
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.placement import place
from gradwire.planning.routing.reroute import without
from gradwire.planning.trees.shape import Load, NoTree, tree_nodes
from gradwire.planning.trees.tree import Child, Node, Tree
from gradwire.planning.trees.treecheck import check_trees
from tests.made_shapes import NBYTES, nodes_for


def n_cables(fabric: Fabric, hosts: Collection[str]) -> int:
    """Between switches."""
    return len(nodes_for(fabric, hosts)) - 1


def levels(fabric: Fabric, nodes: Sequence[Node]) -> int:
    level = {nodes[0].switch: 1}
    for node in nodes:
        for child in node.children:
            level[fabric.neighbours[node.switch][child.port]] = level[node.switch] + 1
    return max(level.values()) - 1  # the last are hosts


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("fat-tree:k=4", 8 + 4),  # every edge switch, and an aggregation switch of every pod
        ("fat-tree:k=8", 32 + 8),
        ("fat-tree:k=4,levels=2", 4),
        ("leaf-spine:leaves=5,spines=3,hosts=2", 5),
        ("bigraph:n=4,m=2", 3),  # n switches, no other
        ("bigraph:n=8,m=1", 7),
        ("star:hosts=7", 0),
    ],
)
def test_the_tree_of_all_hosts_has_as_few_cables_as_the_closed_form(spec: str, expected: int) -> None:
    fabric = parse_fabric(spec)
    assert n_cables(fabric, fabric.hosts) == expected


@given(k=st.sampled_from([4, 8]), n=st.integers(1, 16), seed=st.integers(0, 999))
def test_on_a_fat_tree_it_has_one_cable_for_each_edge_switch_and_pod(k: int, n: int, seed: int) -> None:
    fabric = parse_fabric(f"fat-tree:k={k}")
    hosts = place("random", fabric, n, seed)
    edges = {access_switch(fabric, host) for host in hosts}
    n_pods = len({int(edge.removeprefix("edge")) // (k // 2) for edge in edges})
    expected = len(edges) + (n_pods if n_pods > 1 else 0) if len(edges) > 1 else 0
    assert n_cables(fabric, hosts) == expected


@pytest.mark.parametrize(
    ("n_upper", "n_lower", "expected"), [(1, 0, 0), (2, 0, 2), (3, 0, 3), (3, 1, 3), (2, 3, 4)]
)
def test_on_a_bigraph_switches_of_one_half_meet_at_one_of_the_other(
    n_upper: int, n_lower: int, expected: int
) -> None:
    fabric = parse_fabric("bigraph:n=6,m=1")
    assert n_cables(fabric, (*fabric.hosts[:n_upper], *fabric.hosts[3 : 3 + n_lower])) == expected


@pytest.mark.parametrize("n_leaves", [1, 2, 4])
def test_on_two_levels_every_leaf_with_hosts_has_one_uplink_unless_it_is_alone(n_leaves: int) -> None:
    fabric = parse_fabric("leaf-spine:leaves=4,spines=2,hosts=3")
    hosts = [fabric.hosts[3 * leaf + i] for leaf in range(n_leaves) for i in range(2)]
    assert n_cables(fabric, hosts) == (n_leaves if n_leaves > 1 else 0)


def fewest_cables(fabric: Fabric, ends: set[str]) -> int | None:
    """By trying all sets of switches, the smallest first: a tree of n switches has n - 1 cables."""
    others = [switch for switch in fabric.switches if switch not in ends]
    sets = (ends.union(some) for n in range(len(others) + 1) for some in combinations(others, n))
    return next((len(switches) - 1 for switches in sets if is_joined(fabric, switches)), None)


def is_joined(fabric: Fabric, switches: set[str]) -> bool:
    waiting = [min(switches)]
    left = switches - set(waiting)
    while waiting:
        found = left.intersection(fabric.neighbours.get(waiting.pop(), {}).values())
        waiting += found
        left = left - found
    return not left


@pytest.mark.parametrize(
    "spec", ["leaf-spine:leaves=4,spines=3,hosts=2", "bigraph:n=6,m=1", "fat-tree:k=4,levels=2"]
)
@pytest.mark.parametrize("share_down", [0, 0.2, 0.4])
def test_no_other_set_of_switches_does_with_fewer_cables(spec: str, share_down: float) -> None:
    random = Random(f"{spec} {share_down}")
    whole = parse_fabric(spec)
    for _ in range(40):
        fabric = without(whole, [link for link in whole.inner_links if random.random() < share_down])
        hosts = random.sample(whole.hosts, random.randint(2, len(whole.hosts)))
        fewest = fewest_cables(fabric, {access_switch(fabric, host) for host in hosts})
        if fewest is None:
            with pytest.raises(NoTree, match="no cables join"):
                nodes_for(fabric, hosts)
        else:
            assert n_cables(fabric, hosts) == fewest


@pytest.mark.parametrize("seed", range(60))
def test_nor_on_switches_that_are_cabled_at_random(seed: int) -> None:
    """That holds for these; with 14 switches and 27 cables one tree in a hundred has a cable too many."""
    random = Random(seed)
    switches = [f"s{number}" for number in range(8)]
    pairs = [(switch, random.choice(switches[:i])) for i, switch in enumerate(switches) if i]
    pairs += [tuple(random.sample(switches, 2)) for _ in range(4)]  # type: ignore[misc]
    hosts = {f"h{number}": switch for number, switch in enumerate(switches)}
    cables = [(a, b, Wire(10**8)) for a, b in (*hosts.items(), *pairs)]
    fabric = Fabric("made", "file", {}, tuple(hosts), tuple(switches), cable(set(hosts), cables))
    some = random.sample(fabric.hosts, random.randint(2, 6))
    assert n_cables(fabric, some) == fewest_cables(fabric, {hosts[host] for host in some})


def switches_with_hosts(names: str, *pairs: str) -> tuple[Fabric, list[str]]:
    """A fabric of one-letter switches, cabled by pairs of them, and hosts at some: `ha` is at a."""
    switches = tuple(dict.fromkeys("".join(pairs)))
    hosts = tuple(f"h{name}" for name in switches)
    cables = [(a, b, Wire(10**8)) for a, b in (*((f"h{name}", name) for name in switches), *pairs)]
    fabric = Fabric("made", "file", {}, hosts, switches, cable(set(hosts), cables))
    return fabric, [f"h{name}" for name in names]


@pytest.mark.parametrize("seed", range(10))
def test_one_parent_for_three_is_preferred_to_one_for_each(seed: int) -> None:
    """r above a above b, c, d, which could also go by w, x, y; and the same again on its other side."""
    one = ["ra", "ab", "ac", "ad", "rw", "rx", "ry", "wb", "xc", "yd"]
    other = [pair.upper().replace("R", "r") for pair in one]
    fabric, hosts = switches_with_hosts("rbcdBCD", *one, *other)
    assert {node.switch for node in nodes_for(fabric, hosts, seed=seed)} == set("rabcdABCD")


@pytest.mark.parametrize("seed", range(10))
def test_a_parent_that_is_there_anyway_is_preferred(seed: int) -> None:
    """r above a above b and c, which could also go by x; only a has a host.  And again on the other side."""
    one = ["ra", "ab", "ac", "rx", "xb", "xc"]
    other = [pair.upper().replace("R", "r") for pair in one]
    fabric, hosts = switches_with_hosts("rabcABC", *one, *other)
    assert {node.switch for node in nodes_for(fabric, hosts, seed=seed)} == set("rabcABC")


@st.composite
def random_fabrics(draw: st.DrawFn) -> Fabric:
    """Any switches with hosts at some of them, joined by cables of three rates, some of them parallel."""
    switches = [f"s{number}" for number in range(draw(st.integers(1, 9)))]
    pairs = [(switch, switches[draw(st.integers(0, i))]) for i, switch in enumerate(switches[1:])]
    pairs += draw(
        st.lists(st.tuples(*[st.sampled_from(switches)] * 2).filter(lambda p: p[0] != p[1]), max_size=9)
    )
    homes = draw(st.lists(st.sampled_from(switches), min_size=2, max_size=12))
    hosts = {f"h{number}": switch for number, switch in enumerate(homes)}
    wires = st.sampled_from([Wire(10**7), Wire(10**8), Wire(10**9)])
    cables = [(a, b, draw(wires)) for a, b in (*hosts.items(), *pairs)]
    return Fabric("made", "file", {}, tuple(hosts), tuple(switches), cable(set(hosts), cables))


@given(fabric=random_fabrics(), data=st.data())
def test_every_tree_leads_from_each_of_its_hosts_to_the_root_and_says_who_gives_and_takes(
    fabric: Fabric, data: st.DataObject
) -> None:
    ranks = range(len(fabric.hosts))
    givers = tuple(sorted(data.draw(st.sets(st.sampled_from(ranks), min_size=1))))
    takers = tuple(sorted(data.draw(st.sets(st.sampled_from(ranks), min_size=1))))
    hosts = fabric.hosts
    nodes = tree_nodes(
        fabric,
        [hosts[r] for r in givers],
        [hosts[r] for r in takers],
        Load(),
        NBYTES,
        data.draw(st.integers(0, 9)),
    )
    tree = Tree(1, givers, takers, 0xBEE0, 8, 256, nodes)
    check_trees(fabric, hosts, [(givers, takers)], [tree], 8)
    for node in nodes:
        assert [child.port for child in node.children] == sorted(child.port for child in node.children)


def test_a_parameter_servers_switch_takes_what_the_others_only_give() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=2")
    root, *leaves = tree_nodes(fabric, ["h1", "h2", "h3"], ["h0"], Load(), NBYTES, 0)
    by_switch = {node.switch: node for node in leaves}
    assert (root.switch, root.parent_port) == ("spine0", None)
    assert root.children == (Child(1, gives=True, takes=True), Child(2, gives=True, takes=False))
    assert [(each.gives, each.takes) for each in by_switch["leaf0"].children] == [
        (False, True),
        (True, False),
    ]
    assert [(each.gives, each.takes) for each in by_switch["leaf1"].children] == [(True, False)] * 2


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("star:hosts=4", 1),
        ("fat-tree:k=4", 3),
        ("leaf-spine:leaves=4,spines=2,hosts=1", 2),
        ("bigraph:n=6,m=1", 3),
    ],
)
def test_it_has_no_more_levels_than_it_needs(spec: str, expected: int) -> None:
    fabric = parse_fabric(spec)
    for seed in range(10):
        assert levels(fabric, nodes_for(fabric, fabric.hosts, seed=seed)) == expected


def test_more_children_than_a_switch_has_bits_for_are_refused() -> None:
    fabric = parse_fabric("star:hosts=65")
    assert len(nodes_for(fabric, fabric.hosts[:64])[0].children) == 64
    with pytest.raises(NoTree, match="switch0 would add up 65 children, the limit is 64"):
        nodes_for(fabric, fabric.hosts)


def test_where_one_root_would_have_too_many_children_another_is_taken() -> None:
    """65 switches meet at a middle one.  As the root it would have them all, below one of them only 64."""
    outer = [f"s{number}" for number in range(65)]
    wire = Wire(10**8)
    cables = [(switch, "m0", wire) for switch in outer]
    cables += [(f"h{number}", switch, wire) for number, switch in enumerate(outer)]
    hosts = tuple(f"h{number}" for number in range(65))
    fabric = Fabric("made", "file", {}, hosts, (*outer, "m0"), cable(set(hosts), cables))
    nodes = nodes_for(fabric, hosts)
    assert nodes[0].switch != "m0"
    assert max(len(node.children) for node in nodes) == 64


def test_hosts_that_no_cables_join_are_refused() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1")
    uplink = next(link for link in fabric.inner_links if link.a == "leaf1")
    with pytest.raises(NoTree, match="no cables join leaf0, leaf1"):
        nodes_for(without(fabric, [uplink]), fabric.hosts)
    own = next(link for link in fabric.host_links if "h1" in (link.a, link.b))
    with pytest.raises(NoTree, match="h1 has no cable"):
        nodes_for(without(fabric, [own]), fabric.hosts)


def test_a_tree_that_would_be_too_deep_is_refused() -> None:
    """A row of n switches has (n + 1) / 2 levels, seen from its middle."""
    for n, is_too_deep in ((31, False), (33, True)):
        switches = [f"s{number}" for number in range(n)]
        ends = [("h0", "s0"), ("h1", f"s{n - 1}"), *pairwise(switches)]
        fabric = Fabric(
            "row",
            "file",
            {},
            ("h0", "h1"),
            tuple(switches),
            cable({"h0", "h1"}, [(a, b, Wire(1)) for a, b in ends]),
        )
        if is_too_deep:
            with pytest.raises(NoTree, match="more than 16 levels"):
                nodes_for(fabric, fabric.hosts)
        else:
            assert levels(fabric, nodes_for(fabric, fabric.hosts)) == 16

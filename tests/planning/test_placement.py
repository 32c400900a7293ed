"""Placements: the published rank map, and what every placement must be."""

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.placement import PLACEMENTS, place
from gradwire.planning.refused import Refused
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand

# Huang et al.'s simulator, M=2 N=4 and M=2 N=8.
GOLDEN = {
    "bigraph:n=4,m=2": [0, 4, 6, 2, 5, 3, 1, 7],
    "bigraph:n=8,m=2": [0, 8, 10, 2, 12, 4, 6, 14, 9, 3, 5, 11, 7, 13, 15, 1],
}


@pytest.mark.parametrize("spec", GOLDEN)
def test_hdrm_is_the_published_map(spec: str) -> None:
    fabric = parse_fabric(spec)
    hosts = place("hdrm", fabric, len(fabric.hosts), seed=0)
    assert hosts == tuple(f"h{i}" for i in GOLDEN[spec])


@pytest.mark.parametrize(("n", "m"), [(2, 1), (4, 2), (8, 4), (16, 8), (8, 8), (32, 16)])
def test_hdrm_puts_halving_doubling_partners_on_opposite_sides(n: int, m: int) -> None:
    fabric = parse_fabric(f"bigraph:n={n},m={m}")
    p = n * m
    hosts = place("hdrm", fabric, p, seed=0)
    assert sorted(hosts) == sorted(fabric.hosts)
    upper = [int(host[1:]) < p // 2 for host in hosts]
    distances = [1 << j for j in range(p.bit_length() - 1)]
    assert all(upper[rank] != upper[rank ^ d] for rank in range(p) for d in distances)


@pytest.mark.parametrize(
    ("spec", "n_ranks", "reason"),
    [
        ("fat-tree:k=4,levels=2", 8, "works only on a BiGraph, not on a fat-tree"),
        ("bigraph:n=6,m=2", 12, "powers of two, got n=6, m=2"),
        ("bigraph:n=4,m=3", 12, "powers of two, got n=4, m=3"),
        ("bigraph:n=4,m=2", 4, "each of the 8 hosts, got 4 ranks"),
    ],
)
def test_hdrm_is_refused_where_it_makes_no_sense(spec: str, n_ranks: int, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        place("hdrm", parse_fabric(spec), n_ranks, seed=0)


def dealt(spec: str) -> Fabric:
    """The same switches and cables with hosts dealt to the switches in turn, as cards are."""
    fabric = parse_fabric(spec)
    n_leaves = len({access_switch(fabric, host) for host in fabric.hosts})
    per_leaf = len(fabric.hosts) // n_leaves
    order = [fabric.hosts[leaf * per_leaf + slot] for slot in range(per_leaf) for leaf in range(n_leaves)]
    return replace(fabric, spec="dealt", family="file", shape={}, hosts=tuple(order))


def most_flows_together(fabric: Fabric, placement: str, n_ranks: int, seed: int) -> int:
    """Of a ring's allreduce, on any link in any phase."""
    plan = resolve(
        fabric,
        expand(made_allreduce(n_ranks, 1 << 20), "ring"),
        algorithm="ring",
        placement=placement,
        routes="ecmp",
        seed=seed,
        transport=fabric_transport(fabric),
    )
    return max(load.together for load in plan_load(plan).loads.values())


SPECS = [
    "fat-tree:k=4",
    "bigraph:n=6,m=3",
    "leaf-spine:leaves=4,spines=2,hosts=4",
    "mesh:x=2,y=3",
    "star:hosts=4",
]


@pytest.mark.parametrize("spec", SPECS)
def test_where_hosts_are_numbered_leaf_after_leaf_by_leaf_is_linear(spec: str) -> None:
    fabric = parse_fabric(spec)
    for n_ranks in (1, 3, len(fabric.hosts)):
        assert place("by-leaf", fabric, n_ranks, seed=0) == place("linear", fabric, n_ranks, seed=0)


def test_by_leaf_fills_leaf_after_leaf_in_their_order() -> None:
    fabric = dealt("leaf-spine:leaves=3,spines=2,hosts=4")
    assert fabric.hosts[:4] == ("h0", "h4", "h8", "h1")
    assert place("by-leaf", fabric, 10, seed=0) == tuple(f"h{i}" for i in range(10))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_ranks", [16, 11])
def test_a_ring_by_leaf_shares_no_link_of_a_tree_and_a_linear_one_does(seed: int, n_ranks: int) -> None:
    # Four flows leave each leaf over two uplinks where each rank's successor is on another leaf.
    fabric = dealt("leaf-spine:leaves=4,spines=2,hosts=4")
    assert most_flows_together(fabric, "by-leaf", n_ranks, seed) == 1
    assert most_flows_together(fabric, "linear", n_ranks, seed) >= 2


def test_cyclic_deals_ranks_out_to_the_leaves_in_turn() -> None:
    fabric = parse_fabric("leaf-spine:leaves=3,spines=2,hosts=2")
    assert place("cyclic", fabric, 5, seed=0) == ("h0", "h2", "h4", "h1", "h3")
    assert place("cyclic", parse_fabric("fat-tree:k=4"), 16, seed=0)[:9] == tuple(
        f"h{i}" for i in (0, 2, 4, 6, 8, 10, 12, 14, 1)
    )
    # Where a leaf has no host left the others go on: h0 to h9 of leaves with 4, 4 and 2.
    short = dealt("leaf-spine:leaves=3,spines=2,hosts=4")
    fewer = replace(short, hosts=tuple(host for host in short.hosts if host not in ("h10", "h11")))
    assert place("cyclic", fewer, 10, seed=0)[-2:] == ("h3", "h7")


# By hand from the rule of Huang et al.'s simulator: in round i down to lower u + i, up to upper l + i + 1.
RINGS = {
    "bigraph:n=4,m=2": [0, 4, 2, 6, 1, 7, 3, 5],
    "bigraph:n=8,m=2": [0, 8, 2, 10, 4, 12, 6, 14, 1, 11, 7, 9, 5, 15, 3, 13],
}


@pytest.mark.parametrize("spec", RINGS)
def test_alternating_is_the_published_ring(spec: str) -> None:
    fabric = parse_fabric(spec)
    hosts = place("alternating", fabric, len(fabric.hosts), seed=0)
    assert hosts == tuple(f"h{i}" for i in RINGS[spec])


@pytest.mark.parametrize(
    ("n", "m", "rounds"),
    [
        (2, 1, 1),
        (2, 3, 3),
        (4, 2, 2),
        (8, 2, 2),
        (8, 4, 4),
        (16, 8, 8),
        (6, 3, 3),
        (10, 5, 5),
        (30, 4, 4),
        (8, 4, 3),
        (4, 6, 6),
        (6, 7, 7),
    ],
)
def test_an_alternating_ring_has_a_link_for_each_of_its_flows(n: int, m: int, rounds: int) -> None:
    fabric = parse_fabric(f"bigraph:n={n},m={m}")
    hosts = place("alternating", fabric, n * rounds, seed=0)
    assert len(set(hosts)) == n * rounds
    links = Counter(
        (access_switch(fabric, a), access_switch(fabric, b))
        for a, b in zip(hosts, (*hosts[1:], hosts[0]), strict=True)
    )
    assert all(a.startswith("upper") != b.startswith("upper") for a, b in links)
    # n/2 links lead out of a switch, and each of its hosts sends over one.
    assert max(links.values()) == -(-rounds // (n // 2))


@pytest.mark.parametrize("routes_seed", range(3))
@pytest.mark.parametrize("spec", ["bigraph:n=8,m=2", "bigraph:n=8,m=4", "bigraph:n=6,m=3"])
def test_a_ring_alternating_shares_no_link_of_a_bigraph_in_any_phase(spec: str, routes_seed: int) -> None:
    fabric = parse_fabric(spec)
    assert most_flows_together(fabric, "alternating", len(fabric.hosts), routes_seed) == 1


def test_hdrms_ranks_make_a_ring_share_links_which_alternating_is_for() -> None:
    # A ring in HDRM's order has two flows on a link (the table of multipliers: 2.0 on 16 ranks).
    assert most_flows_together(parse_fabric("bigraph:n=8,m=2"), "hdrm", 16, seed=0) >= 2


@pytest.mark.parametrize(
    ("spec", "n_ranks", "reason"),
    [
        (
            "leaf-spine:leaves=4,spines=2,hosts=2",
            8,
            "on a BiGraph, not on a leaf-spine; by-leaf puts a ring's",
        ),
        ("torus:x=4,y=4", 16, "on a BiGraph, not on a torus; by-leaf"),
        ("bigraph:n=8,m=2", 12, "round all 8 switches once or several times: it needs 8 or 16 ranks, got 12"),
        ("bigraph:n=4,m=5", 7, "it needs 4, 8, ..., 20 ranks, got 7"),
    ],
)
def test_alternating_is_refused_where_it_makes_no_sense(spec: str, n_ranks: int, reason: str) -> None:
    with pytest.raises(Refused, match=re.escape(reason)):
        place("alternating", parse_fabric(spec), n_ranks, seed=0)


@pytest.mark.parametrize("name", ["linear", "random", "by-leaf", "cyclic"])
@pytest.mark.parametrize("n_ranks", [1, 5, 16])
def test_every_rank_has_a_host_of_its_own(name: str, n_ranks: int) -> None:
    fabric = parse_fabric("fat-tree:k=4")
    hosts = place(name, fabric, n_ranks, seed=3)
    assert len(set(hosts)) == n_ranks
    assert set(hosts) <= set(fabric.hosts)


def test_random_depends_on_the_seed_and_on_nothing_else() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    draws = {place("random", fabric, 16, seed) for seed in range(50)}
    assert len(draws) == 50
    assert place("random", fabric, 16, seed=7) == place("random", fabric, 16, seed=7)


def test_random_puts_a_rank_everywhere_about_equally_often() -> None:
    fabric = parse_fabric("star:hosts=4")
    first = [place("random", fabric, 4, seed)[0] for seed in range(400)]
    assert all(70 <= first.count(host) <= 130 for host in fabric.hosts)  # 100 ± 3.5 sigma


@pytest.mark.parametrize("name", PLACEMENTS)
def test_more_ranks_than_hosts_are_refused(name: str) -> None:
    with pytest.raises(Refused, match="9 ranks need 9 hosts, but bigraph:n=4,m=2 has 8"):
        place(name, parse_fabric("bigraph:n=4,m=2"), 9, seed=0)


def test_an_unknown_placement_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there is no placement 'best'; choose from linear, random, hdrm"):
        place("best", parse_fabric("star:hosts=4"), 2, seed=0)


@pytest.mark.parametrize(
    ("spec", "comes_round"), [("torus:x=4,y=4", True), ("torus:x=4,y=3", True), ("mesh:x=3,y=4", False)]
)
def test_the_ranks_of_a_snake_are_neighbours(spec: str, comes_round: bool) -> None:
    fabric = parse_fabric(spec)
    nodes = [access_switch(fabric, host) for host in place("snake", fabric, len(fabric.hosts), seed=0)]
    assert all(b in fabric.neighbours[a].values() for a, b in pairwise(nodes))
    assert (nodes[0] in fabric.neighbours[nodes[-1]].values()) == comes_round
    with pytest.raises(Refused, match="on a torus or a mesh, not on a star; by-leaf"):
        place("snake", parse_fabric("star:hosts=4"), 4, seed=0)


@pytest.mark.parametrize(("side", "ring", "two_d"), [(4, 3.0, 1.2), (8, 3.7, 1.65)])
def test_on_a_torus_rings_take_as_much_longer_than_multitree_as_its_paper_says(
    side: int, ring: float, two_d: float
) -> None:
    """Huang et al., ISCA 2021, large messages; each within 5 %."""
    fabric = parse_fabric(f"torus:x={side},y={side}")
    job = Experiment(made_allreduce(side * side, 64 << 20), "test")
    time_s = {
        name: plan_of(Cell(fabric, name, placement, "ecmp"), job).prediction.fluid_s
        for name, placement in (("ring", "snake"), ("2d-ring", "linear"), ("multitree", "linear"))
    }
    assert time_s["ring"] / time_s["multitree"] == pytest.approx(ring, rel=0.05)
    assert time_s["2d-ring"] / time_s["multitree"] == pytest.approx(two_d, rel=0.05)

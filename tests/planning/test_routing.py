"""Routing policies: every path is a shortest one, and the choice is the published one."""

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import EntryPoint, EntryPoints
from ipaddress import IPv4Address
from itertools import permutations

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.flowhash import flow_hash, switch_salt
from gradwire.planning.plan import Flow
from gradwire.planning.plancheck import check_path
from gradwire.planning.refused import Refused
from gradwire.planning.resolve import flows_of
from gradwire.planning.routing import policies
from gradwire.planning.routing.oblivious import dmodk
from gradwire.planning.routing.policies import policy, policy_names
from gradwire.planning.routing.shortest import Path, next_ports
from tests.made_graphs import graph
from tests.made_plans import allreduce_plan, messages

SPECS = [
    "fat-tree:k=4",
    "fat-tree:k=4,levels=2",
    "leaf-spine:leaves=3,spines=4,hosts=2",
    "bigraph:n=4,m=2",
    "bigraph:n=6,m=4",
    "star:hosts=5",
    "torus:x=4,y=4",
    "torus:x=3,y=5",
    "mesh:x=3,y=4",
]


def all_pairs(fabric: Fabric, seed: int = 0) -> tuple[Flow, ...]:
    n_ranks = len(fabric.hosts)
    schedule = messages(n_ranks, [(src, dst, 1) for src, dst in permutations(range(n_ranks), 2)])
    return tuple(flows_of(fabric, fabric.hosts, schedule, seed))


def routed(name: str, fabric: Fabric, seed: int = 0) -> dict[tuple[int, int], Path]:
    flows = all_pairs(fabric, seed)
    paths = policy(name)(fabric, fabric.hosts, flows, messages(len(fabric.hosts), []), seed)
    return {(flow.src, flow.dst): tuple(path) for flow, path in zip(flows, paths, strict=True)}


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        *((name, spec) for name in ("ecmp", "dmodk", "planned") for spec in SPECS),
        *(("direct", spec) for spec in SPECS if spec.startswith("bigraph")),
    ],
)
def test_every_path_is_a_shortest_path(name: str, spec: str) -> None:
    fabric = parse_fabric(spec)
    cables = dict(nx.all_pairs_shortest_path_length(graph(fabric)))
    for (src, dst), path in routed(name, fabric).items():
        check_path(fabric, fabric.hosts[src], fabric.hosts[dst], path)
        assert len(path) == cables[fabric.hosts[src]][fabric.hosts[dst]]


def test_ecmp_takes_the_port_that_the_published_hash_names_at_every_switch() -> None:
    fabric, seed = parse_fabric("fat-tree:k=4"), 11
    plan = allreduce_plan(fabric.spec, placement="random", seed=seed)
    chosen = Counter[int]()
    for flow in plan.flows:
        target = fabric.peers[Egress(plan.placement[flow.dst], 0)].node
        for egress in flow.path[1:-1]:
            ports = next_ports(fabric, target)[egress.node]
            salt = switch_salt(fabric.dpid(egress.node), seed)
            source, destination = int(IPv4Address(flow.src_ip)), int(IPv4Address(flow.dst_ip))
            hashed = flow_hash(source, destination, 6, flow.sport, flow.dport, salt)
            assert egress.port == ports[hashed % len(ports)]
            chosen[len(ports)] += 1
    assert chosen[2] > 10  # there was a choice to make


def test_another_seed_gives_ecmp_other_paths() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    assert routed("ecmp", fabric, seed=1) != routed("ecmp", fabric, seed=2)


def test_ecmp_spreads_flows_over_all_equal_ports() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=4,hosts=16")
    spines = Counter(path[1].port for path in routed("ecmp", fabric).values() if len(path) == 4)
    assert all(96 <= n <= 160 for n in spines.values())  # 512 flows on 2 x 4 uplinks: 128 ± 3 sigma
    assert len(spines) == 4


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "fat-tree:k=6", "fat-tree:k=8", "fat-tree:k=4,levels=2"])
def test_dmodk_brings_all_traffic_of_a_host_down_one_tree(spec: str) -> None:
    fabric = parse_fabric(spec)
    last_up: dict[int, set[str]] = {}
    for (_, dst), path in routed("dmodk", fabric).items():
        top = max(
            (e.node for e in path[1:]),
            key=lambda node: ("edge", "leaf", "agg", "core", "spine").index(node.rstrip("0123456789")),
        )
        if top.startswith(("core", "spine")):
            last_up.setdefault(dst, set()).add(top)
    assert {len(tops) for tops in last_up.values()} == {1}
    n_tops = sum(switch.startswith(("core", "spine")) for switch in fabric.switches)
    assert len(set.union(*last_up.values())) == n_tops  # and the hosts use all of the tops


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "fat-tree:k=8", "fat-tree:k=8,levels=2"])
@pytest.mark.parametrize("shift", [1, 2, 3, 5, 8, 13])
def test_dmodk_gives_every_flow_of_a_shift_links_of_its_own(spec: str, shift: int) -> None:
    # Zahavi, JPDC 2012: shift permutations are contention-free on a full fat-tree with D-mod-k.
    fabric = parse_fabric(spec)
    n = len(fabric.hosts)
    schedule = messages(n, [(r, (r + shift) % n, 1) for r in range(n)])
    flows = [
        flow for flow in flows_of(fabric, fabric.hosts, schedule, 0) if flow.dst == (flow.src + shift) % n
    ]
    paths = dmodk(fabric, fabric.hosts, flows, schedule, 0)
    assert max(Counter(egress for path in paths for egress in path).values()) == 1


def test_direct_goes_through_the_switch_that_the_destinations_slot_names() -> None:
    fabric = parse_fabric("bigraph:n=6,m=4")
    for (src, dst), path in routed("direct", fabric).items():
        a, b = src // 4, dst // 4
        if a != b and (a < 3) == (b < 3):
            other = "lower" if a < 3 else "upper"
            assert path[2].node == f"{other}{dst % 4 % 3}"
        elif a != b:
            assert len(path) == 3


def test_dmodk_on_a_bigraph_is_direct() -> None:
    fabric = parse_fabric("bigraph:n=6,m=4")
    assert routed("dmodk", fabric) == routed("direct", fabric)


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "star:hosts=4", "torus:x=3,y=3"])
def test_direct_is_refused_off_a_bigraph(spec: str) -> None:
    with pytest.raises(Refused, match="only on a BiGraph"):
        routed("direct", parse_fabric(spec))


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="there is no routing policy 'magic'; choose from ecmp, dmodk, direct"
    ):
        policy("magic")


def first_uplink(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: object, seed: int
) -> list[Path]:
    """A policy of somebody else's: a path that stops at the first switch."""
    return [(Egress(placement[flow.src], 0),) for flow in flows]


@pytest.fixture
def somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = EntryPoints(
        [EntryPoint(n, "tests.planning.test_routing:first_uplink", policies.GROUP) for n in ("mine", "ecmp")]
    )
    monkeypatch.setattr(policies, "entry_points", offers.select)


@pytest.mark.usefixtures("somebody_elses")
def test_an_installed_package_can_add_a_policy_but_not_replace_one() -> None:
    assert policy_names() == (*policies.BUILT_IN, "mine")
    assert policy("mine").__name__ == "first_uplink"  # type: ignore[attr-defined]
    assert policy("ecmp").__name__ == "ecmp"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("somebody_elses")
def test_a_policy_whose_paths_do_not_arrive_is_found_out() -> None:
    with pytest.raises(ValueError, match=r"path h1 to h0 is broken .*: it ends at leaf0 after 1 hops"):
        allreduce_plan("fat-tree:k=4,levels=2", routes="mine")


@pytest.mark.parametrize(
    "path",
    [
        (),
        (Egress("h0", 0), Egress("leaf1", 1)),
        (Egress("h0", 0), Egress("leaf0", 9)),
        (Egress("h0", 0), Egress("leaf0", 2)),
    ],
)
def test_a_path_that_jumps_or_ends_elsewhere_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="path h0 to h2"):
        check_path(parse_fabric("fat-tree:k=4,levels=2"), "h0", "h2", path)


@pytest.mark.parametrize(
    "path",
    [
        (Egress("h0", 0), Egress("leaf0", 1), Egress("h0", 0), Egress("leaf0", 2)),
        (Egress("h0", 0), Egress("leaf0", 3), Egress("spine0", 1), Egress("leaf0", 2)),
    ],
)
def test_a_path_that_arrives_only_after_a_loop_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"path h0 to h1 .* after 4 hops"):
        check_path(parse_fabric("fat-tree:k=4,levels=2"), "h0", "h1", path)

"""What can be said of a fabric from its cabling alone: bisection, oversubscription, paths."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from emu.fabric import Fabric
from emu.paths import access_switch, distances, path_counts

EXACT_FAMILIES = ("star", "bigraph", "leaf-spine", "fat-tree")


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one fabric.

    `bisection_bps`: the least capacity, one way, between two halves of the hosts; an upper bound of it
    unless `bisection_is_exact`.  `oversubscription`: host-side over uplink capacity of the worst switch
    with hosts; 1.0 is full (and what a fabric without links between switches has).  `uplink_rate_bps` is
    the rate of those links, None without any.  `n_paths`: the numbers of equally short paths between two
    hosts that occur.  `diameter`: the most switches on a shortest path.  `n_ports`: switch ports in use.
    """

    n_hosts: int
    n_switches: int
    n_ports: int
    n_cables: int
    host_rate_bps: int
    uplink_rate_bps: int | None
    bisection_bps: int
    bisection_is_exact: bool
    oversubscription: float
    n_paths: tuple[int, ...]
    diameter: int

    @property
    def n_inner_cables(self) -> int:
        return self.n_cables - self.n_hosts


def figures(fabric: Fabric) -> Figures:
    n_paths, diameter = _shortest_paths(fabric)
    host_rate_bps, uplink_rate_bps = _rates(fabric)
    return Figures(
        n_hosts=len(fabric.hosts),
        n_switches=len(fabric.switches),
        n_ports=sum(len(fabric.ports[switch]) for switch in fabric.switches),
        n_cables=len(fabric.links),
        host_rate_bps=host_rate_bps,
        uplink_rate_bps=uplink_rate_bps,
        bisection_bps=bisection_bps(fabric),
        bisection_is_exact=fabric.family in EXACT_FAMILIES,
        oversubscription=oversubscription(fabric),
        n_paths=n_paths,
        diameter=diameter,
    )


def bisection_bps(fabric: Fabric) -> int:
    """Exact for EXACT_FAMILIES: the least over all cuts that symmetry leaves to look at.

    A cut puts some switches on one side and their hosts with them; hosts that must change sides so
    that both have half of them each add their own cable to the cut.
    """
    if fabric.family not in EXACT_FAMILIES:
        return _least_of_some_cuts_bps(fabric)
    host_bps, between_bps = _rates(fabric)
    inner_bps = between_bps or 0
    n_hosts = len(fabric.hosts)
    if fabric.family == "fat-tree" and fabric.shape["levels"] == 3:
        # Full bisection by construction (Al-Fares et al., SIGCOMM 2008) at the slower tier's rate.
        return n_hosts // 2 * min(host_bps, inner_bps)
    return min(
        n_inner * inner_bps + abs(n_moved - n_hosts // 2) * host_bps for n_inner, n_moved in _cuts(fabric)
    )


def _cuts(fabric: Fabric) -> Iterator[tuple[int, int]]:
    """(cables between switches that a cut severs, hosts on switches of one side)."""
    shape = fabric.shape
    match fabric.family:
        case "star":
            yield 0, 0
        case "bigraph":
            half, m = shape["n"] // 2, shape["m"]
            for upper in range(half + 1):
                for lower in range(half + 1):
                    yield upper * (half - lower) + lower * (half - upper), (upper + lower) * m
        case _:
            leaves, spines, m = _clos(fabric)
            for near in range(leaves // 2 + 1):  # the spines stay with the larger side
                yield spines * near, near * m


def _clos(fabric: Fabric) -> tuple[int, int, int]:
    """Leaves, spines and hosts per leaf of a leaf-spine or a fat-tree of two levels."""
    shape = fabric.shape
    if fabric.family == "fat-tree":
        return shape["k"], shape["k"] // 2, shape["k"] // 2
    return shape["leaves"], shape["spines"], shape["hosts"]


def _least_of_some_cuts_bps(fabric: Fabric) -> int:
    """What half of the hosts can send to the rest, the first half and every other one tried."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for egress, peer in fabric.peers.items():
        graph.add_edge(egress.node, peer.node, capacity=0)
    for egress, rate_bps in fabric.rates.items():
        graph.edges[egress.node, fabric.peers[egress].node]["capacity"] += rate_bps
    hosts = fabric.hosts
    return min(_cut_bps(graph, near, hosts) for near in (hosts[: len(hosts) // 2], hosts[1::2]))


def _cut_bps(graph: "nx.DiGraph[str]", near: Sequence[str], hosts: Sequence[str]) -> int:
    """The least capacity that separates `near` from the other hosts."""
    cut = graph.copy()
    # An edge without a capacity carries anything.
    cut.add_edges_from(("near", host) for host in near)
    cut.add_edges_from((host, "far") for host in hosts if host not in near)
    return int(nx.maximum_flow_value(cut, "near", "far"))


def oversubscription(fabric: Fabric) -> float:
    down: dict[str, int] = dict.fromkeys(fabric.switches, 0)
    up: dict[str, int] = dict.fromkeys(fabric.switches, 0)
    hosts = set(fabric.hosts)
    for end, peer in fabric.peers.items():
        if end.node not in hosts:
            side = down if peer.node in hosts else up
            side[end.node] += fabric.rates[end]
    return max(
        (down[switch] / up[switch] for switch in fabric.switches if up[switch] and down[switch]), default=1.0
    )


def _rates(fabric: Fabric) -> tuple[int, int | None]:
    """The rates of the hosts' cables and of those between switches, None if there are none."""
    hosts = set(fabric.hosts)
    inner = [link.rate_bps for link in fabric.links if link.a not in hosts]
    return fabric.links[0].rate_bps, min(inner, default=None)


def _shortest_paths(fabric: Fabric) -> tuple[tuple[int, ...], int]:
    """The numbers of shortest paths between two hosts, and the most switches on one."""
    n_hosts = Counter(access_switch(fabric, host) for host in fabric.hosts)
    numbers, diameter = set(), 1
    for start in n_hosts:
        far = distances(fabric, start)
        counts = path_counts(fabric, far)
        for switch in n_hosts:
            if switch != start or n_hosts[start] > 1:
                numbers.add(counts[switch])
                diameter = max(diameter, far[switch] + 1)
    return tuple(sorted(numbers)), diameter

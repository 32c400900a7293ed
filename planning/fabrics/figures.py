"""Figures of a fabric from its cabling alone: bisection, oversubscription, paths."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradwire.planning.fabrics.bisection import Cut, full_bps, worst_even_cut
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch, distances, path_counts


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one fabric.

    `bisection`: the least capacity, one way, between two halves of the hosts; `full_bps` is what half of
    the hosts could send.  `oversubscription`: host-side over uplink capacity of the worst switch with hosts;
    1.0 is full (and what a fabric without links between switches has).  `host_rate_bps` and
    `uplink_rate_bps` are those of the slowest cable to a host and between switches, None without any.
    `n_paths`: the numbers of equally short paths between two hosts that occur.  `diameter`: the most
    switches on a shortest path; `mean_switches`: their mean over all pairs of hosts (None of one host).
    `n_ports`: switch ports in use; `radix`: those of the switch that has the most.
    """

    n_hosts: int
    n_switches: int
    n_ports: int
    n_cables: int
    host_rate_bps: int
    uplink_rate_bps: int | None
    bisection: Cut
    full_bps: int
    oversubscription: float
    n_paths: tuple[int, ...]
    diameter: int
    mean_switches: float | None
    radix: int

    @property
    def n_inner_cables(self) -> int:
        return self.n_cables - self.n_hosts

    @property
    def worst_ratio(self) -> float:
        """How many times what its worst even cut carries half of the hosts could send: N of N:1."""
        return self.full_bps / self.bisection.bps


def figures(fabric: Fabric) -> Figures:
    """All figures of a fabric that has hosts."""
    n_paths, diameter, mean_switches = shortest_paths(fabric)
    n_ports = [len(fabric.ports[switch]) for switch in fabric.switches]
    host_rate_bps, uplink_rate_bps = slowest_rates(fabric)
    return Figures(
        n_hosts=len(fabric.hosts),
        n_switches=len(fabric.switches),
        n_ports=sum(n_ports),
        n_cables=len(fabric.links),
        host_rate_bps=host_rate_bps,
        uplink_rate_bps=uplink_rate_bps,
        bisection=worst_even_cut(fabric),
        full_bps=full_bps(fabric),
        oversubscription=oversubscription(fabric),
        n_paths=n_paths,
        diameter=diameter,
        mean_switches=mean_switches,
        radix=max(n_ports),
    )


def oversubscription(fabric: Fabric) -> float:
    """Host-side over uplink capacity of the worst switch with hosts and uplinks; 1.0 if there is none."""
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


def slowest_rates(fabric: Fabric) -> tuple[int, int | None]:
    """The lowest rates of the hosts' cables and of those between switches, None if there are none."""
    inner = [link.rate_bps for link in fabric.inner_links]
    return min(link.rate_bps for link in fabric.host_links), min(inner, default=None)


def shortest_paths(fabric: Fabric) -> tuple[tuple[int, ...], int, float | None]:
    """The numbers of shortest paths between two hosts, the most switches on one, and their mean."""
    n_hosts = Counter(access_switch(fabric, host) for host in fabric.hosts)
    numbers: set[int] = set()
    diameter, n_pairs, n_switches = 1, 0, 0
    for twins in _twins(fabric, n_hosts):
        start = twins[0]
        far = distances(fabric, start)
        counts = path_counts(fabric, far)
        for switch, pairs in _pairs_to(twins, n_hosts):
            if pairs:
                numbers.add(counts[switch])
                diameter = max(diameter, far[switch] + 1)
                n_pairs += pairs
                n_switches += pairs * (far[switch] + 1)
    return tuple(sorted(numbers)), diameter, n_switches / n_pairs if n_pairs else None


def has_one_path(fabric: Fabric) -> bool:
    """Whether no two hosts have a choice of shortest paths."""
    return set(shortest_paths(fabric)[0]) <= {1}  # a single host has none to anybody


def _twins(fabric: Fabric, with_hosts: Iterable[str]) -> Iterable[list[str]]:
    """Switches with the same cables to the same switches, such as all leaves of a leaf-spine: each of them is
    as far from any other switch, by as many paths, and any two of them are as far from each other.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for switch in with_hosts:
        peers = (peer for peer in fabric.neighbours[switch].values() if peer not in fabric.host_set)
        alike.setdefault(tuple(sorted(peers)), []).append(switch)
    return alike.values()


def _pairs_to(twins: Sequence[str], n_hosts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """How many pairs of hosts are at the twins and at each switch, as seen from the first twin; those at the
    second one are of any two twins.
    """
    here = [n_hosts[switch] for switch in twins]
    yield twins[0], sum(n * (n - 1) for n in here)  # of one switch
    if len(twins) > 1:
        yield twins[1], sum(here) ** 2 - sum(n**2 for n in here)
    for switch in n_hosts.keys() - twins:
        yield switch, sum(here) * n_hosts[switch]

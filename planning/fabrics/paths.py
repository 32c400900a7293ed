"""Distances between a fabric's switches, and the number of shortest paths between them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from gradwire.planning.fabrics.fabric import HOST_PORT, Egress, Fabric
from gradwire.traces.schedules.algorithms.graph import Graph


def host_port(host: str) -> Egress:
    """The port that `host` sends from: it has one."""
    return Egress(host, HOST_PORT)


def access_port(fabric: Fabric, host: str) -> Egress:
    """The switch's port that sends to `host`."""
    return fabric.peers[host_port(host)]


def access_switch(fabric: Fabric, host: str) -> str:
    """The switch that `host` is cabled to."""
    return access_port(fabric, host).node


def distances(fabric: Fabric, switch: str) -> dict[str, int]:
    """Cables between each switch and `switch`, nearest first; switches not connected to it are absent.

    No path leads through a host.
    """
    inner = set(fabric.switches)
    far = {switch: 0}
    ring = [switch]
    while ring:
        further = []
        for node in ring:
            for peer in fabric.neighbours[node].values():
                if peer in inner and peer not in far:
                    far[peer] = far[node] + 1
                    further.append(peer)
        ring = further
    return far


def path_counts(fabric: Fabric, far: Mapping[str, int]) -> dict[str, int]:
    """The number of shortest paths to each switch from the one whose `distances` are `far`."""
    counts: dict[str, int] = {}
    for switch, distance in far.items():  # those nearer come first
        nearer = [peer for peer in fabric.neighbours[switch].values() if far.get(peer) == distance - 1]
        counts[switch] = sum(counts[peer] for peer in nearer) if distance else 1
    return counts


def graph_of(fabric: Fabric, placement: Sequence[str]) -> Graph:
    """`placement` has the host of each rank.  The slowest cable carries one message a step.

    Others carry as many more as they are whole times as fast; cables between the same two nodes add up.
    """
    slowest_bps = min((link.rate_bps for link in fabric.links), default=1)
    capacity: Counter[tuple[str, str]] = Counter()
    for node, peers in fabric.neighbours.items():
        for port, peer in peers.items():
            capacity[node, peer] += fabric.rates[Egress(node, port)] // slowest_bps
    return Graph((*fabric.hosts, *fabric.switches), fabric.hosts, tuple(placement), dict(capacity))

"""A fabric as the plain graph for which schedules are made (`traces.schedules.algorithms.multitree`)."""

from collections import Counter
from collections.abc import Sequence

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.traces.schedules.algorithms.graph import Graph


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

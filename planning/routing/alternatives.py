"""All shortest paths between two hosts, one after the other: for who moves a flow."""

from collections.abc import Iterator
from itertools import islice

from planning.fabrics.fabric import Egress, Fabric
from planning.fabrics.paths import access_port, host_port
from planning.routing.shortest import NextPorts, Path, next_ports

MOST_PATHS = 256  # looked at for one flow: a fat-tree of k = 32 has so many


class Alternatives:
    """The paths of one fabric; what was worked out for a switch is kept for the next flow towards it.

    The fabric may lack cables: a host may be cut off, and switches may be without a way to each other.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._towards: dict[str, NextPorts] = {}

    def paths(self, source: str, destination: str) -> list[Path]:
        """At most MOST_PATHS, in the order of their port numbers; none if there is no way."""
        fabric = self._fabric
        if source not in fabric.ports or destination not in fabric.ports:
            return []
        first, last = host_port(source), access_port(fabric, destination)
        here = fabric.peers[first].node
        if last.node not in self._towards:
            self._towards[last.node] = next_ports(fabric, last.node)
        ways = islice(self._ways(here, last.node), MOST_PATHS)
        return [(first, *way, last) for way in ways]

    def _ways(self, here: str, target: str) -> Iterator[Path]:
        """From switch to switch; a step never leads away, so the depth is the fabric's diameter."""
        if here == target:
            yield ()
            return
        for port in self._towards[target].get(here, ()):
            step = Egress(here, port)
            for way in self._ways(self._fabric.peers[step].node, target):
                yield (step, *way)

"""The links between a fabric's switches, by number, and all shortest paths over them."""

from collections.abc import Iterator, Sequence
from itertools import islice

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_port, host_port
from gradwire.planning.plan import Flow
from gradwire.planning.routing.shortest import NextPorts, Path, next_ports
from gradwire.planning.transport import payload_efficiency

Way = tuple[int, ...]
MOST_PATHS = 256  # looked at for one flow: a fat-tree of k = 32 has that many


"""The numbers of the links between switches that a path takes."""


class Links:
    """The fabric may lack cables: a host may be cut off, and switches may be without a way to each other."""

    def __init__(self, fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow]) -> None:
        switches = set(fabric.switches)
        inner = [end for end, far in fabric.peers.items() if end.node in switches and far.node in switches]
        self.fabric = fabric
        self._hosts = [(placement[flow.src], placement[flow.dst]) for flow in flows]
        self._alternatives = Alternatives(fabric)
        self._known: dict[tuple[str, str], tuple[Way, ...]] = {}
        self._number = {egress: number for number, egress in enumerate(inner)}
        self._egress = inner
        self._access = {host: access_port(fabric, host) for host in fabric.hosts if host in fabric.ports}
        eta = payload_efficiency(fabric.mtu_nbytes)
        self.s_per_byte = [8 / (fabric.rates[egress] * eta) for egress in inner]

    def ends(self, flow: int) -> tuple[str, str]:
        """The switches at which a flow enters and leaves the fabric; its hosts have cables."""
        source, destination = self._hosts[flow]
        return self._access[source].node, self._access[destination].node

    def ways(self, flow: int) -> tuple[Way, ...]:
        """The shortest ways of a flow; none if its hosts are cut off from each other."""
        source, destination = self._hosts[flow]
        if source not in self._access or destination not in self._access:
            return ()
        ends = self.ends(flow)
        if ends not in self._known:
            paths = self._alternatives.paths(source, destination)
            self._known[ends] = tuple(self.way(path) for path in paths)
        return self._known[ends]

    def way(self, path: Sequence[Egress]) -> Way:
        """The way of a path; cables that this fabric lacks are left out."""
        return tuple([self._number[egress] for egress in path if egress in self._number])

    def path(self, flow: int, way: Way) -> Path:
        """The path, from host to host, of a flow that takes this way."""
        source, destination = self._hosts[flow]
        return (host_port(source), *(self._egress[link] for link in way), self._access[destination])


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
        start = fabric.peers[first].node
        if last.node not in self._towards:
            self._towards[last.node] = next_ports(fabric, last.node)
        ways = islice(self._ways(start, last.node), MOST_PATHS)
        return [(first, *way, last) for way in ways]

    def _ways(self, switch: str, target: str) -> Iterator[Path]:
        """From switch to switch; a step never leads away, so the depth is the fabric's diameter."""
        if switch == target:
            yield ()
            return
        for port in self._towards[target].get(switch, ()):
            step = Egress(switch, port)
            for way in self._ways(self._fabric.peers[step].node, target):
                yield (step, *way)

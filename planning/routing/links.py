"""The links between switches of one fabric by number, and the ways of flows over them."""

from collections.abc import Sequence

from planning.fabrics.fabric import Egress, Fabric
from planning.fabrics.paths import access_port, host_port
from planning.plan import Flow
from planning.routing.alternatives import Alternatives
from planning.routing.shortest import Path
from planning.transport import payload_efficiency

Way = tuple[int, ...]
"""The numbers of the links between switches that a path takes."""


class Links:
    """The fabric may lack cables: a host may be cut off, and switches may be without a way to each other."""

    def __init__(self, fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow]) -> None:
        switches = set(fabric.switches)
        inner = [end for end, far in fabric.peers.items() if end.node in switches and far.node in switches]
        self._fabric = fabric
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
            found = self._alternatives.paths(source, destination)
            self._known[ends] = tuple(self.way(path) for path in found)
        return self._known[ends]

    def way(self, path: Sequence[Egress]) -> Way:
        """The way of a path; cables that this fabric lacks are left out."""
        return tuple([self._number[egress] for egress in path if egress in self._number])

    def path(self, flow: int, way: Way) -> Path:
        """The path, from host to host, of a flow that takes this way."""
        source, destination = self._hosts[flow]
        return (host_port(source), *(self._egress[link] for link in way), self._access[destination])

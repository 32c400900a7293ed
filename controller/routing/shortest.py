"""Shortest paths, and the walk along them that chooses a port wherever several are equally short."""

from collections.abc import Callable, Iterator, Sequence

from emu.fabric import Egress, Fabric
from emu.plan import Flow

Path = tuple[Egress, ...]
NextPorts = dict[str, tuple[int, ...]]
Choose = Callable[[str, tuple[int, ...], Flow, int], int]
"""(switch, equally short ports in ascending order, flow, stride) -> which of them: an index.

`stride` is the product of the numbers of ports the flow has chosen among so far, 1 at the first.
"""


def access_switch(fabric: Fabric, host: str) -> str:
    """The switch that `host` is cabled to."""
    return fabric.peers[Egress(host, fabric.ports[host][0])].node


def distances(fabric: Fabric, switch: str) -> dict[str, int]:
    """Cables between each switch and `switch`; switches that are not connected to it are absent."""
    inner = set(fabric.switches)
    found = {switch: 0}
    ring = [switch]
    while ring:
        further = []
        for node in ring:
            for port in fabric.ports[node]:
                peer = fabric.peers[Egress(node, port)].node
                if peer in inner and peer not in found:
                    found[peer] = found[node] + 1
                    further.append(peer)
        ring = further
    return found


def next_ports(fabric: Fabric, switch: str) -> NextPorts:
    """The ports, ascending, through which every other switch is one cable nearer to `switch`."""
    far = distances(fabric, switch)
    return {
        node: tuple(
            port
            for port in fabric.ports[node]
            if far.get(fabric.peers[Egress(node, port)].node) == distance - 1
        )
        for node, distance in far.items()
        if distance
    }


def walks(fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], choose: Choose) -> Iterator[Path]:
    """The path of each flow, in their order, when `choose` decides at every switch with a choice."""
    towards: dict[str, NextPorts] = {}
    for flow in flows:
        target = access_switch(fabric, placement[flow.dst])
        if target not in towards:
            towards[target] = next_ports(fabric, target)
        yield _walk(fabric, placement, flow, towards[target], choose)


def _walk(fabric: Fabric, placement: Sequence[str], flow: Flow, towards: NextPorts, choose: Choose) -> Path:
    source, destination = placement[flow.src], placement[flow.dst]
    last = fabric.peers[Egress(destination, fabric.ports[destination][0])]
    path = [Egress(source, fabric.ports[source][0])]
    here = access_switch(fabric, source)
    stride = 1
    while here != last.node:
        ports = towards[here]
        path.append(Egress(here, ports[choose(here, ports, flow, stride) if len(ports) > 1 else 0]))
        stride *= len(ports)
        here = fabric.peers[path[-1]].node
    return (*path, last)

"""Shortest paths, and a walk along them that chooses a port wherever several are equally short."""

from collections.abc import Callable, Iterator, Sequence

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_port, access_switch, distances, host_port
from gradwire.planning.plan import Flow

Path = tuple[Egress, ...]
NextPorts = dict[str, tuple[int, ...]]
Choose = Callable[[str, tuple[int, ...], Flow, int], int]
"""(switch, equally short ports in ascending order, flow, stride) -> which of them: an index.

`stride` is the product of the numbers of ports the flow has chosen among so far, 1 at the first.
"""


def next_ports(fabric: Fabric, switch: str) -> NextPorts:
    """The ports, ascending, through which every other switch is one cable nearer to `switch`."""
    far = distances(fabric, switch)
    return {
        node: tuple(port for port, peer in fabric.neighbours[node].items() if far.get(peer) == distance - 1)
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
    source = placement[flow.src]
    last = access_port(fabric, placement[flow.dst])
    path = [host_port(source)]
    switch = access_switch(fabric, source)
    stride = 1
    while switch != last.node:
        ports = towards[switch]
        path.append(Egress(switch, ports[choose(switch, ports, flow, stride) if len(ports) > 1 else 0]))
        stride *= len(ports)
        switch = fabric.peers[path[-1]].node
    return (*path, last)

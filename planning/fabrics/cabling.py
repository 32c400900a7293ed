"""Cables as a user wrote them: numbers their ports, and refuses what cannot be a fabric."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import MAX_INTERFACE_NAME, Link, Wire, interface
from gradwire.traces.components import components


class BadCabling(ValueError):
    """What cannot be a fabric; `place` is where in the document, as `("links", 3)`."""

    def __init__(self, text: str, *place: str | int) -> None:
        super().__init__(text)
        self.place = place


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable whose ports may still have to be numbered; `line` is its place in the list of `links`."""

    line: int
    a: str
    a_port: int | None
    b: str
    b_port: int | None
    wire: Wire

    @property
    def ends(self) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
        return (self.a, self.a_port), (self.b, self.b_port)


def check_nodes(hosts: Sequence[str], switches: Sequence[str]) -> None:
    """Raise BadCabling for a name that is listed twice, and for fewer than two hosts."""
    times = Counter((*hosts, *switches))
    for key, names in (("hosts", hosts), ("switches", switches)):
        for name in names:
            if times[name] > 1:
                raise BadCabling(f"two nodes are named {name}", key)
    if len(hosts) < 2:
        raise BadCabling("a fabric needs at least 2 hosts, this one has 1", "hosts")


def cabled(hosts: Collection[str], switches: Collection[str], cables: Sequence[Cable]) -> tuple[Link, ...]:
    """The cables with all their ports: those named, the others from 1 in the order of the cables.

    A host has port 0 and no other.  Raise BadCabling for cables that cannot be.
    """
    taken: set[tuple[str, int]] = set()
    for cable in cables:
        for node, port in _checked_ends(cable, hosts, switches):
            if port is not None:
                _take(taken, node, port, cable.line)
    next_port: defaultdict[str, int] = defaultdict(lambda: 1)

    def port_of(node: str, port: int | None) -> int:
        if port is not None:
            return port
        while (node, next_port[node]) in taken:
            next_port[node] += 1
        next_port[node] += 1
        return next_port[node] - 1

    links = []
    for cable in cables:
        a_port, b_port = (port_of(node, port) for node, port in _checked_ends(cable, hosts, switches))
        for name in (interface(cable.a, a_port), interface(cable.b, b_port)):
            if len(name) > MAX_INTERFACE_NAME:
                raise BadCabling(
                    f"interface {name} has {len(name)} characters, Linux allows {MAX_INTERFACE_NAME}: "
                    "use shorter names",
                    *("links", cable.line),
                )
        wire = cable.wire
        links.append(Link(cable.a, a_port, cable.b, b_port, wire.rate_bps, wire.queue_nbytes, wire.delay_ns))
    _check_connected(hosts, switches, links)
    return tuple(links)


def _take(taken: set[tuple[str, int]], node: str, port: int, line: int) -> None:
    if (node, port) in taken:
        twice = f"port {port} of {node} is cabled twice" if port else f"host {node} has two cables"
        raise BadCabling(f"{twice}{'' if port else '; a host can have only one'}", "links", line)
    taken.add((node, port))


def _checked_ends(
    cable: Cable, hosts: Collection[str], switches: Collection[str]
) -> tuple[tuple[str, int | None], ...]:
    """Both ends, a host's with its port."""
    place = ("links", cable.line)
    for node, port in cable.ends:
        if node not in hosts and node not in switches:
            raise BadCabling(f"there is no host or switch {node}", *place)
        if node in hosts and port not in (None, 0):
            raise BadCabling(f"host {node} has only port 0, got port {port}", *place)
        if node in switches and port == 0:
            raise BadCabling(f"the ports of switch {node} are numbered from 1, got port 0", *place)
    if cable.a == cable.b:
        raise BadCabling(f"{cable.a} is cabled to itself", *place)
    if cable.a in hosts and cable.b in hosts:
        raise BadCabling(f"{cable.a} and {cable.b} are both hosts; cable each host to a switch", *place)
    return tuple((node, 0 if node in hosts else port) for node, port in cable.ends)


def _check_connected(hosts: Collection[str], switches: Collection[str], links: Sequence[Link]) -> None:
    cabled = {node for link in links for node in (link.a, link.b)}
    first = next(iter(hosts))
    reached = set(components([*hosts, *switches], ((link.a, link.b) for link in links))[0])
    for key, nodes in (("hosts", hosts), ("switches", switches)):
        for node in nodes:
            if node not in reached:
                why = f"cannot be reached from {first}" if node in cabled else "has no cable"
                raise BadCabling(f"{key.removesuffix('s').removesuffix('e')} {node} {why}", key)

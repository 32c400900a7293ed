"""A fabric: hosts, switches, and the cables between their ports.  Pure data."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

MAX_HOSTS = 65_000  # of a /16
MAX_RATE_BPS = 100_000_000_000
HOST_PORT = 0  # the only port of a host, as in Mininet's `h0-eth0`, and of no switch
MAX_INTERFACE_NAME = 15  # Linux's IFNAMSIZ less its final zero
# Whom hosts send to what switches are to add up, and who the switches' sums come from.  Nobody has this
# address: with MAX_HOSTS the last host has 10.0.253.232.
AGGREGATOR_IP, AGGREGATOR_MAC = "10.0.255.254", "02:00:0a:00:ff:fe"
BROADCAST_IP = "10.0.255.255"  # of the hosts' network, a /16
ETHERNET_NBYTES = 14  # before each packet, as HTB counts it: no checksum, no preamble
DEFAULT_MTU_NBYTES = 1500


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex cable from port `a_port` of `a` to port `b_port` of `b`, both ways alike.

    `queue_nbytes` is the queue before it at either end; None means `auto`, a queue that never drops what
    the plan does not oversubscribe.  `delay_ns` is what it delays one way.
    """

    a: str
    a_port: int
    b: str
    b_port: int
    rate_bps: int
    queue_nbytes: int | None = None
    delay_ns: int = 0


@dataclass(frozen=True, slots=True)
class Wire:
    """What a cable is like, whatever it joins; the fields mean what they do in a `Link`."""

    rate_bps: int
    queue_nbytes: int | None = None
    delay_ns: int = 0


class Egress(NamedTuple):
    """One direction of a cable, named by the port that sends into it.

    A tuple because plans are worked out by looking up millions of these, and a tuple's hash is quick.
    """

    node: str
    port: int


@dataclass(frozen=True)
class Fabric:
    """Names and numbers here are final: network, switch and controller all obey them.

    `spec` rebuilds it (`planning.fabrics.spec.parse_fabric`), but for a fabric from a file, family `file`,
    whose name it is (`planning.fabrics.fabricdocument` writes all of it).
    `shape` are the family's own numbers, e.g. {"n": 4, "m": 2} of a BiGraph.  `mtu_nbytes` is the longest IP
    packet on any of its cables.
    """

    spec: str
    family: str
    shape: Mapping[str, int] = field(hash=False)
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]
    mtu_nbytes: int = DEFAULT_MTU_NBYTES

    def __post_init__(self) -> None:
        if len(self.hosts) > MAX_HOSTS:
            raise ValueError(
                f"the fabric has {len(self.hosts):,} hosts; gradwire plans at most {MAX_HOSTS:,}"
            )
        for link in self.links:
            if not 0 < link.rate_bps <= MAX_RATE_BPS:
                raise ValueError(f"a link needs a rate above 0 and up to 100G, got {link.rate_bps} bit/s")

    @cached_property
    def _index(self) -> dict[str, int]:
        names = (*self.hosts, *self.switches)
        index = {name: i for i, name in enumerate(self.hosts)}
        index |= {name: i for i, name in enumerate(self.switches)}
        if len(index) != len(names):
            raise ValueError("two nodes of a fabric have the same name")
        return index

    @property
    def frame_nbytes(self) -> int:
        """A full frame."""
        return ETHERNET_NBYTES + self.mtu_nbytes

    @cached_property
    def host_set(self) -> frozenset[str]:
        return frozenset(self.hosts)

    def dpid(self, switch: str) -> int:
        return self._index[switch] + 1

    def switch_at(self, dpid: int) -> str:
        return self.switches[dpid - 1]

    def ip(self, host: str) -> str:
        high, low = divmod(self._index[host] + 1, 256)
        return f"10.0.{high}.{low}"

    def mac(self, host: str) -> str:
        high, low = divmod(self._index[host] + 1, 256)
        return f"02:00:0a:00:{high:02x}:{low:02x}"

    @cached_property
    def peers(self) -> dict[Egress, Egress]:
        """The far end of the cable at each port."""
        ends = {}
        for link in self.links:
            a, b = Egress(link.a, link.a_port), Egress(link.b, link.b_port)
            ends[a], ends[b] = b, a
        return ends

    @cached_property
    def cables(self) -> dict[Egress, Link]:
        """The cable at each port."""
        cables = {}
        for link in self.links:
            cables[Egress(link.a, link.a_port)] = cables[Egress(link.b, link.b_port)] = link
        return cables

    @cached_property
    def host_links(self) -> tuple[Link, ...]:
        """The cables of hosts."""
        return tuple(link for link in self.links if not self.host_set.isdisjoint((link.a, link.b)))

    @cached_property
    def inner_links(self) -> tuple[Link, ...]:
        """The cables between switches."""
        return tuple(link for link in self.links if self.host_set.isdisjoint((link.a, link.b)))

    @cached_property
    def rates(self) -> dict[Egress, int]:
        """The rate, in bit/s, of each direction of each cable."""
        return {end: link.rate_bps for end, link in self.cables.items()}

    @property
    def host_rates_bps(self) -> tuple[int, ...]:
        """The rates that the hosts' cables have, ascending."""
        return tuple(sorted({link.rate_bps for link in self.host_links}))

    @property
    def inner_rates_bps(self) -> tuple[int, ...]:
        """The rates that the cables between switches have, ascending."""
        return tuple(sorted({link.rate_bps for link in self.inner_links}))

    @cached_property
    def ports(self) -> dict[str, tuple[int, ...]]:
        """The port numbers of each node, ascending."""
        ports: defaultdict[str, list[int]] = defaultdict(list)
        for end in self.peers:
            ports[end.node].append(end.port)
        return {node: tuple(sorted(numbers)) for node, numbers in ports.items()}

    @cached_property
    def neighbours(self) -> dict[str, dict[int, str]]:
        """The node at the far end of each port of each node, ports ascending."""
        return {
            node: {port: self.peers[Egress(node, port)].node for port in numbers}
            for node, numbers in self.ports.items()
        }


def interface(node: str, port: int) -> str:
    """The interface's name as Mininet would choose it: `edge0-eth3`."""
    return f"{node}-eth{port}"


def link_name(fabric: Fabric, egress: Egress) -> str:
    """One direction of a cable for a person: `edge0→core1`."""
    return f"{egress.node}→{fabric.peers[egress].node}"


def cable(hosts: Collection[str], cables: Iterable[tuple[str, str, Wire]]) -> tuple[Link, ...]:
    """Number the ports of every node 1, 2, 3... in cabling order; a cable is (a, b, what it is like).

    Hosts have one port, HOST_PORT.
    """
    used: defaultdict[str, int] = defaultdict(int)

    def next_port(node: str) -> int:
        if node in hosts:
            return HOST_PORT
        used[node] += 1
        return used[node]

    return tuple(
        Link(a, next_port(a), b, next_port(b), wire.rate_bps, wire.queue_nbytes, wire.delay_ns)
        for a, b, wire in cables
    )

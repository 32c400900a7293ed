"""Aggregation trees: which switch adds up what arrives on which ports.  Values of a plan.

A *reduce group* is who contributes to a sum (givers) and who gets it (takers).  Each of a plan has a tree:
its nodes are switches, its leaves the hosts of the group's ranks.  Every host of the group is a child,
whether it gives, takes or both: a child that only takes says that it is ready by bare packets, one that only
gives learns by bare results that its aggregation slot is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES, Egress, Fabric
from gradwire.traces.framing.aggregation import ELEMENT_NBYTES, HEADER_NBYTES

MAX_CHILDREN = 64
ELEMENTS = (64, 256, 2048)  # in a packet that a switch can add up
DEFAULT_ELEMENTS = 256
LEAST_SLOTS = 8  # with fewer the latency of a slot's round decides, and not the links
SWITCH_SLOTS = 1024  # that a switch has for all its trees
MAX_SWITCH_SLOTS = 0xFFFF  # a rule has 16 bits for them
MAX_POOLS = 4096  # jobs that are added up, each at each of its switches: the sizes of pools.h
SMALL_ELEMENTS = 256  # an aggregation slot of up to this many is a small one
MAX_SMALL_SLOTS, MAX_LARGE_SLOTS = 131_072, 32_768  # of all switches together
PACKET_HEADERS_NBYTES = 20 + 8 + HEADER_NBYTES  # IPv4, UDP and our own


@dataclass(frozen=True, slots=True)
class Child:
    """`port` is the switch's towards the child, a host or a switch."""

    port: int
    gives: bool = True
    takes: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A switch of a tree.  A child's index is its position, and its bit in the switch's bitmap.

    `parent_port` leads to the switch above; the root has None.
    """

    switch: str
    children: tuple[Child, ...]
    parent_port: int | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """`givers` and `takers` are ranks, ascending; `nodes` begin with the root, each after its parent.

    `job` is the tree's number on the wire, from 1; a job of the schedule may have several trees.  `udp_port`
    is the tree's own in its plan.  `slots` are the aggregation slots that each of its switches grants it,
    `elements` is the most that a packet carries.
    """

    job: int
    givers: tuple[int, ...]
    takers: tuple[int, ...]
    udp_port: int
    slots: int
    elements: int
    nodes: tuple[Node, ...]
    epoch: int = 0

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(sorted({*self.givers, *self.takers}))

    @property
    def frame_nbytes(self) -> int:
        """A full packet's Ethernet frame, without FCS."""
        return ETHERNET_NBYTES + mtu_needed(self.elements)

    @property
    def efficiency(self) -> float:
        """The payload's share of a full frame."""
        return self.elements * ELEMENT_NBYTES / self.frame_nbytes

    def n_chunks(self, nbytes: int) -> int:
        """Packets with elements that a sum of `nbytes` takes on each link that carries it."""
        return -(-nbytes // (self.elements * ELEMENT_NBYTES))


def mtu_needed(elements: int) -> int:
    """The length in bytes of an IP packet with this many elements."""
    return PACKET_HEADERS_NBYTES + elements * ELEMENT_NBYTES


def rebuilt(tree: Tree, nodes: tuple[Node, ...]) -> Tree:
    """The same reduce group on other nodes: a new epoch, so that no packet of the old one counts."""
    return replace(tree, nodes=nodes, epoch=tree.epoch + 1)


def child_ports(tree: Tree) -> Iterator[Egress]:
    """The ports of its switches at which children are: one end of each cable that the tree uses."""
    for node in tree.nodes:
        for child in node.children:
            yield Egress(node.switch, child.port)


def up_links(fabric: Fabric, tree: Tree) -> Iterator[Egress]:
    """The ports through which sums travel towards the root, the hosts' own among them.

    Only those below which somebody gives carry elements; the others carry bare packets.
    """
    for node in tree.nodes:
        for child in node.children:
            if child.gives:
                yield fabric.peers[Egress(node.switch, child.port)]


def down_links(tree: Tree) -> Iterator[Egress]:
    """The ports through which results with elements travel down."""
    for node in tree.nodes:
        for child in node.children:
            if child.takes:
                yield Egress(node.switch, child.port)

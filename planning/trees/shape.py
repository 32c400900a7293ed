"""The tree of switches that makes a reduce group's sums: the one with the fewest, then least busy, cables.

Every cable between switches that a tree takes carries the whole sum up and the whole result down, so the
fewest cables are the fewest bytes.  From each switch as root a tree of shortest paths is grown, level by
level, the furthest first, and the switches of a level share parents wherever they can; the best of these
trees is taken.  Where all cables of a fat-tree, a leaf-spine or a BiGraph are there, no tree has fewer: it
takes one aggregation switch a pod and one core, one spine, or one switch of the other half.  Elsewhere that
is not certain, because to find the smallest tree in any graph is NP-hard (Karp 1972: Steiner tree); of trees
among 14 switches that were cabled at random one in a hundred had a cable too many.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_port, distances
from gradwire.planning.trees.tree import MAX_CHILDREN, Child, Node
from gradwire.traces.seeded import draw

MAX_LEVELS = 16  # of switches; a fat-tree has 3

Uplinks = dict[str, Egress]
"""A tree of switches: the port of each but the root towards the switch above it."""


class NoTree(ValueError):
    """A reduce group that no tree can serve; the text is the reason."""


class Parted(NoTree):
    """No cables join the hosts of the group at all, so they could not send to each other either."""


@dataclass
class Load:
    """What trees put on a fabric so far.

    Seconds for which the cable at each port is busy, either way, and bytes that each root adds up.
    """

    port_s: defaultdict[Egress, float] = field(default_factory=lambda: defaultdict(float))
    root_nbytes: Counter[str] = field(default_factory=Counter)

    def copied(self) -> "Load":
        return Load(self.port_s.copy(), self.root_nbytes.copy())

    def add(self, fabric: Fabric, nodes: Sequence[Node], nbytes: int) -> None:
        """A tree of these nodes adds up sums of `nbytes` in all as well."""
        self.root_nbytes[nodes[0].switch] += nbytes
        for node in nodes[1:]:
            assert node.parent_port is not None
            end = Egress(node.switch, node.parent_port)
            for each in (end, fabric.peers[end]):
                self.port_s[each] += nbytes * 8 / fabric.rates[each]


class _Cost(NamedTuple):
    """What makes a tree worse than another, the first that differs."""

    excess: int  # children and levels beyond what can be
    n_cables: int
    worst_s: float
    busy_s: float
    n_levels: int
    root_nbytes: int
    drawn: int


def tree_nodes(
    fabric: Fabric, givers: Collection[str], takers: Collection[str], load: Load, nbytes: int, seed: int
) -> tuple[Node, ...]:
    """The nodes of the best tree for these hosts, on a fabric that may lack cables.

    `load` is that of other trees and `nbytes` what this one adds up in all.  Of equally short and busy trees
    the seed chooses one.  Raise NoTree if there is none.
    """
    hosts = tuple(dict.fromkeys((*givers, *takers)))
    for host in hosts:
        if host not in fabric.ports:
            raise NoTree(f"{host} has no cable")
    below: defaultdict[str, dict[int, Child]] = defaultdict(dict)
    for host in hosts:
        end = access_port(fabric, host)
        below[end.node][end.port] = Child(end.port, gives=host in givers, takes=host in takers)
    luck = {switch: draw(seed, "tree", switch) for switch in fabric.switches}
    grower = _Grower(fabric, {switch: len(ports) for switch, ports in below.items()}, load, nbytes, luck)
    roots = tuple(below) if len(below) == 1 else [each for each in fabric.switches if each in fabric.ports]
    grown = [(root, up) for root in roots if (up := grower.grown(root)) is not None]
    if not grown:
        raise Parted(f"no cables join {', '.join(sorted(below))}")
    root, up = min(grown, key=lambda tree: grower.cost(*tree))
    nodes = tuple(_nodes(fabric, root, up, below))
    for node in nodes:
        if len(node.children) > MAX_CHILDREN:
            raise NoTree(
                f"{node.switch} would add up {len(node.children)} children, the limit is {MAX_CHILDREN}"
            )
    if grower.cost(root, up).n_levels > MAX_LEVELS:
        raise NoTree(f"the tree would have more than {MAX_LEVELS} levels of switches")
    return nodes


@dataclass(frozen=True)
class _Grower:
    fabric: Fabric
    ends: Mapping[str, int]  # the switches that must be in the tree, and how many of the hosts they have
    load: Load
    nbytes: int
    luck: Mapping[str, int]  # what was drawn for each switch: the least is preferred

    def grown(self, root: str) -> Uplinks | None:
        """A tree of shortest paths to the root; None if it does not reach all."""
        far = distances(self.fabric, root)
        if any(switch not in far for switch in self.ends):
            return None
        rings: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for switch in self.ends:
            rings[far[switch]][switch] = None
        up: Uplinks = {}
        for distance in range(max(rings), 0, -1):
            nearer = {
                switch: [
                    Egress(switch, port)
                    for port, peer in self.fabric.neighbours[switch].items()
                    if far.get(peer) == distance - 1
                ]
                for switch in rings[distance]
            }
            rings[distance - 1] |= dict.fromkeys(self._parents(nearer, rings[distance - 1]))
            up |= self._joined(nearer, rings[distance - 1])
        return up

    def _parents(self, nearer: Mapping[str, Sequence[Egress]], have: Collection[str]) -> Iterator[str]:
        """More parents, so that each switch has one; always the one that serves most of those left."""
        serves: defaultdict[str, set[str]] = defaultdict(set)
        for switch, ports in nearer.items():
            peers = {self._peer(port) for port in ports}
            if peers.isdisjoint(have):
                for peer in peers:
                    serves[peer].add(switch)
        while serves:
            best = min(serves, key=lambda peer: (-len(serves[peer]), self.luck[peer]))
            yield best
            served = serves.pop(best)
            left = {peer: some - served for peer, some in serves.items()}
            serves = defaultdict(set, {peer: some for peer, some in left.items() if some})

    def _joined(self, nearer: Mapping[str, Sequence[Egress]], parents: Collection[str]) -> Uplinks:
        """Each switch by its least busy cable to a parent; of several to the parent with fewest children."""
        n_children: Counter[str] = Counter()
        up: Uplinks = {}
        for switch, ports in nearer.items():
            up[switch] = min(
                (port for port in ports if self._peer(port) in parents),
                key=lambda port: (
                    self._busy_s(port),
                    n_children[self._peer(port)],
                    self.luck[self._peer(port)],
                ),
            )
            n_children[self._peer(up[switch])] += 1
        return up

    def cost(self, root: str, up: Uplinks) -> _Cost:
        busy_s = [self._busy_s(port) for port in up.values()]
        n_children = Counter(self.ends) + Counter(map(self._peer, up.values()))
        n_levels = max(_levels(self.fabric, root, up).values())
        return _Cost(
            excess=max(0, max(n_children.values()) - MAX_CHILDREN, n_levels - MAX_LEVELS),
            n_cables=len(up),
            worst_s=max(busy_s, default=0.0),
            busy_s=fsum(busy_s),  # whatever the order of the cables
            n_levels=n_levels,
            root_nbytes=self.load.root_nbytes[root],
            drawn=self.luck[root],
        )

    def _busy_s(self, port: Egress) -> float:
        """With this tree's own bytes."""
        return self.load.port_s.get(port, 0.0) + self.nbytes * 8 / self.fabric.rates[port]

    def _peer(self, port: Egress) -> str:
        return self.fabric.peers[port].node


def _levels(fabric: Fabric, root: str, up: Uplinks) -> dict[str, int]:
    """The level of each switch, the root's 1, from the root down."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for switch, port in up.items():
        children[fabric.peers[port].node].append(switch)
    levels = {root: 1}
    waiting = [root]
    for switch in waiting:  # which grows
        for child in children[switch]:
            levels[child] = levels[switch] + 1
            waiting.append(child)
    return levels


def _nodes(
    fabric: Fabric, root: str, up: Uplinks, below: Mapping[str, Mapping[int, Child]]
) -> Iterator[Node]:
    """From the root down; `below` has the hosts' ports of each switch."""
    order = list(_levels(fabric, root, up))
    children: defaultdict[str, dict[int, Child]] = defaultdict(dict)
    for switch in reversed(order):  # what is below a switch is known before the switch itself
        children[switch] |= below.get(switch, {})
        if switch != root:
            end = fabric.peers[up[switch]]
            of_switch = children[switch].values()
            gives, takes = any(each.gives for each in of_switch), any(each.takes for each in of_switch)
            children[end.node][end.port] = Child(end.port, gives, takes)
    for switch in order:
        sorted_ports = sorted(children[switch])
        parent_port = None if switch == root else up[switch].port
        yield Node(switch, tuple(children[switch][port] for port in sorted_ports), parent_port)

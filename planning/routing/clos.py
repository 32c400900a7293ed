"""Flows over the planes of a Clos network, level by level, by edge colouring.

A *plane* of a level is what hangs together above its switches: each spine of a leaf-spine; in a
fat-tree of three levels, one aggregation switch of every pod with the cores above them.  Each switch has one
cable to every plane, so the colour of a flow between two switches is the plane that it goes through, and
colouring evenly loads the cables evenly.  Within a plane the same is done again with the switches
that the flows enter and leave it by.  For permutations this is optimal at every level: these networks
are rearrangeably non-blocking (Beneš, 1965).

In a BiGraph every switch of the other side is such a plane for the flows within one side.
"""

from collections import ChainMap, Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.routing.balance import Balance
from gradwire.planning.routing.colouring import balanced_colours
from gradwire.traces.components import components

Ends = tuple[str, str]
"""The switches between which a flow needs a path."""

Way = tuple[Egress, ...]
"""The ports from the one to the other."""

Planes = Mapping[str, Sequence[Egress]]
"""Of each switch the ports into plane 0, 1, 2, ..."""


@dataclass(frozen=True)
class Clos:
    """The switches of one level, all those above them, and the planes of those of them that flows use."""

    fabric: Fabric
    level: frozenset[str]
    above: frozenset[str]
    planes: Planes

    @property
    def n_planes(self) -> int:
        return len(next(iter(self.planes.values())))


def clos(fabric: Fabric, ends: Iterable[Ends]) -> Clos | None:
    """How flows between these switches can be spread over planes; None if this fabric has none for them."""
    members = dict.fromkeys(switch for pair in ends for switch in pair)
    switches = frozenset(fabric.switches)
    level = frozenset(access_switch(fabric, host) for host in fabric.hosts)
    above = switches - level
    planes = _planes(fabric, members, _pieces(fabric, above))
    if planes is None:  # no switch above the others: perhaps all of them meet in single switches
        level = frozenset(members)
        above = switches.intersection(*(fabric.neighbours[switch].values() for switch in members))
        planes = _planes(fabric, members, [{switch} for switch in fabric.switches if switch in above])
    return None if planes is None else Clos(fabric, level, above, planes)


def spread(network: Clos, ends: Sequence[Ends], allowed: Sequence[int], first: int) -> list[Way] | None:
    """A way for each pair of switches, the most important first, through the planes in `allowed`.

    `first` turns the choice among planes that would do equally well.  None where the levels above have
    no planes of their own.
    """
    fabric = network.fabric
    colours = balanced_colours(ends, len(allowed), first)
    ways: list[Way] = [()] * len(ends)
    through: defaultdict[int, list[int]] = defaultdict(list)
    for number, colour in enumerate(colours):
        through[allowed[colour]].append(number)
    for plane, numbers in through.items():
        ups = [network.planes[ends[number][0]][plane] for number in numbers]
        downs = [fabric.peers[network.planes[ends[number][1]][plane]] for number in numbers]
        inside = [(fabric.peers[up].node, down.node) for up, down in zip(ups, downs, strict=True)]
        inner = _within(network, inside, first)
        if inner is None:
            return None
        for number, up, way, down in zip(numbers, ups, inner, downs, strict=True):
            ways[number] = (up, *way, down)
    return ways


def _within(network: Clos, ends: Sequence[Ends], first: int) -> list[Way] | None:
    """The ways within one plane, between the switches that flows enter and leave it by."""
    open_ends = [pair for pair in ends if pair[0] != pair[1]]
    if not open_ends:
        return [()] * len(ends)
    fabric = network.fabric
    members = dict.fromkeys(switch for pair in open_ends for switch in pair)
    level = network.above.intersection(
        peer for switch in network.level for peer in fabric.neighbours[switch].values()
    )
    above = network.above - level
    planes = _planes(fabric, members, _pieces(fabric, above))
    if planes is None:
        return None
    higher = Clos(fabric, level, above, planes)
    ways = spread(higher, open_ends, range(higher.n_planes), first)
    if ways is None:
        return None
    remaining = iter(ways)
    return [next(remaining) if a != b else () for a, b in ends]


def _pieces(fabric: Fabric, switches: Collection[str]) -> list[list[str]]:
    """The switches that are connected without all others."""
    inside = [switch for switch in fabric.switches if switch in switches]
    return components(inside, ((one, peer) for one in inside for peer in fabric.neighbours[one].values()))


def _planes(fabric: Fabric, members: Iterable[str], pieces: Sequence[Collection[str]]) -> Planes | None:
    """The ports into each piece that a member reaches; None unless all reach the same, by one cable each
    and all of a switch's at one rate.
    """
    plane_of = {switch: number for number, piece in enumerate(pieces) for switch in piece}
    ports: dict[str, list[Egress]] = {}
    reached: set[frozenset[int]] = set()
    for member in members:
        into = {
            Egress(member, port): plane_of[peer]
            for port, peer in fabric.neighbours[member].items()
            if peer in plane_of
        }
        if len(set(into.values())) != len(into) or len({fabric.rates[egress] for egress in into}) != 1:
            return None
        reached.add(frozenset(into.values()))
        ports[member] = sorted(into, key=into.__getitem__)
    return ports if len(reached) == 1 else None


def put_by_colours(balance: Balance, fabric: Fabric, first: int) -> None:
    """Put all flows, phase by phase, the longest first; those of earlier phases stay where they are.

    `first` turns the choice among planes that would do equally well.
    """
    links = balance.links
    choosing = {flow: links.ends(flow) for flow in balance.sends if len(links.ways(flow)) > 1}
    for flow in balance.sends:
        if flow not in choosing:
            balance.put(flow, links.ways(flow)[0])
    for network, members in _networks(fabric, choosing):
        for nbytes, planes in _rounds(balance, choosing, members, network.n_planes if network else 0):
            asking = [flow for flow in nbytes if flow in members and flow not in balance.ways]
            asking.sort(key=lambda flow: -nbytes[flow])
            ends = [choosing[flow] for flow in asking]
            ways = spread(network, ends, planes, first) if network else None
            for flow, way in zip(asking, ways or (), strict=False):
                if len(way) == len(links.ways(flow)[0]):  # the shortest
                    balance.put(flow, links.way(way))
            balance.put_greedily([flow for flow in asking if flow not in balance.ways])


def _networks(fabric: Fabric, choosing: Mapping[int, Ends]) -> Iterator[tuple[Clos | None, Collection[int]]]:
    """The flows in sets that are spread each for itself, with the planes of each, if there are any.

    If not all switches have the same planes, those may that flows join, as each side of a BiGraph.
    """
    if not choosing:
        return
    whole = clos(fabric, choosing.values())
    if whole:
        yield whole, choosing.keys()
        return
    for switches in components((switch for ends in choosing.values() for switch in ends), choosing.values()):
        among = frozenset(switches)
        members = {flow: None for flow, (start, _) in choosing.items() if start in among}
        yield clos(fabric, [choosing[flow] for flow in members]), members


def _rounds(
    balance: Balance, choosing: Mapping[int, Ends], members: Collection[int], n_planes: int
) -> Iterator[tuple[Mapping[int, int], Sequence[int]]]:
    """Which flows are coloured together, flow -> bytes, and with which planes.

    With planes enough, each phase alone, and each job has as many planes as flows at one switch at a
    time, and nobody else's: then two jobs never meet, whichever of their phases fall together.  Else the
    first phases of all jobs together, then the second ones, ...
    """
    wanted: dict[int, int] = dict.fromkeys(balance.jobs, 0)
    for demand in balance.demands:
        active = [choosing[flow] for flow in demand.nbytes if flow in members]
        for at_end in (Counter(start for start, _ in active), Counter(end for _, end in active)):
            wanted[demand.job] = max(wanted[demand.job], *at_end.values(), 0)
    begins = dict(zip(wanted, accumulate(wanted.values(), initial=0), strict=False))
    if len(wanted) > 1 and sum(wanted.values()) <= n_planes:
        for demand in balance.demands:
            begin = begins[demand.job]
            yield demand.nbytes, range(begin, begin + wanted[demand.job])
        return
    for demands in zip_longest(*([balance.demands[i] for i in balance.phases(job)] for job in wanted)):
        yield dict(ChainMap(*(dict(demand.nbytes) for demand in demands if demand))), range(n_planes)

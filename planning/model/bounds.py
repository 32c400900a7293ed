"""Lower bounds: the shortest time in which any routing could carry a phase over a fabric.

Flows are not split: each takes one path.  Every bound is one of a cut: a set of links of which each flow
must take a known number, and the time in which those links can carry the flows that must.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_switch, distances, host_port
from gradwire.planning.model.phases import Pair
from gradwire.planning.transport import payload_efficiency
from gradwire.traces.components import components


@dataclass(frozen=True)
class Cuts:
    """The cuts of a fabric that are looked at.

    *Host links*, each alone.  *Regions*: every switch with hosts, and every cluster of them that is
    closer together than to the rest with the switches that are nearer to it (the pods of a fat-tree);
    a flow that leaves one takes one of its links outward.  *Sides*: where every cable joins a switch
    of one side to one of the other, as in a BiGraph, a flow crosses each way as often as its shortest path
    does, so that traffic within one side counts on both ways.
    """

    fabric: Fabric

    @cached_property
    def far(self) -> dict[str, dict[str, int]]:
        """Cables between each switch with hosts and every other switch."""
        access = dict.fromkeys(self.access.values())
        return {switch: distances(self.fabric, switch) for switch in access}

    @cached_property
    def access(self) -> dict[str, str]:
        """The switch of each host that has a cable."""
        return {
            host: access_switch(self.fabric, host) for host in self.fabric.hosts if host in self.fabric.ports
        }

    @cached_property
    def inner(self) -> dict[Egress, str]:
        """The links between switches, and the switch that each leads to."""
        switches = set(self.fabric.switches)
        return {
            egress: peer.node
            for egress, peer in self.fabric.peers.items()
            if egress.node in switches and peer.node in switches
        }

    @cached_property
    def regions(self) -> tuple[frozenset[str], ...]:
        regions = dict.fromkeys(frozenset([switch]) for switch in self.far)
        for distance in sorted(
            {near for far in self.far.values() for s, near in far.items() if s in self.far}
        ):
            near = ((a, b) for a, far in self.far.items() for b, d in far.items() if d <= distance)
            clusters = components(self.far, near)
            if len(clusters) == 1:  # and so it is at every larger distance
                break
            regions |= dict.fromkeys(_region(self.far, cluster) for cluster in clusters)
        return tuple(regions)

    @cached_property
    def side(self) -> dict[str, int] | None:
        """0 or 1 for each switch; None unless every cable joins different sides."""
        start = next(iter(self.far))
        side = {switch: distance % 2 for switch, distance in self.far[start].items()}
        whole = len(side) == len(self.fabric.switches)
        return side if whole and all(side[e.node] != side[to] for e, to in self.inner.items()) else None

    @cached_property
    def rates_out(self) -> tuple[Sequence[int], ...]:
        """The rates of the links that leave each region."""
        return tuple(self._rates(region) for region in self.regions)

    @cached_property
    def rates_across(self) -> tuple[Sequence[int], Sequence[int]]:
        """The rates of the links from side 0 to side 1, and back; without sides those of all, twice."""
        if self.side is None:
            every = [self.fabric.rates[egress] for egress in self.inner]
            return every, every
        zero = {switch for switch, side in self.side.items() if side == 0}
        return self._rates(zero), self._rates(set(self.fabric.switches) - zero)

    @cached_property
    def regions_with(self) -> dict[str, tuple[int, ...]]:
        """The numbers of the regions that hold each switch with hosts."""
        return {
            switch: tuple(number for number, region in enumerate(self.regions) if switch in region)
            for switch in self.far
        }

    def _rates(self, region: Iterable[str]) -> list[int]:
        inside = set(region)
        return [
            self.fabric.rates[egress]
            for egress, to in self.inner.items()
            if egress.node in inside and to not in inside
        ]


def phase_bound_s(cuts: Cuts, placement: Sequence[str], nbytes: Mapping[Pair, int]) -> float:
    """The least time, in seconds, in which the phase's pairs of ranks can send their bytes.

    `placement[r]` is the host of rank r.  Payload at the efficiency of TCP in full frames.  Pairs that no
    cables join, as after failures, do not count.
    """
    mtu_nbytes, loads = cuts.fabric.mtu_nbytes, _loads(cuts, placement, nbytes)
    return max((least_s(sizes, rates, mtu_nbytes) for sizes, rates in loads), default=0.0)


def least_s(nbytes: Sequence[int], rates_bps: Sequence[int], mtu_nbytes: int) -> float:
    """The least time in which links of these rates carry flows of these sizes, none of them split.

    Their sum over the sum of the rates; and the j largest flows need j places: if the j-th place of
    links that take flows of one size comes free after t_j, they take at least as long as j flows of the
    j-th size.  For n equal flows on u equal links that is ceil(n / u).
    """
    if not nbytes:
        return 0.0
    if not rates_bps:
        raise ValueError("a flow must leave a switch that has no cable going out")
    if len(nbytes) == 1:  # as at each host of each phase
        return nbytes[0] / max(rates_bps) * 8 / payload_efficiency(mtu_nbytes)
    largest_first = np.sort(np.asarray(nbytes, dtype=float))[::-1]
    whole = float(largest_first.sum()) / sum(rates_bps)
    longest = float((largest_first * _places(len(nbytes), rates_bps)).max())
    return max(whole, longest) * 8 / payload_efficiency(mtu_nbytes)


def _places(n: int, rates_bps: Sequence[int]) -> npt.NDArray[np.float64]:
    """When the first n flows of size 1 are through at the earliest, one after the other on each link."""
    times = []
    for rate_bps in set(rates_bps):
        n_links = rates_bps.count(rate_bps)
        times.append(np.repeat(np.arange(1, -(-n // n_links) + 1) / rate_bps, n_links))
    return np.sort(np.concatenate(times))[:n]


def _loads(
    cuts: Cuts, placement: Sequence[str], nbytes: Mapping[Pair, int]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """(sizes of the flows that must cross a cut, rates of its links)."""
    fabric = cuts.fabric
    sent, received = [0] * len(placement), [0] * len(placement)
    leaving: defaultdict[int, list[int]] = defaultdict(list)
    entering: defaultdict[int, list[int]] = defaultdict(list)
    across: tuple[list[int], list[int]] = ([], [])
    for (src, dst), size in nbytes.items():
        a, b = cuts.access.get(placement[src]), cuts.access.get(placement[dst])
        if a is None or b is None or b not in cuts.far[a]:
            continue
        sent[src] += size
        received[dst] += size
        for number in cuts.regions_with[a]:
            if b not in cuts.regions[number]:
                leaving[number].append(size)
        for number in cuts.regions_with[b]:
            if a not in cuts.regions[number]:
                entering[number].append(size)
        for sizes, times in zip(across, _crossings(cuts, a, b), strict=True):
            sizes.extend([size] * times)
    for rank, host in enumerate(placement):
        if sent[rank] or received[rank]:
            yield [max(sent[rank], received[rank])], [fabric.rates[host_port(host)]]
    for flows in (leaving, entering):  # cables are as fast one way as the other
        for number, sizes in flows.items():
            yield sizes, cuts.rates_out[number]
    yield from zip(across, cuts.rates_across, strict=True)


def _crossings(cuts: Cuts, a: str, b: str) -> tuple[int, int]:
    """How often a flow from switch a to b takes a link of the one way, and of the other, at least."""
    distance = cuts.far[a][b]
    if cuts.side is None:
        return distance, 0
    more, fewer = -(-distance // 2), distance // 2
    return (more, fewer) if cuts.side[a] == 0 else (fewer, more)


def _region(far: Mapping[str, Mapping[str, int]], cluster: Collection[str]) -> frozenset[str]:
    """The cluster, and the switches that are nearer to it than to any other switch with hosts."""
    region, members = set(cluster), frozenset(cluster)
    for switch in {switch for member in cluster for switch in far[member]} - far.keys():
        mine = min(far[member].get(switch, inf) for member in cluster)
        others = min(near.get(switch, inf) for s, near in far.items() if s not in members)
        if mine < others:
            region.add(switch)
    return frozenset(region)

"""The first ways of all flows, before any search: by colours where the fabric has planes, else greedily."""

from collections import ChainMap, Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest

from planning.fabrics.fabric import Fabric
from planning.routing.balance import Balance
from planning.routing.clos import Clos, Ends, clos, spread


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
            found = spread(network, ends, planes, first) if network else None
            for flow, way in zip(asking, found or (), strict=False):
                if len(way) == len(links.ways(flow)[0]):  # the shortest
                    balance.put(flow, links.way(way))
            balance.put_greedily([flow for flow in asking if flow not in balance.ways])


def _networks(fabric: Fabric, choosing: Mapping[int, Ends]) -> Iterator[tuple[Clos | None, Collection[int]]]:
    """The flows in groups that are spread each for itself, with the planes of each, if there are any.

    If not all switches have the same planes, those may that flows join, as each side of a BiGraph.
    """
    if not choosing:
        return
    whole = clos(fabric, choosing.values())
    if whole:
        yield whole, choosing.keys()
        return
    for members in _joined(choosing):
        yield clos(fabric, [choosing[flow] for flow in members]), members


def _joined(choosing: Mapping[int, Ends]) -> list[set[int]]:
    """The flows, those together whose switches hang together by flows."""
    at: defaultdict[str, list[int]] = defaultdict(list)
    for flow, ends in choosing.items():
        for switch in ends:
            at[switch].append(flow)
    groups: list[set[int]] = []
    seen: set[str] = set()
    for start in at:
        group: set[int] = set()
        todo = [start]
        while todo:
            switch = todo.pop()
            if switch not in seen:
                seen.add(switch)
                group.update(at[switch])
                todo += [end for flow in at[switch] for end in choosing[flow]]
        if group:
            groups.append(group)
    return groups


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

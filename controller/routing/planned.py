"""Planned: routes that know the schedule, so that flows that are active together meet as little as can be.

For every phase the flows are spread over the shortest paths such that the busiest link is as little busy
as possible.  Where the fabric is a Clos network, by edge colouring, which is optimal for
permutations; elsewhere each flow takes the least busy way, the largest flow first.  Then flows are moved off
the busiest link of each phase as long as that helps.  No plan is worse than that of another policy.
"""

from collections.abc import Iterator, Sequence
from random import Random

from controller.routing.balance import Balance
from controller.routing.coloured import put_by_colours
from controller.routing.demand import demands
from controller.routing.direct import direct
from controller.routing.dmodk import dmodk
from controller.routing.ecmp import ecmp
from controller.routing.links import Links
from controller.routing.relief import SLACK, improve, shake
from controller.routing.shortest import Path
from emu.fabric import Fabric
from emu.plan import Flow
from emu.refused import Refused
from emu.seeded import draw
from traces.schedule import Schedule

OTHERS = (direct, dmodk, ecmp)


def planned(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """A flow that sends nothing, such as the way back of a one-way connection, takes ecmp's path."""
    links = Links(fabric, placement, flows)
    asked = demands(fabric, placement, flows, schedule)
    balance = Balance(links, asked)
    put_by_colours(balance, fabric, draw(seed, "planned") % 2**16)
    improve(balance)
    shake(balance, Random(draw(seed, "shake")))
    best_s, ways = balance.total_s(), balance.ways
    paths = list(ecmp(fabric, placement, flows, schedule, seed))
    for flow, way in ways.items():
        paths[flow] = links.path(flow, way)
    if best_s > sum(demand.bound_s for demand in asked) * (1 + SLACK):
        for other in _others(fabric, placement, flows, schedule, seed):
            rival = Balance(links, asked)
            for flow in ways:
                rival.put(flow, links.way(other[flow]))
            if rival.total_s() < best_s * (1 - SLACK):
                best_s, paths = rival.total_s(), other
    return paths


def reassigned(
    fabric: Fabric,
    placement: Sequence[str],
    flows: Sequence[Flow],
    schedule: Schedule,
    affected: Sequence[int],
) -> dict[int, Path]:
    """New paths for the flows numbered in `affected`, around which the others keep theirs.

    `fabric` is what is left of it, with names and ports as they were; paths are the shortest there.
    Flows that have no way left are left out.
    """
    links = Links(fabric, placement, flows)
    balance = Balance(links, demands(fabric, placement, flows, schedule))
    moving = {flow for flow in affected if links.ways(flow)}
    for flow in balance.sends.keys() - set(affected):
        balance.put(flow, links.way(flows[flow].path))
    balance.put_greedily([flow for flow in affected if flow in moving and flow in balance.sends])
    improve(balance, moving)
    return {flow: links.path(flow, balance.ways.get(flow, links.ways(flow)[0])) for flow in moving}


def _others(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> Iterator[list[Path]]:
    """What the policies that do not know the schedule make of it, where they serve this fabric."""
    for policy in OTHERS:
        try:
            yield policy(fabric, placement, flows, schedule, seed)
        except Refused:
            continue

"""Planned routes: they know the schedule, and keep flows apart that are active at the same time.

For every phase the flows are spread over the shortest paths such that the busiest link is as little busy
as possible.  Where the fabric is a Clos network, by edge colouring, which is optimal for
permutations; elsewhere each flow takes the least busy way, the largest flow first.  Then flows are moved off
the busiest link of each phase as long as that helps.

That makes phases short one by one, which is not the whole: phases overlap, and jobs drift against each other.
So the result is held against `direct`, `dmodk` and `ecmp` of the same seed in the fluid model, and the
fastest is taken: none of these three is faster there than a plan.  For a schedule of more than `MOST_SENDS`,
where that would take long, the sum of the phases' times is compared instead, and only of that it holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.model.predict import least_s
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Flow
from gradwire.planning.refused import Refused
from gradwire.planning.routing.balance import Balance, Demand, demands
from gradwire.planning.routing.clos import put_by_colours
from gradwire.planning.routing.links import Links
from gradwire.planning.routing.oblivious import direct, dmodk, ecmp
from gradwire.planning.routing.relief import SLACK, improve, shake
from gradwire.planning.routing.shortest import Path
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.seeded import draw

OTHERS = (direct, dmodk, ecmp)
MOST_SENDS = 20_000  # an alltoall of 128 ranks has 16,256, and its time in the fluid model takes 1 to 3 s


def planned(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """The path of each flow, spread so that flows that are active together share as few links as can be.

    A flow that sends nothing, such as the way back of a one-way connection, takes ecmp's path.  The
    seed decides between paths that do equally well.
    """
    links = Links(fabric, placement, flows)
    asked = demands(fabric, placement, flows, schedule)
    balance = Balance(links, asked)
    put_by_colours(balance, fabric, draw(seed, "planned") % 2**16)
    improve(balance)
    shake(balance, Random(draw(seed, "shake")))
    paths = ecmp(fabric, placement, flows, schedule, seed)
    for flow, way in balance.ways.items():
        paths[flow] = links.path(flow, way)
    if len(schedule.sends) > MOST_SENDS:
        score = partial(_barrier_s, links, asked)
        enough_s = sum(demand.bound_s for demand in asked)
    else:
        score = partial(_fluid_s, fabric, flows, replace(schedule, send_delay_ns=0))
        enough_s = least_s(fabric, placement, schedule)
    return _fastest(paths, _others(fabric, placement, flows, schedule, seed), score, enough_s)


def _fastest(
    paths: list[Path], others: Iterable[list[Path]], score: Callable[[list[Path]], float], enough_s: float
) -> list[Path]:
    """These paths, or the first of the others that nothing else beats; the others are not looked at if
    these take no longer than `enough_s`.
    """
    best_s = score(paths)
    if best_s <= enough_s * (1 + SLACK):
        return paths
    for other in others:
        seconds = score(other)
        if seconds < best_s * (1 - SLACK):
            best_s, paths = seconds, other
    return paths


def _fluid_s(fabric: Fabric, flows: Sequence[Flow], schedule: Schedule, paths: Sequence[Path]) -> float:
    routed = [replace(flow, path=path) for flow, path in zip(flows, paths, strict=True)]
    return simulate(fabric, routed, schedule).time_s


def _barrier_s(links: Links, asked: Sequence[Demand], paths: Sequence[Path]) -> float:
    """The time if every phase waited for the one before it."""
    balance = Balance(links, asked)
    for flow in balance.sends:
        balance.put(flow, links.way(paths[flow]))
    return balance.total_s()


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

"""Adapts a plan to cables that are down: the flows on them get other paths, the rest keep theirs."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.paths import access_switch, distances
from gradwire.planning.plan import Plan
from gradwire.planning.routing.planned import reassigned
from gradwire.traces.schedules.schedule import Schedule


def rerouted(plan: Plan, down: Collection[Link]) -> Plan:
    """The plan with new paths, shortest without the cables in `down`; itself if no flow can be helped.

    Whatever policy chose the first paths, the new ones are spread so that the phases in which their flows
    send become the least longer.  A flow that has no way left, as behind the cable of a host, keeps its
    path.  `plan.prediction` stays that of the fabric as a whole.
    """
    inner = frozenset(down).intersection(plan.fabric.inner_links)
    dead = {end for link in inner for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port))}
    affected = [number for number, flow in enumerate(plan.flows) if not dead.isdisjoint(flow.path)]
    if not affected:
        return plan
    left = without(plan.fabric, inner)
    paths = reassigned(left, plan.placement, plan.flows, _possible(plan, left), affected)
    if not paths:
        return plan
    flows = tuple(
        replace(flow, path=paths[number]) if number in paths else flow
        for number, flow in enumerate(plan.flows)
    )
    return replace(plan, flows=flows)


def _possible(plan: Plan, left: Fabric) -> Schedule:
    """The schedule without the sends between switches that have no way to each other: they take no link."""
    access = [access_switch(left, host) for host in plan.placement]
    far = {switch: distances(left, switch) for switch in set(access)}
    sends = plan.schedule.sends
    reaches = np.array([[to in far[here] for to in access] for here in access])
    possible = np.flatnonzero(reaches[sends.src, sends.dst])
    if len(possible) == len(sends):
        return plan.schedule
    return replace(plan.schedule, sends=sends.chosen(possible))


def without(fabric: Fabric, down: Collection[Link]) -> Fabric:
    """The fabric with cables left out; names, port numbers and dpids stay.  Its `spec` is not true of it."""
    return replace(fabric, links=tuple(link for link in fabric.links if link not in down))
